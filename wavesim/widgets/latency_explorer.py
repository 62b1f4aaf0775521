"""The latency explorer: warps and loads in flight against latency and bandwidth on one SM.

Example: from one warp to thirty the memory's row fills and the dot climbs the curve; from there on more
warps only wait longer.
"""

from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup
from wavesim.sm.loads import LANE_BYTES, LoadLoop
from wavesim.sm.machine import SmMachine
from wavesim.sm.measured_loads import MeasuredLoads
from wavesim.view.export import save_html
from wavesim.view.latency_scene import ShownLoads, scene_of_loads
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import style_sheet

LABEL = {"description_width": "150px"}
NO_LIMIT = "no limit"
LIMITS = (8, 16, 32, 64)


class LatencyPicture(DrawnWidget):
    """Warps over time, the memory, and the curve."""

    _esm = script("pen.js", "picture.js", "latency_picture.js")


class LatencyExplorer(ipywidgets.VBox):
    """The explorer; `loop` and `machine` are the start values of its controls.

    `gpu` is how many SMs share how many channels of memory on the curve, `measured` what a GPU's points are
    taken from, None for none.
    """

    @typed
    def __init__(
        self,
        loop: LoadLoop = LoadLoop(8),  # noqa: B008  # frozen
        machine: SmMachine = SmMachine(880, 17.0),  # noqa: B008  # frozen
        *,
        gpu: tuple[int, int] = (1, 1),
        measured: MeasuredLoads | None = None,
    ) -> None:
        self.warps = _slider("Warps on the SM", loop.warps, (1, 64))
        self.loads = _slider("Loads before a wait", loop.loads, (1, 8))
        self.lane_bytes = ipywidgets.Dropdown(
            description="Bytes per lane", options=LANE_BYTES, value=loop.lane_bytes, style=LABEL
        )
        self.latency = _slider("Latency (cycles)", machine.latency_cycles, (100, 1200))
        rate = round(machine.bytes_per_cycle, 1)
        self.bandwidth = ipywidgets.FloatSlider(
            description="Bytes per cycle",
            value=rate,
            min=min(4.0, rate),
            max=max(64.0, rate),
            step=0.1,
            style=LABEL,
        )
        limits = {*LIMITS, *([machine.most_loads] if machine.most_loads else [])}
        self.most_loads = ipywidgets.Dropdown(
            description="Loads in flight",
            options=[(NO_LIMIT, NO_LIMIT), *((f"at most {limit}", limit) for limit in sorted(limits))],
            value=machine.most_loads or NO_LIMIT,
            style=LABEL,
        )
        self._gpu, self._measured = gpu, measured
        self.picture = LatencyPicture(scene=scene_of_loads(self.shown))
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
        loop = (self.warps, self.loads, self.lane_bytes)
        return (*loop, self.latency, self.bandwidth, self.most_loads)

    @property
    def shown(self) -> ShownLoads:
        """What the controls say."""
        most = None if self.most_loads.value == NO_LIMIT else self.most_loads.value
        return ShownLoads(
            LoadLoop(self.warps.value, self.loads.value, self.lane_bytes.value),
            SmMachine(self.latency.value, self.bandwidth.value, most),
            self._gpu,
            self._measured,
        )

    def refresh(self) -> None:
        """Simulates and draws what the controls say."""
        self.picture.scene = scene_of_loads(self.shown)

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)


def _slider(label: str, value: int, usual: tuple[int, int]) -> ipywidgets.IntSlider:
    """Over the usual values, and the one it starts from."""
    low, high = min(*usual, value), max(*usual, value)
    return ipywidgets.IntSlider(description=label, value=value, min=low, max=high, style=LABEL)
