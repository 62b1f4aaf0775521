"""The bank explorer: which banks a warp's lanes meet in, and which threads add in a reduction.

Example: a stride of 32 words puts all lanes into one bank, 32 wavefronts; a row padded by one word undoes it.
"""

from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup
from wavesim.view.bank_scene import PATTERNS, STRIDE, ShownAccess, scene_of_access
from wavesim.view.export import save_html
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import style_sheet

LABEL = {"description_width": "150px"}


class BankPicture(DrawnWidget):
    """Lanes, banks with their wavefronts, and a reduction's active threads."""

    _esm = script("pen.js", "picture.js", "bank_picture.js")


class BankExplorer(ipywidgets.VBox):
    """The explorer; keyword arguments are the start values of its controls.

    `pattern` is one of `PATTERNS`, such as "reduction v1". Raises `DescriptionError`.
    """

    @typed
    def __init__(self, *, pattern: str = STRIDE, stride: int = 2, padding: int = 0, step: int = 1) -> None:
        first = ShownAccess(pattern, stride, padding, step)
        self.pattern = ipywidgets.Dropdown(description="Access", options=PATTERNS, value=pattern, style=LABEL)
        self.stride = _slider("Stride (words)", stride, 0, 64)
        self.padding = _slider("Row padding (words)", padding, 0, 32)
        self.step = _slider("Step of the reduction", step, 1, len(first.steps) or 8)
        self.picture = BankPicture(scene=scene_of_access(first))
        self._grey_out()
        for control in self.controls:
            control.observe(lambda _: self.refresh(), names="value")
        grid, box = ipywidgets.GridBox(self.controls), ipywidgets.Box([self.picture])
        grid.add_class("wavesim-controls")
        box.add_class("wavesim-picture")
        super().__init__([style_sheet(), grid, box, PageWatch()])
        self.add_class("wavesim")

    @property
    def controls(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (self.pattern, self.stride, self.padding, self.step)

    @property
    def shown(self) -> ShownAccess:
        """What the controls say."""
        return ShownAccess(self.pattern.value, self.stride.value, self.padding.value, self.step.value)

    def refresh(self) -> None:
        """Counts and draws what the controls say."""
        self._grey_out()
        self.picture.scene = scene_of_access(self.shown)

    def _grey_out(self) -> None:
        """Only the chosen pattern's controls can be moved."""
        is_reduction = self.pattern.value.startswith("reduction")
        self.stride.disabled = self.pattern.value != STRIDE
        self.padding.disabled = is_reduction or self.pattern.value == STRIDE
        self.step.disabled = not is_reduction

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)


def _slider(label: str, value: int, low: int, high: int) -> ipywidgets.IntSlider:
    return ipywidgets.IntSlider(description=label, value=value, min=low, max=high, style=LABEL)
