"""Failures provoked on purpose, to see whether every library call that runs out of time says so.

Example: `PYTHONPATH=.:gpu:tests/support python -m faults --calls 100000 --out faults.json` holds all
SMs with a co-tenant at random moments, judges every result on the device and compares with what was reported.
"""

import os
import sys
from pathlib import Path

# For processes that are started: this package and all that this process finds.
_PATHS = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(_PATHS)}
