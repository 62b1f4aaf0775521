"""Convolutions in descriptions and predictions.

Example:
    [[stages]]
    name = "conv2"
    tile = [128, 128, 64]
    convolution = { images = 8, height = 28, width = 28, channels = 128, filters = 128, residual = true }
    [[dependencies]]
    consumer = "conv2"
    needs = ["conv1", "conv0"]   # the tiles with its images' pixels, halo included, and with its residual
"""

from pathlib import Path

from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.law import ConvolutionCosts
from wavesim.work.convolution.reads import images_read, residual_read
from wavesim.work.kind import WorkKind

FIELDS = Path(__file__).with_name("fields.toml")
CONVOLUTION = WorkKind(
    Conv2D,
    FIELDS,
    ("tile_m", "tile_n", "tile_k"),
    "[rows, columns] or [rows, columns, k-block]",
    least_tile=2,
    beside={"grid": (), "split_k": (), "activation": ("relu",), "carveout": ("full", "default")},
    needs=(images_read, residual_read),
    law=ConvolutionCosts,
)
