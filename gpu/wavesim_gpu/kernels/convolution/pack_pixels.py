"""Images of few colours, rearranged for a convolution that packs rows of taps: a kernel before it.

Example: of 224 x 224 pixels with 3 colours it makes 224 x 230 with 8 channels, 5 of them zero, and 3 columns
of zeros on either side. A 7 x 7 convolution then loads the 7 taps of a row as the 56 neighbouring values that
they are in memory (`Conv2D.packs_rows`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Matrix, Read, Region, Write
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import shown
from wavesim.work.convolution import CHANNEL_UNIT, Conv2D
from wavesim.work.convolution.reads import pixels_read
from wavesim.work.own_kernel import OwnKernel

SOURCE = Path(__file__).with_suffix(".cu")
ROWS, THREADS = 4, 256  # image rows of a block, as many of its threads


def pixel_packing(name: str, conv: Conv2D, colours: int, zeros: int) -> OwnKernel:
    """What makes the images of a convolution: x (image rows, columns * colours) to out (pixels, 8).

    Of the images' columns the first and the last `zeros` are zeros.
    """
    image_rows, width = conv.images * conv.height, conv.width - 2 * zeros
    grid = Grid(1, -(-image_rows // ROWS))

    def rows_of(tile: int) -> tuple[int, int]:
        return tile * ROWS, min((tile + 1) * ROWS, image_rows)

    def reads(_x: int, y: int, _z: int) -> Iterable[Read]:
        yield Read("x", Region(*rows_of(y), 0, width * colours))

    def writes(_x: int, y: int) -> Iterable[Write]:
        top, bottom = rows_of(y)
        yield Write("out", Region(top * conv.width, bottom * conv.width, 0, CHANNEL_UNIT))

    def reference(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        images = arrays["x"].reshape(image_rows, width, colours)
        wide = np.pad(images, ((0, 0), (zeros, zeros), (0, CHANNEL_UNIT - colours)))
        return {"out": wide.reshape(-1, CHANNEL_UNIT)}

    given = Matrix(image_rows, width * colours, conv.dtype)
    made = Matrix(image_rows * conv.width, CHANNEL_UNIT, conv.dtype, is_written=True)
    return OwnKernel(
        name,
        Kernel(name, grid, Block(THREADS), bytes_per_block=(given.bytes + made.bytes) // grid.size),
        {"x": given, "out": made},
        reads,
        writes,
        source=SOURCE,
        expression=f"pack_pixels<{ROWS}, {image_rows}, {width}, {colours}, {zeros}, {THREADS}>",
        reference=reference,
        is_launched_early=True,
    )


def with_packed_images(pipeline: Pipeline, colours: int) -> Pipeline:
    """The same with the images of its first convolution packed: a stage before it, "pack".

    That convolution is described on images of 8 channels. Raises `DescriptionError` for other channels, and
    for colours that they have no room for.
    """
    first = pipeline.stages[0]
    conv, start = first.work, f"with_packed_images: stage {first.name}"
    if not isinstance(conv, Conv2D):
        raise DescriptionError(f"{start} is a {type(conv).__name__}; pack the images of a Conv2D")
    if conv.channels != CHANNEL_UNIT or conv.packs_rows:
        raise DescriptionError(
            f"{start} reads {conv.channels} channels, packs_rows is {conv.packs_rows}; describe it on images "
            f"of {CHANNEL_UNIT} channels, before they are packed"
        )
    if type(colours) is not int or not 1 <= colours <= CHANNEL_UNIT:
        raise DescriptionError(f"{start}: colours is {shown(colours)}; a pixel has 1 to {CHANNEL_UNIT}")
    zeros = conv.window.left
    wide = replace(conv, width=conv.width + 2 * zeros, column_padding=0, packs_rows=True)
    pack = Stage("pack", pixel_packing("pack", wide, colours, zeros), buffers={"out": "packed"})
    packed = replace(first, work=wide, buffers={**first.buffers, "a": "packed"})
    need = Dependency(packed[x, y], [pixels_read(pack, ROWS * wide.width, wide)])
    rest = pipeline.with_stages({stage.name: stage for stage in (*pipeline.stages, packed)})
    return Pipeline(pipeline.name, [pack, *rest.stages], [need, *rest.dependencies], pipeline.parameters)
