"""Pages without a kernel: every widget shown as the picture it would draw, in the notebook's own output.

Example: a notebook is run once to be published; `show_static()` comes first, and where a reader with a
kernel would get sliders the page gets the canvas, with hovering, stepping and the theme still alive.
"""

from typing import Any

from IPython.core.getipython import get_ipython

from wavesim.errors import DescriptionError
from wavesim.widgets.advice_browser import AdviceBrowser
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.explorer import Explorer

SHOWN = (DrawnWidget, Explorer, AdviceBrowser)


def show_static() -> None:
    """From now on this kernel shows our widgets as HTML that needs no kernel.

    Raises `DescriptionError` outside IPython.
    """
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        raise DescriptionError("show_static is for a notebook's kernel, and this is not IPython")
    for kind in SHOWN:
        shell.display_formatter.mimebundle_formatter.for_type(kind, _bundle)
        shell.display_formatter.ipython_display_formatter.for_type(kind, _not_live)


def _bundle(widget: Any, **_: Any) -> dict[str, str]:
    return {"text/html": widget.html(), "text/plain": f"{type(widget).__name__} (a picture)"}


def _not_live(_: Any) -> None:
    """So that IPython asks for the bundle."""
    raise NotImplementedError
