"""Stems that `conv_bench` measures: a network's first convolution, of images with 3 colours.

Example: ResNet's 7 x 7 of stride 2 at batch 32. Ours are two kernels, and both are timed: one rearranges the
images, the other loads a row of taps as one k-block. cuDNN gets the 3 colours as they are, channels last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wavesim.model.convolution import CHANNEL_UNIT, Conv2D
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim_gpu.bench.kinds.layer_cases import GraphCandidate, PlanClass
from wavesim_gpu.bench.libraries.torch_convolutions import convolutions_by_torch
from wavesim_gpu.kernels.convolution.conv_sm90 import CONV_TILES, HopperConvolution
from wavesim_gpu.kernels.convolution.pack_pixels import with_packed_images
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_K
from wavesim_gpu.run.operands import Operands

COLOURS, FILTERS, SIZE = 3, 64, 224
TILES = ((256, 64), (128, 64))
PLANS: dict[PlanClass, tuple[str, ...]] = {
    "stream": ("stream",),
    "pdl": ("pdl",),
    "semaphores": ("pdl+row",),
}
SHAPES = ((7, 2), (3, 1))  # filter and stride: ResNet's and VGG's
BATCHES = (1, 8, 32)


@dataclass(frozen=True)
class StemCase:
    """A convolution of `images` of 224 x 224 pixels and 3 colours to 64 filters."""

    images: int
    kernel_size: int
    stride: int
    kind: Literal["stem"] = "stem"
    size: int = SIZE
    channels: int = COLOURS

    @property
    def name(self) -> str:
        """For people and files."""
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        shape = f"{self.kernel_size}x{self.kernel_size}{stride} {self.size}x{self.size}"
        return f"{shape} {self.channels} to {FILTERS} batch {self.images}"

    def pipeline(self, tile: tuple[int, int]) -> Pipeline:
        """Its two stages."""
        config = CONV_TILES[tile]
        conv = Conv2D(
            "conv1",
            self.images,
            self.size,
            self.size,
            CHANNEL_UNIT,
            FILTERS,
            *tile,
            block=Block(config.threads, 168, 0, config.dynamic_shared_bytes),
            kernel_size=self.kernel_size,
            stride=self.stride,
            tile_k=TILE_K,
        )
        stage = Stage(conv.name, conv, backend=HopperConvolution.name)
        return with_packed_images(Pipeline("stem", [stage]), self.channels)

    def candidates(self, device: Device) -> list[GraphCandidate]:
        """All that are tried, on any device."""
        return [
            GraphCandidate(plan_class, f"{m}x{n}", word, "", self.pipeline((m, n)))
            for m, n in TILES
            for plan_class, words in PLANS.items()
            for word in words
        ]

    def by_torch(self, sets: Sequence[Operands]) -> tuple[list[Any], str]:
        """CuDNN's convolution of the images before they are rearranged."""
        found, label = convolutions_by_torch(sets)
        return list(found), label


def stems() -> Iterator[StemCase]:
    """All that are measured."""
    for images in BATCHES:
        for kernel_size, stride in SHAPES:
            yield StemCase(images, kernel_size, stride)
