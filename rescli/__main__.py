"""Where ``rescli`` and ``python -m rescli`` start."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings


def main() -> int:
    """Run the command line on the arguments of this process.

    Returns:
        The exit code, for ``sys.exit``.
    """
    # torch says so where NumPy is not installed, and rescli does not need it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        # Here, not above: Ctrl-C while this is imported ends as quietly as later.
        from rescli.cli.app import run  # noqa: PLC0415

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    if threading.active_count() > 1:
        # Threads that the user's code, or a check that was interrupted, has left behind: waiting for them might take
        # forever, and ending Python under one that runs torch aborts the process.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
