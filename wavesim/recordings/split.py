"""The development and the test split of every set of measurements, fixed before anything was tuned.

Example: "gpt3-mlp 128x256 M=1536" has an even hash and may be looked at while the model is improved;
"gpt3-mlp 128x256 M=1024" has an odd one and is only scored. All orders and plans of a size are in the same
split, so that nothing learnt on one of them is tested on another.

The hash also decides for cases that are yet to be measured; `recordings/split.json` lists those there are.
"""

import json
from hashlib import sha256
from typing import Literal

from wavesim.recordings.shipped import FOLDER

FILE = FOLDER / "split.json"
TRIAL = "trial "
Split = Literal["development", "test"]


def split_of(case: str) -> Split:
    """The split of a case by its name: development if the first byte of its SHA-256 is even, or for a trial.

    Trials of a measurement, whose names begin with that word, were looked at before anything was predicted.
    """
    if case.startswith(TRIAL):
        return "development"
    return "test" if sha256(case.encode()).digest()[0] % 2 else "development"


def committed_split() -> dict[str, Split]:
    """The split of every case there was, as committed before tuning."""
    split: dict[str, list[str]] = json.loads(FILE.read_text())["halves"]
    return {case: _checked(name) for name, cases in split.items() for case in cases}


def _checked(name: str) -> Split:
    if name not in ("development", "test"):
        raise ValueError(f"{FILE}: split {name!r}; it must be development or test")
    return "test" if name == "test" else "development"
