"""Who draws a value where Jupyter shows it: a registry at the bottom of the house, filled from its top.

Example: a cell ends with a pipeline; its `_repr_html_` asks here, and `wavesim.view.display`, which is loaded
then and registers its pictures, draws it. What is described knows nothing of what draws it.
"""

from collections.abc import Callable
from typing import Any

Drawing = Callable[[Any], str]
_drawings: dict[type, Drawing] = {}
_fill: list[Callable[[], None]] = []


def fill_with(load: Callable[[], None]) -> None:
    """`load` imports what calls `draw_with`, once, when the first value is shown."""
    _fill[:] = [load]


def draw_with(kind: type, drawing: Drawing) -> None:
    """From now on values of this kind and of its subclasses are shown by `drawing`."""
    _drawings[kind] = drawing


def html_of(value: object) -> str:
    """The picture of a value; "" where what would draw its kind is not installed."""
    while _fill:
        _fill.pop()()
    drawing = next((_drawings[kind] for kind in type(value).__mro__ if kind in _drawings), None)
    return drawing(value) if drawing else ""
