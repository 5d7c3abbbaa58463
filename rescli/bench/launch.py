"""Starts the processes of a group on this machine, and sees to it that none outlives the others."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import uuid
from typing import TYPE_CHECKING

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rescli.bench.environment import usable_cores
from rescli.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_HERE = "127.0.0.1"
# How often the launcher looks whether all processes are still there.
_LOOKS_EVERY_S = 0.1


def launch(
    command: Sequence[str], processes: int, *, threads: int | None = None, spoken_codes: Collection[int] = ()
) -> int:
    """Run a command in several processes at once, by PyTorch's own launcher, and wait until all have ended.

    Each finds its place in the group in its environment. Any free port will do. If one fails or Ctrl-C is pressed,
    the others are ended as well.

    Args:
        command: The program and its arguments.
        processes: How many.
        threads: Threads that one operation may use in each; None to share the cores, unless the environment says it.
        spoken_codes: Exit codes with which a process has said itself why it failed.

    Returns:
        0 if all went well, else the exit code of the process that failed first.

    Raises:
        SpecError: One died without a word.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    with tempfile.TemporaryDirectory(prefix="rescli-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=f"{_HERE}:0",
            local_addr=_HERE,
            max_restarts=0,
            monitor_interval=_LOOKS_EVERY_S,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        program, *arguments = command
        try:
            with _environment(_additions(processes, threads)), _undisturbed():
                elastic_launch(config, program)(*arguments)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode in spoken_codes:
                return failure.exitcode
            how = _ending(failure.exitcode)
            raise SpecError(
                f"process {rank} of {processes} {how}",
                hint="--processes 1 and --parallel none show whether it is the block or the machine's memory",
            ) from None
        except SignalException as error:
            if error.sigval is signal.SIGINT:
                raise KeyboardInterrupt from None
            signal.raise_signal(error.sigval)
    return 0


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}, without a word"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def _additions(processes: int, threads: int | None) -> Mapping[str, str]:
    """Give what the environment of the processes has beside that of this one, unless it is there already."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    wanted = {
        "OMP_NUM_THREADS": str(threads or max(1, usable_cores() // processes)),
        # The processes are all here, and a name of this machine need not lead anywhere.
        "GLOO_SOCKET_IFNAME": loopback,
        # What a library mumbles in each process is no message of ours.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    return {name: value for name, value in wanted.items() if name not in os.environ}


@contextlib.contextmanager
def _environment(additions: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(additions)
    try:
        yield
    finally:
        for name in additions:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep the launcher's log off the terminal, and put back the signal handlers that it installs."""
    handlers = {number: signal.getsignal(number) for number in _signals()}
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _signals() -> tuple[signal.Signals, ...]:
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))
