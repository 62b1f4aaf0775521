"""Convolutions of every class of shape that kernels tell apart, small enough to compute on the CPU."""

from dataclasses import replace
from itertools import pairwise

from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import conv_rows

BLOCK = Block(threads=384)


def conv(images, size, channels, filters, name="conv", tile=(64, 64), **fields):
    """A convolution of square images in k-blocks of 64 channels."""
    return Conv2D(name, images, size, size, channels, filters, *tile, block=BLOCK, **{"tile_k": 64} | fields)


# By what is special about each.
CASES = {
    "1x1": conv(2, 9, 64, 64, kernel_size=1),
    "1x1, stride 2": conv(3, 10, 72, 40, kernel_size=1, stride=2),
    "1x1, stride 2, odd size": conv(2, 7, 64, 64, kernel_size=1, stride=2),
    "3x3": conv(1, 14, 64, 64),
    "3x3, images that cross a tile": conv(5, 7, 64, 64),
    "3x3, ragged channels, filters and tiles": conv(2, 11, 136, 72),
    "3x3, stride 2": conv(2, 14, 64, 64, stride=2),
    "3x3, stride 2, odd size": conv(2, 13, 64, 64, stride=2),
    "3x3, no padding": conv(2, 10, 64, 64, padding=0),
    "3x3, wide padding": conv(2, 6, 16, 16, padding=2),
    "7x7, stride 2, few channels": conv(2, 15, 8, 64, kernel_size=7, stride=2),
    "7x7": conv(1, 9, 16, 24, kernel_size=7),
    "tall images": replace(conv(2, 12, 64, 64), width=5),
    "wide images": replace(conv(2, 5, 64, 64), width=19, stride=2),
    "fewer outputs than a tile": conv(1, 3, 64, 64),
}


# Rows of taps packed into k-blocks; their images hold the zeros to the left and right themselves.
PACKED = {
    name: replace(work, width=width, column_padding=0, packs_rows=True)
    for name, width, work in (
        ("7x7, stride 2, packed", 21, conv(2, 15, 8, 64, kernel_size=7, stride=2)),
        ("7x7, stride 2, packed, ragged", 26, conv(3, 9, 8, 72, kernel_size=7, stride=2)),
        ("3x3, packed", 16, conv(2, 14, 16, 24)),
        ("5x5, packed, images that cross a tile", 11, conv(5, 7, 8, 64, kernel_size=5)),
    )
}


def conv_chain(count=2, rule=conv_rows, images=5, size=7, channels=64, **fields):
    """So many 3 x 3 convolutions, one after the other, of images that cross tiles."""
    names = [f"conv{number + 1}" for number in range(count)]
    stages = [Stage(name, conv(images, size, channels, channels, name, **fields)) for name in names]
    return Pipeline("convolutions", stages, [rule(*pair) for pair in pairwise(stages)])


def residual_block(**fields):
    """A block of a ResNet that halves its images: its shortcut is a convolution too, which it waits for."""
    entry = conv(3, 14, 64, 64, "entry", kernel_size=1, activation="relu", **fields)
    shortcut = conv(3, 14, 64, 128, "shortcut", kernel_size=1, stride=2, has_bias=True, **fields)
    first = conv(3, 14, 64, 128, "first", stride=2, has_bias=True, activation="relu", **fields)
    second = conv(3, 7, 128, 128, "second", has_bias=True, has_residual=True, activation="relu", **fields)
    stages = {work.name: Stage(work.name, work) for work in (entry, shortcut, first, second)}
    return Pipeline(
        "residual-block",
        list(stages.values()),
        [
            conv_rows(stages["entry"], stages["shortcut"]),
            conv_rows(stages["entry"], stages["first"]),
            conv_rows(stages["first"], stages["second"], stages["shortcut"]),
        ],
    )
