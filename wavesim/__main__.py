"""`python -m wavesim`: the same as the command `wavesim`."""

import sys

from wavesim.cli.command_line import main

sys.exit(main())
