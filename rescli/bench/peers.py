"""A group of processes that measure together: who is in it, and how they tell each other things.

They talk through PyTorch's key-value store, not through the collective operations that the block itself uses: a process
that waits for a key sleeps, can stop waiting, and never gets hold of somebody else's message.
"""

from __future__ import annotations

import contextlib
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from rescli.bench.failure import SilentPeersError
from rescli.errors import HardwareError

if TYPE_CHECKING:
    from rescli.bench.place import Place

Message = TypeVar("Message")

# Longer than any call of a block that somebody would wait for.
_LONGEST_SILENCE = timedelta(minutes=30)


class Peers:
    """The processes of a group, as one of them sees them.

    Args:
        place: This process.
        store: What all of them can write to.
    """

    def __init__(self, place: Place, store: Store) -> None:
        self.place = place
        self._store = store
        self._round = 0
        self._lost = False

    def exchange(self, message: Message, *, patience: timedelta = _LONGEST_SILENCE) -> list[Message]:
        """Tell all others something and hear what they tell; all must call this equally often.

        Args:
            message: Anything that can be pickled.
            patience: How long to wait for the others.

        Returns:
            The messages by rank, the own one among them.

        Raises:
            SilentPeersError: One did not say anything, or has ended.
        """
        if self._lost:
            # What is said now would be taken for an answer to the last question.
            raise SilentPeersError(f"process {self.place.rank} has lost the others")
        keys = [f"{self._round}/{rank}" for rank in range(self.place.size)]
        try:
            self._store.set(keys[self.place.rank], pickle.dumps(message))  # type: ignore[arg-type] # bytes will do
            self._store.wait(keys, patience)
            told = self._store.multi_get(keys)
            if self._round:
                # Whoever is in this round has read everything of the last one.
                self._store.delete_key(f"{self._round - 1}/{self.place.rank}")
        except RuntimeError as error:
            self._lost = True
            with contextlib.suppress(RuntimeError):
                # Whoever comes later must not take it for an answer.
                self._store.delete_key(keys[self.place.rank])
            raise SilentPeersError(f"process {self.place.rank} hears nothing of the others") from error
        self._round += 1
        return [pickle.loads(text) for text in told]  # noqa: S301 - written by this very program


def join(place: Place, device: torch.device) -> Peers:
    """Enter the group that this process was started in, and make it the default one of ``torch.distributed``.

    Args:
        place: This process.
        device: Where its blocks run: gloo connects CPUs, NCCL GPUs.

    Raises:
        HardwareError: This PyTorch cannot do it.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    if not dist.is_available() or (backend == "nccl" and not dist.is_nccl_available()):
        raise HardwareError(
            f"--parallel ddp: this PyTorch ({torch.__version__}) is built without {backend}",
            hint="--device cpu measures on the CPU" if backend == "nccl" else "",
        )
    store, _, _ = next(rendezvous("env://", place.rank, place.size))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        store=PrefixStore("block", store),
        rank=place.rank,
        world_size=place.size,
        device_id=device if device.type == "cuda" else None,
    )
    return Peers(place, PrefixStore("rescli", store))


def leave() -> None:
    """Leave the group, after all have said what they had to say."""
    if dist.is_initialized():
        dist.destroy_process_group()
