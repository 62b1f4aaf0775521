"""The link explorer: GPUs that compute and communicate, under a way, a link's speed, M, and SMs that add.

Example: at M = 1,024 one after the other leaves the link idle for two thirds of the time; "tiles as they are
made" puts it to use, and with a link of a quarter of the speed there is not enough time to hide it all.
"""

from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.model.device import default_device
from wavesim.model.link import load_link
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.sim.peers.prediction import one_gemm
from wavesim.sim.peers.simulation import simulate_peers
from wavesim.sim.peers.way import PeerWay, parse_way
from wavesim.trace.trace import Trace
from wavesim.view.export import save_html
from wavesim.view.peer_scene import scene_of_peers
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.menus import require_offered
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import Words, problem_box, style_sheet
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host

LABEL = {"description_width": "150px"}
WAYS = {
    "one after the other": "sequence",
    "in chunks, two streams": "chunks",
    "tiles as they are made": "stores",
    "blocks that store": "blocks",
    "halves exchanged (2 GPUs)": "exchange",
    "the copy engine": "copies",
}
ROWS = (128, 256, 384, 512, 768, 1024)
GPUS = (2, 4, 8)
SPEEDS = {"¼": 0.25, "½": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}
SMS = (0, 2, 4, 8, 12, 16, 24, 32)
COLUMNS, DEPTH = 4096, 3584  # of the product on each GPU


class PeerPicture(DrawnWidget):
    """Two GPUs' SMs, and the links."""

    _esm = script("pen.js", "picture.js", "peer_picture.js")


class PeerExplorer(ipywidgets.VBox):
    """The explorer; keyword arguments are the start values of its controls. Raises `DescriptionError`."""

    @typed
    def __init__(
        self,
        *,
        way: str = "one after the other",
        rows: int = 1024,
        gpus: int = 2,
        speed: str = "1",
        sms: int = 0,
    ) -> None:
        offered = (("way", way, WAYS), ("rows", rows, ROWS), ("gpus", gpus, GPUS), ("speed", speed, SPEEDS))
        for name, value, known in (*offered, ("sms", sms, SMS)):
            require_offered(name, value, list(known))
        self.way = _control(ipywidgets.Dropdown, "Communicate", list(WAYS), way)
        self.rows = _control(ipywidgets.SelectionSlider, "M", ROWS, rows)
        self.gpus = _control(ipywidgets.SelectionSlider, "GPUs", GPUS, gpus)
        self.speed = _control(ipywidgets.SelectionSlider, "Link, times measured", list(SPEEDS), speed)
        self.sms = _control(ipywidgets.SelectionSlider, "SMs that communicate", SMS, sms)
        self.trace, scene = self._simulated()
        self.picture = PeerPicture(scene=scene)
        self.problem = Words()
        self._box = ipywidgets.Box([self.picture])
        self._box.add_class("wavesim-picture")
        for control in self.controls:
            control.observe(lambda _: self.refresh(), names="value")
        grid = ipywidgets.GridBox(self.controls)
        grid.add_class("wavesim-controls")
        super().__init__([style_sheet(), grid, self.problem, self._box, PageWatch()])
        self.add_class("wavesim")

    @property
    def controls(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (self.way, self.rows, self.gpus, self.speed, self.sms)

    @property
    def shown_way(self) -> PeerWay:
        """The way, with as many SMs as the slider says; blocks that store need at least two."""
        method = WAYS[self.way.value]
        if method == "blocks":
            return PeerWay("blocks", max(2, self.sms.value))
        return PeerWay("stores", self.sms.value) if method == "stores" else parse_way(method)

    def refresh(self) -> None:
        """Shows what the controls say, or why it cannot run beside the last picture that could."""
        self.sms.disabled = WAYS[self.way.value] not in ("stores", "blocks")
        try:
            self.trace, self.picture.scene = self._simulated()
        except WavesimError as error:
            shown = "The picture still shows the last setting that ran."
            self.problem.value = problem_box("This cannot run", BREAK.join([str(error), element("i", shown)]))
            self._box.add_class("wavesim-stale")
            return
        self.problem.value = ""
        self._box.remove_class("wavesim-stale")

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    def _simulated(self) -> tuple[Trace, dict[str, Any]]:
        device = default_device()
        link = load_link(device.name).scaled(SPEEDS[self.speed.value])
        host = Host(self.gpus.value, link, {"gemm": Collective()})
        one = one_gemm(self.rows.value, COLUMNS, DEPTH, device)
        baseline = simulate_peers(one, host, PeerWay("sequence"), device)
        way = self.shown_way
        trace = baseline if way.method == "sequence" else simulate_peers(one, host, way, device)
        return trace, scene_of_peers(trace, baseline.makespan_ns, link)


def _control(kind: Any, label: str, options: Any, value: Any) -> Any:
    return kind(description=label, options=options, value=value, style=LABEL)
