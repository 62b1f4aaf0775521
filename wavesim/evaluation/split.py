"""Development and test halves of every set of measurements, fixed before anything was tuned.

Example: "gpt3-mlp 128x256 M=1536" has an even hash and may be looked at while the model is improved;
"gpt3-mlp 128x256 M=1024" has an odd one and is only scored. All orders and plans of a size go to the same
half, so that nothing learnt on one of them is tested on another.

The hash decides for cases that are yet to be measured too; `recordings/split.json` lists those there are.
"""

import json
from hashlib import sha256
from typing import Literal

from wavesim.recordings.shipped import FOLDER

SPLIT = FOLDER / "split.json"
Half = Literal["development", "test"]


def half_of(case: str) -> Half:
    """The half of a case by its name: development if the first byte of its SHA-256 is even."""
    return "test" if sha256(case.encode()).digest()[0] % 2 else "development"


def committed_split() -> dict[str, Half]:
    """The half of every case there was, as committed before tuning."""
    halves: dict[str, list[str]] = json.loads(SPLIT.read_text())["halves"]
    return {case: _half(half) for half, cases in halves.items() for case in cases}


def _half(word: str) -> Half:
    if word not in ("development", "test"):
        raise ValueError(f"{SPLIT}: half {word!r}; it must be development or test")
    return "test" if word == "test" else "development"
