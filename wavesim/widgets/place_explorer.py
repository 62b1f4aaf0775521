"""The explorer of places of semaphores: a recorded size, blocks of a cluster, and a post's way within it.

Example: at 1,024 tokens, with clusters of 16, shared memory wins less than a tenth of a point, holding whole
rows in clusters loses twelve.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.labs.cluster_semaphores import (
    SemaphorePlaces,
    cluster_time_ns,
    placement_of,
    semaphore_places,
)
from wavesim.labs.waiting_places import places_on
from wavesim.model import device as devices
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown, whole
from wavesim.view.places_scene import ShownPlaces, scene_of_places
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.explorer import Explorer, require_offered, stops
from wavesim.widgets.scripts import script
from wavesim.workloads.catalogue import parse_tile, workload

TILE, ORDER = "128x256", "grouped:4"
BLOCKS = (2, 4, 8, 16)
HOPS = (0, 50, 100, 200, 300, 400, 500, 629)


def recorded(tokens: int) -> RecordedCase:
    """The recorded case of that many tokens. Raises `DescriptionError`."""
    known = {case.tokens: case for case in cases() if (case.tile, case.order) == (TILE, ORDER)}
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


class PlaceExplorer(Explorer):
    """The explorer; keyword arguments are the start values of its controls. Raises `DescriptionError`."""

    kinds = (PlacePicture,)

    @typed
    def __init__(self, *, tokens: int = 1024, blocks: int = 16, hop_ns: int | None = None) -> None:
        self.device = devices.load(recorded(tokens).device)
        require_offered("blocks", blocks, BLOCKS)
        usual = places_on(self.device)[1].hop_ns
        hop = usual if hop_ns is None else whole("hop_ns", hop_ns, 0, 10_000)
        sizes = [case.tokens for case in cases() if (case.tile, case.order) == (TILE, ORDER)]
        controls = {
            "tokens": stops("Tokens", sizes, tokens, continuous_update=False),
            "blocks": stops("Blocks of a cluster", BLOCKS, blocks, continuous_update=False),
            "hop": stops("Post to wait there (ns)", {*HOPS, usual}, hop, continuous_update=False),
        }
        super().__init__(controls)

    def _scenes(self) -> Sequence[dict[str, Any]]:
        tokens, blocks, hop = (control.value for control in self.controls)
        case = recorded(tokens)
        pipeline = workload(case.workload, tokens, parse_tile(case.tile))
        placement = placement_of(pipeline, blocks, self.device.sm_count)
        places = places_on(self.device, hop)
        found = ShownPlaces(places, places_of(tokens, hop), placement, placed_ns(tokens, blocks))
        return [scene_of_places(found)]
