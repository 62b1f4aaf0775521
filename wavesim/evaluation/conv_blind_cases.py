"""What the blind run of convolutions measures: pairs, chains of four and whole blocks of ResNets.

Example: "basic-down 28x128 batch 6 128x128" is a block of ResNet-34 that makes 28 x 28 x 128 of 56 x 56 x 64:
two 3 x 3, and a 1 x 1 of stride 2 whose output the second adds. Costs were fitted to other batches.
`python -m wavesim_gpu.bench.kinds.layers_blind --list convolutions` registers predictions and then measures;
`--list convolutions-second` takes the second run's cases, of which the first has none, and so on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.evaluation.layer_blind_cases import BASELINE, PLANS, SHORT_FIRST
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.safe_io.documents import read_toml
from wavesim.workloads.conv_networks import (
    Convolution,
    Tile,
    basic_block,
    bottleneck,
    chain_of_convolutions,
)
from wavesim.workloads.layer_backends import with_backends, with_chained_products

FIRST = Path(__file__).with_suffix(".toml")
SECOND, THIRD, FOURTH, FIFTH, SIXTH = (
    Path(__file__).with_name(f"conv_blind_cases_{number}.toml") for number in (2, 3, 4, 5, 6)
)
COUNTS = {"pair": 2, "chain": 4}
SQUEEZE, TIMES = "squeeze", 4  # 1 x 1, to as many times the channels and back, as between bottlenecks
ALONE = ("pair", SQUEEZE)  # of two: blocks need not leave for a third
# Of a kind, and how many times its channels it makes.
BLOCKS = {"basic": (basic_block, 1), "bottleneck": (bottleneck, 4)}
DOWN = "-down"
# What the later runs measure besides, where no block of a network's is between; from the fourth on in
# several waves.
PERSISTENT_PLANS = ("persistent-stream", "persistent+pdl+boundary", "persistent+pdl+row")
ONE_WAVE = 132  # tiles, on an H200


@dataclass(frozen=True)
class BlindConvCase:
    """Convolutions that make images of `size` x `size`; `channels` of a bottleneck are its inner ones.

    `plans` are measured beside stream sync.
    """

    kind: str
    size: int
    channels: int
    images: int
    tile: Tile
    plans: tuple[str, ...] = PLANS

    @property
    def name(self) -> str:
        """For files and people."""
        rows, columns, splits = self.tile
        tile = f"{rows}x{columns}" + (f"x{splits}" if splits > 1 else "")
        return f"{self.kind} {self.size}x{self.channels} batch {self.images} {tile}"

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """In their order."""
        if self.kind in COUNTS:
            return tuple(self._alike())
        if self.kind == SQUEEZE:
            return tuple(self._squeeze())
        block, times = BLOCKS[self.kind.removesuffix(DOWN)]
        if self.kind.endswith(DOWN):
            return tuple(block("conv", 2 * self.size, self.channels * times // 2, self.channels, 2, ""))
        return tuple(block("conv", self.size, self.channels * times, self.channels, 1, ""))

    def _alike(self) -> Iterator[Convolution]:
        for number in range(1, COUNTS[self.kind] + 1):
            reads = f"conv{number - 1}" if number > 1 else ""
            yield Convolution(f"conv{number}", self.size, self.channels, self.channels, reads=reads)

    def _squeeze(self) -> Iterator[Convolution]:
        wide = TIMES * self.channels
        yield Convolution("conv1", self.size, self.channels, wide, kernel_size=1)
        yield Convolution("conv2", self.size, wide, self.channels, kernel_size=1, reads="conv1")

    def pipeline(self) -> Pipeline:
        """Its stages, each with its backend: of more than two those whose blocks leave as they end."""
        rows, columns, splits = self.tile
        tiles = {one.name: (rows, min(columns, one.filters), splits) for one in self.convolutions}
        found = chain_of_convolutions(self.kind, self.convolutions, self.images, tiles)
        return with_backends(found) if self.kind in ALONE else with_chained_products(found)

    @property
    def orders(self) -> tuple[str, ...]:
        """One: all tiles are alike."""
        return (SHORT_FIRST,)

    def plan(self, word: str, order: str) -> Plan:
        """A plan by its word."""
        return parse_plan(word)

    @property
    def entries(self) -> Iterator[tuple[str, str]]:
        """(order, plan), stream sync first."""
        return ((SHORT_FIRST, word) for word in (BASELINE, *self.plans))


def convolution_cases(path: Path = FIRST) -> list[BlindConvCase]:
    """Of a list, batch by batch, so that a run that ends early has some of each kind."""
    rounds = max(len(one["images"]) for _, one in _listed(path))
    return [
        BlindConvCase(kind, one["size"], one["channels"], one["images"][number], tuple(one["tile"]))
        for number in range(rounds)
        for kind, one in _listed(path)
        if number < len(one["images"])
    ]


def second_convolution_cases() -> list[BlindConvCase]:
    """Of the second run."""
    return convolution_cases(SECOND)


def third_convolution_cases() -> list[BlindConvCase]:
    """Of the third run, with persistent kernels."""
    return [_also_persistent(case) for case in convolution_cases(THIRD)]


def fourth_convolution_cases() -> list[BlindConvCase]:
    """Of the fourth run, with persistent kernels where some kernel has several waves of tiles."""
    return _persistent_in_waves(FOURTH)


def fifth_convolution_cases() -> list[BlindConvCase]:
    """Of the fifth run, with persistent kernels where some kernel has several waves of tiles."""
    return _persistent_in_waves(FIFTH)


def sixth_convolution_cases() -> list[BlindConvCase]:
    """Of the sixth run, with persistent kernels where some kernel has several waves of tiles."""
    return _persistent_in_waves(SIXTH)


def _persistent_in_waves(path: Path) -> list[BlindConvCase]:
    return [_also_persistent(case) if _has_waves(case) else case for case in convolution_cases(path)]


def _also_persistent(case: BlindConvCase) -> BlindConvCase:
    return replace(case, plans=(*PLANS, *PERSISTENT_PLANS)) if case.kind in (*COUNTS, SQUEEZE) else case


def _has_waves(case: BlindConvCase) -> bool:
    return any(stage.grid.size > ONE_WAVE for stage in case.pipeline().stages)


@cache
def _listed(path: Path) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple((kind, one) for kind, several in read_toml(path).items() for one in several)
