"""Launches that hang, for notebook 15: cases that wavesim ships, changed and asked about.

Example: `HangAnswer(judge(hang_case("mpk-775"))).headline` says that 68 of 128 workers find room.
"""

from dataclasses import replace
from pathlib import Path

import wavesim.safety.hang
from wavesim.safe_io.annotated import typed
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.situation_file import load_situation

CASES = Path(wavesim.safety.hang.__file__).parent / "cases"
MEGAKERNEL, SCHEDULERS = "mpk-775", "schedulers"


@typed
def hang_case(name: str) -> Situation:
    """A case by the name of its file. Raises `RecordingError` for one that is not there."""
    return load_situation(CASES / f"{name}.toml")


@typed
def with_schedulers(count: int) -> Situation:
    """The megakernel's launches with as many blocks of schedulers."""
    found = hang_case(MEGAKERNEL)
    operations = [replace(one, blocks=count) if one.name == SCHEDULERS else one for one in found.operations]
    return replace(found, operations=operations)
