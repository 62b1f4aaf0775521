"""Whether a product goes over peer memory, how, and in which tiles; else a library's product and collective.

Example: an all-reduce after 2,048 x 4,096 x 8,192 on two Hopper GPUs goes over peer memory, in 128 x 256;
with 64 rows NCCL takes it. Only what all ranks see alike may decide: shapes, types, the kind of GPU.

Source: what was fastest on two H200s for the measured product nearest to it, `choice.toml`, which
`wavesim_gpu.bench.kinds.two_gpus.choices` makes of the recorded times (docs/two-gpus.md). Of narrower or less
deep products, and of fewer rows, nothing is known or the library was faster, so that it takes them.
"""

from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path

from wavesim.safe_io.documents import read_toml
from wavesim_gpu.peers.problem import UNIT

HOPPER = (9, 0)
RANKS = 2  # more were not measured
FEWEST_ROWS = {"all-reduce": 128, "reduce-scatter": 512, "all-gather": 512}
FEWEST_COLUMNS, FEWEST_DEPTH = 4096, 1408  # the least that were measured
USUAL_TILE = (128, 256)
LIBRARY = "library"
CHOICES = Path(__file__).with_suffix(".toml")

Size = tuple[int, int, int]


@dataclass(frozen=True)
class PeerChoice:
    """`way`: as `options_named` reads it, or `LIBRARY`. `tile`: rows and columns."""

    way: str
    tile: tuple[int, int]


def choice_of(kind: str, size: Size, ranks: int, capability: tuple[int, int]) -> PeerChoice:
    """`size` is (m, n, k) of one rank's product; `kind` that of a `Collective`.

    Of the nearest product that was measured, among those in tiles that each rank has whole rows of.
    """
    m, n, k = size
    is_known = (
        capability == HOPPER
        and ranks == RANKS
        and m >= FEWEST_ROWS[kind]
        and n >= FEWEST_COLUMNS
        and k >= FEWEST_DEPTH
        and n % UNIT == 0
        and k % UNIT == 0
    )
    found = [
        (_distance(one, size), number, choice)
        for number, (one, choice) in enumerate(_choices().get(kind, ()))
        if is_known and (kind == "all-reduce" or m % (ranks * choice.tile[0]) == 0)
    ]
    return min(found)[2] if found else PeerChoice(LIBRARY, USUAL_TILE)


def _distance(one: Size, other: Size) -> float:
    return sum(abs(log2(left / right)) for left, right in zip(one, other, strict=True))


@cache
def _choices() -> dict[str, list[tuple[Size, PeerChoice]]]:
    found: dict[str, list[tuple[Size, PeerChoice]]] = {}
    for kind, m, n, k, way, rows, columns in read_toml(CHOICES)["rows"]:
        found.setdefault(kind, []).append(((m, n, k), PeerChoice(way, (rows, columns))))
    return found
