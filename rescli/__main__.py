"""Where ``rescli`` and ``python -m rescli`` start."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line on the arguments of this process.

    Returns:
        The exit code, for ``sys.exit``.
    """
    try:
        # Here, not above: Ctrl-C while this is imported ends as quietly as later.
        from rescli.cli.app import run  # noqa: PLC0415

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
