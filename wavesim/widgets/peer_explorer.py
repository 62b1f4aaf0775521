"""The link explorer: GPUs that compute and communicate, under a way, a link's speed, M, and SMs that add.

Example: at M = 1,024 one after the other leaves the link idle for two thirds of the time; "tiles as they are
made" puts it to use, and with a link of a quarter of the speed there is not enough time to hide it all.
"""

from collections.abc import Sequence
from typing import Any

from wavesim.model.device import default_device
from wavesim.model.link import load_link
from wavesim.predict.peer_forecast import one_gemm
from wavesim.safe_io.annotated import typed
from wavesim.sim.peers.simulation import simulate_peers
from wavesim.sim.peers.way import PeerWay, parse_way
from wavesim.view.peer_scene import scene_of_peers
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.explorer import Explorer, menu, require_offered, stops
from wavesim.widgets.scripts import script
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host

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


class PeerExplorer(Explorer):
    """The explorer; keyword arguments are the start values of its controls. Raises `DescriptionError`."""

    kinds = (PeerPicture,)

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
        controls = {
            "way": menu("Communicate", WAYS, way),
            "rows": stops("M", ROWS, rows),
            "gpus": stops("GPUs", GPUS, gpus),
            "speed": stops("Link, times measured", SPEEDS, speed),
            "sms": stops("SMs that communicate", SMS, sms),
        }
        super().__init__(controls)

    @property
    def shown_way(self) -> PeerWay:
        """The way, with as many SMs as the slider says; blocks that store need at least two."""
        method = WAYS[self.way.value]
        if method == "blocks":
            return PeerWay("blocks", max(2, self.sms.value))
        return PeerWay("stores", self.sms.value) if method == "stores" else parse_way(method)

    def _enable(self) -> None:
        self.sms.disabled = WAYS[self.way.value] not in ("stores", "blocks")

    def _scenes(self) -> Sequence[dict[str, Any]]:
        device = default_device()
        link = load_link(device.name).scaled(SPEEDS[self.speed.value])
        host = Host(self.gpus.value, link, {"gemm": Collective()})
        product = one_gemm(self.rows.value, COLUMNS, DEPTH, device)
        baseline = simulate_peers(product, host, PeerWay("sequence"), device)
        way = self.shown_way
        is_baseline = way.method == "sequence"
        self.trace = baseline if is_baseline else simulate_peers(product, host, way, device)
        return [scene_of_peers(self.trace, baseline.makespan_ns, link)]
