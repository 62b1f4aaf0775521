"""`python -m wavesim`: the same as the command `wavesim`, which starts here too."""

import sys

from wavesim.safe_io.signals import end_at_once


def main() -> int:
    """Runs the command line; a signal is heard before its imports, which take most of a short command."""
    end_at_once("wavesim")
    from wavesim.cli.command_line import main as run  # noqa: PLC0415  # see above

    return run()


if __name__ == "__main__":
    sys.exit(main())
