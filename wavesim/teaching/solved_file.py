"""Which exercises a reader has solved, kept in a file beside the notebooks: it survives kernel and browser.

Example: after `%load_ext wavesim.teaching` a right answer to 1.1 adds "1.1" to `exercises-done.txt`, and
the reader is told "1 of 3 of this notebook solved". Nothing is kept before, and nothing of an answer itself.
"""

import re
from collections.abc import Collection
from pathlib import Path

from wavesim.errors import OutputError, RecordingError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import append_line

FILE = "exercises-done.txt"
MOST_BYTES = 10_000  # of a file that is read: some hundred numbers
NUMBER = re.compile(r"\d{1,3}\.\d{1,3}", re.ASCII)
_folder: Path | None = None


def keep_in(folder: Path | None) -> None:
    """From now on solved exercises are kept in a file in this folder; None keeps nothing."""
    global _folder  # noqa: PLW0603  # one reader, one kernel
    _folder = folder


def solved() -> set[str]:
    """Their numbers; empty where nothing is kept, or the file cannot be read or is no list of ours."""
    try:
        return set() if _folder is None else _listed(_folder / FILE)
    except (OutputError, RecordingError):
        return set()


def _listed(path: Path) -> set[str]:
    """What a list of ours holds. Raises `RecordingError`: no file, or another's."""
    words = read_text(path, MOST_BYTES).split("\n") if path.exists() else []
    if foreign := next((word for word in words if word and not NUMBER.fullmatch(word)), ""):
        raise RecordingError(f"{path}: {shown(foreign)} is no exercise's number; move the file away")
    return {word for word in words if word}


def remember(number: str, lesson: Collection[str]) -> str:
    """Keeps that an exercise is solved. Returns how many of its notebook's are, or why that is not kept.

    Several kernels may keep theirs in one file: each adds its lines, under the file's lock.
    """
    if _folder is None:
        return ""
    path = _folder / FILE
    try:
        if number not in _listed(path):
            append_line(path, number)
        known = _listed(path)
    except (OutputError, RecordingError) as error:
        return f" (Not kept: {error})"
    return f" ({len(known & set(lesson))} of {len(lesson)} of this notebook solved.)"
