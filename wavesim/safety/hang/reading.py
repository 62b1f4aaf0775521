"""A situation from whatever file there is: TOML, a launch recorder's JSON, a mirror, or a profile.

Example: the first bytes decide, not the name, except that TOML ends in .toml.
"""

from pathlib import Path

from wavesim.errors import DescriptionError, RecordingError
from wavesim.safe_io.reading import open_data
from wavesim.safety.hang.autopsy import Autopsy
from wavesim.safety.hang.from_profile import is_profile, situation_of_profile
from wavesim.safety.hang.ground import Ground
from wavesim.safety.hang.mirror import MAGIC, Mirror, load_mirror
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.situation_file import load_situation, with_waits
from wavesim.safety.hang.verdict import HangVerdict, judge, verdict_after

FIRST_BYTES = 4_096


def verdict_on(path: Path | None, mirror: Path | None = None, waits: Path | None = None) -> HangVerdict:
    """What there is to say of files: before launch, or after a hang with what a mirror file has.

    The files are those of `read_files`, which says what is raised.
    """
    return verdict_of(*read_files(path, mirror, waits))


def verdict_of(situation: Situation, mirror: Mirror | None) -> HangVerdict:
    """The verdict on a situation, after a hang with its mirror."""
    if mirror is None:
        return judge(situation)
    return verdict_after(Autopsy(Ground(situation), mirror))


def read_files(
    path: Path | None, mirror: Path | None = None, waits: Path | None = None
) -> tuple[Situation, Mirror | None]:
    """The situation, and the mirror where there is one.

    Without `path` the mirror has the launches, too. `waits` is a TOML file of waits and semaphores, for a
    profile. Raises `RecordingError` and `DescriptionError`.
    """
    if path is None:
        if mirror is None:
            raise DescriptionError(
                "FILE is missing: give the launches, or --mirror with a mirror that has them"
            )
        load_mirror(mirror)  # which refuses any other file
        path, mirror = mirror, None
    with open_data(path) as file:
        start = file.read(FIRST_BYTES)
    if not start:
        raise RecordingError(f"{path}: the file is empty")
    if start.startswith(MAGIC):
        if mirror is not None:
            raise DescriptionError(
                f"{path} is a mirror itself; leave --mirror out, or give the launches as FILE"
            )
        mirror = path
        found = load_mirror(path)
        if found.situation is None:
            raise RecordingError(
                f"{path}: this mirror has no launches; give a file that has them, and this one as --mirror"
            )
        situation = found.situation
    else:
        situation = _situation(path, start)
    if waits is not None:
        situation = with_waits(situation, waits)
    return situation, load_mirror(mirror) if mirror is not None else None


def _situation(path: Path, start: bytes) -> Situation:
    if path.suffix != ".toml" and is_profile(path, start):
        return situation_of_profile(path)
    if path.suffix != ".toml" and not start.lstrip().startswith((b"{", b"[")):
        raise RecordingError(
            f"{path}: neither JSON, nor a mirror, nor a profile in SQLite or gzip; a file of TOML must be "
            "named so: NAME.toml"
        )
    return load_situation(path)
