"""What `conv_bench` measures: single convolutions, pairs and chains, with candidates for each side.

Example: a pair of 3 x 3 convolutions of 128 channels at batch 8 is tried in every tile that suits 128 filters
under each class of plans; where it has fewer tiles than the GPU has SMs, in smaller ones and with K split
too. Of each class the fastest in a few rounds goes on to the rounds that count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim.model.convolution import Conv2D
from wavesim.model.convolution_reads import conv_rows
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import shown
from wavesim_gpu.bench.kinds.layer_cases import CHAIN_PLANS, GraphCandidate, MeasuredCase, PlanClass
from wavesim_gpu.bench.kinds.stem_cases import StemCase, stems
from wavesim_gpu.bench.libraries.torch_convolutions import convolutions_by_torch
from wavesim_gpu.kernels.convolution.conv_sm90 import (
    CONV_TILES,
    ChainedHopperConvolution,
    HopperConvolution,
)
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_K
from wavesim_gpu.run.operands import Operands

Kind = Literal["single", "pair", "chain"]
Tile = tuple[int, int]
IMAGE_SIZES = {64: 56, 128: 28, 256: 14, 512: 7}  # channels: the published height and width
BATCHES = (1, 8, 32, 64)
# At batch 1, what the networks compute besides: VGG-19's pairs, channels and size, and of ResNet-50's
# bottlenecks the 1 x 1 and the 3 x 3 behind it, size, channels and filters.
VGG_AT_BATCH_1 = ((64, 224), (128, 112), (256, 56), (512, 28), (512, 14))
BOTTLENECKS = ((56, 256, 64), (28, 512, 128), (14, 1024, 256), (7, 2048, 512))
# Beyond dependent launch, by the waves of their tiles: channels, size and batch.
VGG_PAIRS = ((128, 112, 4), (256, 56, 8), (512, 28, 16))
CHAINS = ((256, 14), (512, 7))
CHAIN_BATCHES = (1, 8, 32)
PUBLISHED_BATCHES = (4, 12, 20, 28)  # of cuSync's Figure 7, beside 1
# By filters, at most; more than that is as the last.
TILES: dict[int, tuple[Tile, ...]] = {
    64: ((256, 64), (128, 64), (64, 64)),
    128: ((128, 128), (256, 128), (128, 64), (64, 128)),
    256: ((128, 256), (256, 128), (128, 128), (64, 128)),
}
FEW_TILES: tuple[Tile, ...] = ((64, 64), (64, 128))  # where the others leave SMs without work
SPLITS = (2, 4, 8)
BACKENDS: dict[Kind, str] = {
    "single": HopperConvolution.name,
    "pair": HopperConvolution.name,
    "chain": ChainedHopperConvolution.name,  # its blocks leave SMs to the kernels behind as they end
}
PLANS: dict[Kind, dict[PlanClass, tuple[str, ...]]] = {
    "single": {"stream": CHAIN_PLANS["stream"]},
    "pair": CHAIN_PLANS,
    "chain": CHAIN_PLANS,
}


# Of kernels of one wave: a block per tile, and one stream. Persistent ones and further streams only cost.
ONE_WAVE_PLANS: dict[PlanClass, tuple[str, ...]] = {
    "stream": ("stream",),
    "pdl": ("pdl",),
    "semaphores": ("pdl+row", "pdl+tile"),
}


@dataclass(frozen=True)
class ConvCase:
    """`count` convolutions of `images` square images, `size` pixels wide, one after the other.

    `first_size` is the first one's filter, 0 where it is as large as the others.
    """

    kind: Kind
    images: int
    size: int
    channels: int
    filters: int
    kernel_size: int = 3
    stride: int = 1
    count: int = 1
    first_size: int = 0

    @property
    def name(self) -> str:
        """For people and files."""
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        first = f"{self.first_size}x{self.first_size} and " if self.first_size else ""
        shape = f"{first}{self.kernel_size}x{self.kernel_size}{stride} {self.size}x{self.size}"
        return f"{shape} {self.channels} to {self.filters} batch {self.images}"

    def pipeline(self, tile: Tile, split_k: int = 1) -> Pipeline:
        """Its stages in a tile. Of several each but the last has a ReLU, as layers of a network have."""
        config = CONV_TILES[tile]
        block = Block(config.threads, 168, 0, config.dynamic_shared_bytes)
        stages = []
        for number in range(self.count):
            name = f"conv{number + 1}"
            relu: Literal["relu"] | None = "relu" if number < self.count - 1 else None
            channels = self.channels if number == 0 else self.filters
            filter_size = self.first_size if number == 0 and self.first_size else self.kernel_size
            work = Conv2D(
                name,
                self.images,
                self.size,
                self.size,
                channels,
                self.filters,
                *tile,
                block=block,
                kernel_size=filter_size,
                stride=self.stride,
                tile_k=TILE_K,
                split_k=split_k,
                activation=relu,
            )
            stages.append(Stage(name, work, backend=BACKENDS[self.kind]))
        return Pipeline(self.kind, stages, [conv_rows(*pair) for pair in pairwise(stages)])

    def pipelines(self, device: Device) -> dict[str, Pipeline]:
        """By the name of their tiles: all that suit the filters; few tiles smaller, and with K split."""
        tiles = TILES.get(max(width for width in (0, *TILES) if width <= self.filters), TILES[64])
        smallest, most = [min(tiles, key=lambda tile: tile[0] * tile[1])], 2 * device.sm_count
        if self._is_one_wave(device):
            tiles = tuple(tile for tile in FEW_TILES if tile[1] <= self.filters)
            smallest, most = list(tiles), device.sm_count
        found = {f"{m}x{n}": self.pipeline((m, n)) for m, n in tiles}
        for m, n in smallest:
            for splits in SPLITS:
                if _can_split(found[f"{m}x{n}"], splits, most):
                    found[f"{m}x{n}, K in {splits}"] = self.pipeline((m, n), splits)
        return found

    def candidates(self, device: Device) -> list[GraphCandidate]:
        """All that are tried."""
        plans = ONE_WAVE_PLANS if self._is_one_wave(device) else PLANS[self.kind]
        return [
            GraphCandidate(plan_class, tiles, word, "", pipeline)
            for tiles, pipeline in self.pipelines(device).items()
            for plan_class, words in plans.items()
            for word in words
        ]

    def _is_one_wave(self, device: Device) -> bool:
        """Whether the smallest tiles of a pair of one image do not fill the GPU."""
        is_small = self.kind == "pair" and self.images == 1
        return is_small and all(
            stage.grid.size <= device.sm_count for stage in self.pipeline(FEW_TILES[0]).stages
        )

    def by_torch(self, sets: Sequence[Operands]) -> tuple[list[Any], str]:
        """Convolutions of cuDNN's."""
        found, label = convolutions_by_torch(sets)
        return list(found), label


def _can_split(pipeline: Pipeline, splits: int, most: int) -> bool:
    """Whether every stage has so many k-blocks, and with so many splits at most so many blocks."""
    works = [stage.work for stage in pipeline.stages]
    return all(
        isinstance(work, Conv2D) and splits <= work.k_block_count and splits * work.grid.tiles <= most
        for work in works
    )


def all_cases() -> list[ConvCase | StemCase]:
    """In the order in which they are measured."""
    return list(chain(_singles(), stems(), _pairs(), _chains()))


def cases_named(text: str) -> Sequence[MeasuredCase]:
    """Those whose kind and name have all its words in order. Raises `DescriptionError` if there are none."""
    found = [
        case for case in (*all_cases(), *published_cases()) if _has_words(f"{case.kind} {case.name}", text)
    ]
    if not found:
        raise DescriptionError(f"--only is {shown(text)}; it is in no case, such as 'pair 3x3 28x28'")
    return found


def _has_words(name: str, text: str) -> bool:
    left = iter(name.split())
    return all(word in left for word in text.split())


def _singles() -> Iterator[ConvCase]:
    """3 x 3 of many channels at large batches, of 64 channels, and 1 x 1 of ResNet-50."""
    for images in (16, 32, 64):
        for channels in (128, 256, 512):
            yield ConvCase("single", images, IMAGE_SIZES[channels], channels, channels)
    yield ConvCase("single", 32, 56, 128, 128, stride=2)
    for images in (8, 32, 64):
        yield ConvCase("single", images, 56, 64, 64)
    bottlenecks = ((56, 64, 256), (56, 256, 64), (28, 512, 128), (14, 256, 1024), (7, 2048, 512))
    for size, channels, filters in bottlenecks:
        yield ConvCase("single", 32, size, channels, filters, kernel_size=1)
    yield ConvCase("single", 32, 56, 256, 512, kernel_size=1, stride=2)
    yield ConvCase("single", 32, 224, 8, 64, kernel_size=7, stride=2)  # an image's 3 colours, padded


def _pairs() -> Iterator[ConvCase]:
    for images in BATCHES:
        for channels, size in IMAGE_SIZES.items():
            yield ConvCase("pair", images, size, channels, channels, count=2)
    for channels, size in VGG_AT_BATCH_1:
        yield ConvCase("pair", 1, size, channels, channels, count=2)
    for size, channels, filters in BOTTLENECKS:
        yield ConvCase("pair", 1, size, channels, filters, count=2, first_size=1)
    for channels, size, images in VGG_PAIRS:
        yield ConvCase("pair", images, size, channels, channels, count=2)


def _chains() -> Iterator[ConvCase]:
    for images in CHAIN_BATCHES:
        for channels, size in CHAINS:
            yield ConvCase("chain", images, size, channels, channels, count=4)


def published_cases() -> Iterator[ConvCase]:
    """What the paper's Figure 7 has besides: measured after the blind runs, some of which have these."""
    for images in PUBLISHED_BATCHES:
        for channels, size in IMAGE_SIZES.items():
            yield ConvCase("pair", images, size, channels, channels, count=2)
        for channels, size in CHAINS:
            yield ConvCase("chain", images, size, channels, channels, count=4)
