"""What a reader is told when a cell fails: one sentence that says what to do next.

Example: after `%load_ext wavesim.teaching` a cell that needs `mlp`, whose own cell was skipped, ends with
"name 'mlp' is not defined. Has every cell above run?" and the menu that runs them. A notebook of another
version, which imports what is not here, says so. All other errors, and names that a library's code lacks,
keep their traceback.
"""

from difflib import get_close_matches
from traceback import walk_tb
from typing import Any

from wavesim import __version__
from wavesim.errors import DeadlockError, WavesimError

RUN_ABOVE = "Has every cell above run? Run > Run All Above Selected Cell, then this one again."
OTHER_VERSION = (
    f"Is it spelled right? If this notebook came with another wavesim than {__version__}, which runs here: "
    "`make setup` in the folder that it came in, then restart the kernel; or open its own notebook."
)
FREE_A_SLOT = (
    "Next: let the producer start first (wait_kernel=True), or fewer consumers before it (head_start), and "
    "run the cell again."
)


def tell_in_cells(shell: Any) -> None:
    """From now on IPython's `shell` tells missing names and wavesim's errors in a sentence."""
    shell.set_custom_exc((NameError, ImportError, WavesimError), _tell)


def stop_telling(shell: Any) -> None:
    """Every error has its traceback again."""
    shell.set_custom_exc((), None)


def sentence(error: BaseException, names: list[str]) -> str:
    """The error and what to do next; `names` are those that the notebook has."""
    if isinstance(error, NameError):
        near = get_close_matches(error.name or "", names, 1)
        typo = f" Or did you mean {near[0]!r}?" if near else ""
        return f"{error}. {RUN_ABOVE}{typo}"
    if isinstance(error, ImportError):
        return f"{error}. {OTHER_VERSION}"
    return f"{error}\n{FREE_A_SLOT}" if isinstance(error, DeadlockError) else str(error)


def _tell(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    frames = [frame for frame, _ in walk_tb(trace)]
    cells = [frame for frame in frames if frame.f_globals is shell.user_ns]
    is_ours = not isinstance(error, ImportError) or (error.name or "").split(".")[0] == "wavesim"
    if not is_ours or (isinstance(error, NameError | ImportError) and frames[-1] not in cells):
        told = shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset=tb_offset)
    elif hasattr(error, "_render_traceback_"):
        told = error._render_traceback_()  # a hint has its own
    else:
        told = [f"✗ {sentence(error, list(shell.user_ns))}"]
    shell._showtraceback(kind, error, told)  # noqa: SLF001  # what a handler has to call; `showtraceback` would call it
