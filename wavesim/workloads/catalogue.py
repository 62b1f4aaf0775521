"""Workloads by name, for the command line and the widgets."""

from collections.abc import Callable

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.workloads.figure_one import toy
from wavesim.workloads.gpt3 import gpt3_mlp

Tile = tuple[int, int]

WORKLOADS: dict[str, Callable[[int, Tile], Pipeline]] = {
    "toy": lambda *_: toy(),  # its size is the figure's
    "gpt3-mlp": gpt3_mlp,
}


def workload(name: str, tokens: int = 1024, tile: Tile = (128, 256)) -> Pipeline:
    """The named workload for `tokens` rows and tiles of (tile_m, tile_n). Raises `DescriptionError`."""
    if name not in WORKLOADS:
        raise DescriptionError(f"workload is {name!r}; known are {', '.join(WORKLOADS)}")
    return WORKLOADS[name](tokens, tile)


def parse_tile(text: str) -> Tile:
    """(tile_m, tile_n) of a word such as "128x256". Raises `DescriptionError`."""
    parts = text.split("x")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise DescriptionError(f"tile is {text!r}; write ROWSxCOLUMNS, such as 128x256")
    return int(parts[0]), int(parts[1])
