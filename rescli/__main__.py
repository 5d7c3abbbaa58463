"""Where ``rescli`` and ``python -m rescli`` start."""

from __future__ import annotations

import sys
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

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
