"""What the notebooks need besides wavesim: predictions, exercises that grade themselves, a litmus test.

Example: a reader commits to "3 waves", runs the cell, and is told 3.5; then writes a policy of two functions,
and `check("7.1", policy)` says what is wrong with it, without giving the solution away.
"""

from pathlib import Path
from typing import Any

from wavesim.errors import naming_extra

try:
    from wavesim.teaching.cell_errors import stop_telling, tell_in_cells
    from wavesim.teaching.exercises import Exercise, WrongAnswer, check
    from wavesim.teaching.folded_answers import veil
    from wavesim.teaching.prediction import Prediction
    from wavesim.teaching.progress_table import progress
    from wavesim.teaching.solved_file import keep_in
except ModuleNotFoundError as error:
    raise naming_extra(error) from None

__all__ = ["Exercise", "Prediction", "WrongAnswer", "check", "progress"]


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext wavesim.teaching` does: errors in cells say what to do next, and what is solved
    is kept beside the notebook; what a prediction is about is folded until it is committed to.
    """
    tell_in_cells(shell)
    shell.events.register("pre_run_cell", veil.before)
    shell.events.register("post_run_cell", veil.after)
    keep_in(Path.cwd())


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext wavesim.teaching` does: tracebacks again, and nothing is kept."""
    stop_telling(shell)
    shell.events.unregister("pre_run_cell", veil.before)
    shell.events.unregister("post_run_cell", veil.after)
    keep_in(None)
