"""What code answers: a hash of the files that predictions are made by, and the Python that runs them.

Example: a worker of another commit, or with an edited file, has another hash, so that it is given no work and
what it answered before is not taken for today's answer.
"""

import hashlib
import sys
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# Rooms whose code no prediction runs.
OTHER_ROOMS = frozenset({"bench", "cli", "lint", "litmus", "profile", "teaching", "view", "widgets"})


@cache
def code_hash() -> str:
    """Of every Python and TOML file of the rooms that predict."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        inside = path.relative_to(PACKAGE)
        if path.suffix in (".py", ".toml") and inside.parts[0] not in OTHER_ROOMS:
            digest.update(f"{inside.as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def code_identity() -> str:
    """What a worker must share with whoever asks it, in words that tell two apart."""
    return f"wavesim {code_hash()}, Python {sys.version_info.major}.{sys.version_info.minor}"
