"""Which exercises a reader has solved, kept in a file beside the notebooks: it survives kernel and browser.

Example: after `%load_ext wavesim.teaching` a right answer to 1.1 adds "1.1" to `exercises-done.txt`, and
the reader is told "1 of 3 of this notebook solved". Nothing is kept before, and nothing of an answer itself.
"""

from collections.abc import Collection
from pathlib import Path

from wavesim.errors import OutputError
from wavesim.safe_io.writing import write_text

FILE = "exercises-done.txt"
MOST_BYTES = 10_000  # of a file that is read: some hundred numbers
_folder: Path | None = None


def keep_in(folder: Path | None) -> None:
    """From now on solved exercises are kept in a file in this folder; None keeps nothing."""
    global _folder  # noqa: PLW0603  # one reader, one kernel
    _folder = folder


def solved() -> set[str]:
    """Their numbers; empty where nothing is kept, or the file cannot be read."""
    if _folder is None:
        return set()
    try:
        with (_folder / FILE).open("rb") as file:
            return set(file.read(MOST_BYTES).decode(errors="replace").split())
    except OSError:
        return set()


def remember(number: str, lesson: Collection[str]) -> str:
    """Keeps that an exercise is solved. Returns how many of its notebook's are, or why that is not kept."""
    if _folder is None:
        return ""
    known = solved() | {number}
    try:
        write_text(_folder / FILE, "".join(f"{one}\n" for one in sorted(known)))
    except OutputError as error:
        return f" (Not kept: {error})"
    return f" ({len(known & set(lesson))} of {len(lesson)} of this notebook solved.)"
