"""A profile from any file that wavesim reads: Kineto JSON, plain or gzipped, or an Nsight Systems export.

Example: the first bytes decide, not the name: "SQLite format 3" or else JSON.
"""

from dataclasses import replace
from pathlib import Path

import wavesim
from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.profile.kineto import load_kineto
from wavesim.profile.nsight import SQLITE_MAGIC, load_nsight
from wavesim.profile.profile import Profile
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.reading import open_data

EXAMPLE = Path(wavesim.__file__).parent / "recordings" / "profiles" / "h100-qwen1.5-0.5b.json.gz"


@typed
def load_profile(path: str | Path, device: str | None = None) -> Profile:
    """Reads a profile. `device` names a catalogued device that all of it is taken to have run on.

    Raises `RecordingError` in one line for what is no profile, `DescriptionError` for an unknown device.
    """
    path = Path(path)
    known = None if device is None else devices.load(device)
    with open_data(path) as file:
        start = file.read(len(SQLITE_MAGIC))
    if not start:
        raise RecordingError(f"{path}: the file is empty")
    profile = load_nsight(path) if start == SQLITE_MAGIC else load_kineto(path)
    if known is None:
        return profile
    notes = [note for note in profile.notes if "--device" not in note]
    return replace(
        profile,
        devices=dict.fromkeys(profile.devices, known),
        notes=(*notes, f"Taken to have run on {known.name}, as asked."),
    )
