"""Layers of ResNet-38 and VGG-19: two or four 3 x 3 convolutions, one after the other.

Example: a tile of 128 pixels of 28 x 28 images covers four and a half pixel rows; the next layer's
tile on the same pixels also reads the pixel rows above and below, its halo, from neighbouring tiles.

Strict, the default: `conv2[x, y]` needs all channels of the tiles with its own pixels and their halo, within
the same image. "As published" (the paper's Figure 5c in its text's words, and its code) it needs all
channels of tile row y only: the halo is read without waiting for it. Figure 5c prints
`Tile(x*s, y)`, which names one tile; the text says all column tiles. Its second grid is printed as
(TileM, TileN); it is the same as the first.
Source: cuSync paper, Table II, Figure 5c and IV-B.
"""

from itertools import pairwise

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import conv_rows

Tile = tuple[int, int]

IMAGE_SIZES = {64: 56, 128: 28, 256: 14, 512: 7}  # channels: height and width
CONVOLUTIONS = {
    "resnet": dict.fromkeys(IMAGE_SIZES, 2),
    "vgg": {64: 2, 128: 2, 256: 4, 512: 4},
}
PUBLISHED_LAYERS = {  # how many of each the paper's networks have
    "resnet": {64: 3, 128: 4, 256: 6, 512: 3},
    "vgg": dict.fromkeys(IMAGE_SIZES, 1),
}
PUBLISHED_TILES: dict[int, Tile] = {64: (64, 64), 128: (128, 128), 256: (64, 256), 512: (64, 64)}


def conv_layer(
    model: str, channels: int, images: int, tile: Tile | None = None, *, is_as_published: bool = False
) -> Pipeline:
    """The convolutions of one layer of "resnet" or "vgg", for a batch of `images`.

    `tile` is (pixels, channels), by default the published one. Raises `DescriptionError`.
    """
    if model not in CONVOLUTIONS or channels not in IMAGE_SIZES:
        raise DescriptionError(
            f"conv_layer: model is {model!r} and channels {channels!r}; known are {', '.join(CONVOLUTIONS)} "
            f"with {', '.join(map(str, IMAGE_SIZES))} channels"
        )
    size, tile = IMAGE_SIZES[channels], tile or PUBLISHED_TILES[channels]
    names = [f"conv{i + 1}" for i in range(CONVOLUTIONS[model][channels])]
    block = _block(tile)
    stages = [
        Stage(
            name,
            Conv2D(
                name,
                images,
                size,
                size,
                channels,
                channels,
                *tile,
                block=block,
                carveout="full",
                awaits_halo=not is_as_published,
            ),
        )
        for name in names
    ]
    rule = _as_published if is_as_published else conv_rows
    return Pipeline(
        f"{model}-conv-{channels}" + ("-as-published" if is_as_published else ""),
        stages,
        [rule(*pair) for pair in pairwise(stages)],
        {"images": images, "tile": f"{tile[0]}x{tile[1]}"},
    )


def _as_published(producer: Stage, consumer: Stage) -> Dependency:
    return Dependency(consumer[x, y], [producer[:, y]])


def _block(tile: Tile) -> Block:
    """What a block with such a tile takes: a warp per 64 x 64 outputs, a pipeline depth of two k-blocks of 32
    in fp16.
    """
    warps = max(4, (tile[0] // 64) * (tile[1] // 64))
    return Block(32 * min(warps, 8), registers=168, dynamic_shared_bytes=2 * 2 * 32 * (tile[0] + tile[1]))
