"""What the page looks like, as traits: its theme and the width a widget has.

Example: the reader switches JupyterLab to its dark theme; `is_light` becomes False and the figure is
restyled. plotly itself does not notice and would stay a white box.
"""

from pathlib import Path

import anywidget
import traitlets


class PageWatch(anywidget.AnyWidget):
    """An invisible widget that follows the page's theme and its own width in pixels."""

    _esm = Path(__file__).parent / "page_watch.js"
    is_light = traitlets.Bool(default_value=True).tag(sync=True)
    width = traitlets.Int(0).tag(sync=True)

    @property
    def theme(self) -> str:
        """Name of the view theme that suits the page."""
        return "light" if self.is_light else "dark"
