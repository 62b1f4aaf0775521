"""The explorer of places of semaphores: a recorded size, blocks of a cluster, and a post's way within it.

Example: at 1,024 tokens, with clusters of 16, shared memory wins less than a tenth of a point, holding whole
rows in clusters loses twelve.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.costs.waiting_places import places_on
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.predict.cluster_semaphores import (
    SemaphorePlaces,
    cluster_time_ns,
    placement_of,
    semaphore_places,
)
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown, whole
from wavesim.safe_io.escaping import Markup
from wavesim.view.export import save_html
from wavesim.view.places_scene import ShownPlaces, scene_of_places
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.menus import require_offered
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import style_sheet
from wavesim.workloads.catalogue import parse_tile, workload

LABEL = {"description_width": "170px"}
TILE, ORDER = "128x256", "grouped:4"
BLOCKS = (2, 4, 8, 16)
HOPS = (0, 50, 100, 200, 300, 400, 500, 629)


def recorded(tokens: int) -> RecordedCase:
    """The recorded case of that many tokens. Raises `DescriptionError`."""
    known = {one.tokens: one for one in cases() if (one.tile, one.order) == (TILE, ORDER)}
    if tokens not in known:
        raise DescriptionError(f"tokens is {shown(tokens)}; recorded are {', '.join(map(str, known))}")
    return known[tokens]


@typed
@lru_cache(maxsize=128)
def places_of(tokens: int, hop_ns: int) -> SemaphorePlaces:
    """Row semaphores of the recorded case in each place."""
    return semaphore_places(recorded(tokens), "row", hop_ns)


@typed
@lru_cache(maxsize=128)
def placed_ns(tokens: int, blocks: int) -> int:
    """The case with its rows in clusters of so many blocks."""
    return cluster_time_ns(recorded(tokens), blocks)


class PlacePicture(DrawnWidget):
    """Bars of a hand-over, of whole runs, and the SMs that clusters give work to."""

    _esm = script("pen.js", "picture.js", "place_picture.js")

    def __init__(self, shown: ShownPlaces) -> None:
        super().__init__(scene=scene_of_places(shown))

    def show(self, shown: ShownPlaces) -> None:
        """Draws these in place of what is shown."""
        self.scene = scene_of_places(shown)


class PlaceExplorer(ipywidgets.VBox):
    """The explorer; keyword arguments are the start values of its controls. Raises `DescriptionError`."""

    @typed
    def __init__(self, *, tokens: int = 1024, blocks: int = 16, hop_ns: int | None = None) -> None:
        recorded(tokens)
        require_offered("blocks", blocks, BLOCKS)
        self.device = devices.load(recorded(tokens).device)
        usual = places_on(self.device)[1].hop_ns
        hop = usual if hop_ns is None else whole("hop_ns", hop_ns, 0, 10_000)
        sizes = [one.tokens for one in cases() if (one.tile, one.order) == (TILE, ORDER)]
        self.tokens = _slider("Tokens", sizes, tokens)
        self.blocks = _slider("Blocks of a cluster", BLOCKS, blocks)
        self.hop = _slider("Post to wait there (ns)", {*HOPS, usual, hop}, hop)
        self.picture = PlacePicture(self.shown)
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
        return (self.tokens, self.blocks, self.hop)

    @property
    def shown(self) -> ShownPlaces:
        """What the controls say, simulated."""
        tokens, blocks, hop = (one.value for one in self.controls)
        case = recorded(tokens)
        pipeline = workload(case.workload, tokens, parse_tile(case.tile))
        return ShownPlaces(
            places_on(self.device, hop),
            places_of(tokens, hop),
            placement_of(pipeline, blocks, self.device.sm_count),
            placed_ns(tokens, blocks),
        )

    def refresh(self) -> None:
        """Simulates and draws what the controls say."""
        self.picture.show(self.shown)

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)


def _slider(label: str, values: Any, value: int) -> ipywidgets.SelectionSlider:
    options = [(f"{one:,}", one) for one in sorted({*values, value})]
    return ipywidgets.SelectionSlider(
        description=label, options=options, value=value, style=LABEL, continuous_update=False
    )
