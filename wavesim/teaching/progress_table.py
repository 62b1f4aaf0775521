"""How far a reader has come: a row per notebook, a mark per exercise.

Example: "1  ✓ 1.1  ✓ 1.2  ○ 1.3" says that the third exercise of the first notebook is open.
"""

from wavesim.teaching.exercises import LESSONS, exercises_of
from wavesim.teaching.shown import Shown
from wavesim.teaching.solved_file import solved


def progress() -> Shown:
    """A table of all exercises with those that are solved; see `wavesim.teaching.solved_file`."""
    done = solved()
    numbers = {lesson: [one.number for one in exercises_of(lesson)] for lesson in LESSONS}
    rows = [
        (str(lesson), "  ".join(f"{'✓' if one in done else '○'} {one}" for one in ours))
        for lesson, ours in numbers.items()
    ]
    every = {one for ours in numbers.values() for one in ours}
    return Shown(("notebook", f"{len(done & every)} of {len(every)} exercises solved"), tuple(rows))
