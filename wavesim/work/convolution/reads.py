"""Which tiles a convolution needs: those with its images' pixels, their halo included, and its residual's.

Example: a tile of 128 pixels of 28 x 28 images covers four and a half pixel rows; a 3 x 3 convolution of
stride 1 also reads the pixel rows above and below, up to the image's border, from the tiles that hold them.
"""

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.index import Index
from wavesim.model.stage import Stage, TileSet
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.window import Window


def conv_rows(producer: Stage, consumer: Stage, residual: Stage | None = None) -> Dependency:
    """The strict dependency of a convolution on the one that computes its images, halo included.

    `residual` is the stage that computes what its epilogue adds. Raises `DescriptionError` unless the shapes
    agree.
    """
    needs = [images_read(producer, consumer)]
    if residual is not None:
        needs.append(residual_read(residual, consumer))
    return Dependency(consumer[x, y], needs)


def images_read(producer: Stage, consumer: Stage) -> TileSet:
    """The producer's tiles that hold the pixels of consumer tile (x, y), halo included: all their channels.

    Those of its rows and the filter's reach around them, and no pixel of an image that it has no outputs of;
    at an image's border a tile may be named that is not read. Raises `DescriptionError`.
    """
    first, second = _convolution(producer), _convolution(consumer)
    read = (second.images, second.height, second.width, second.channels)
    if first.out_shape != read:
        raise DescriptionError(
            f"{consumer.name} reads images of {read} but {producer.name} makes {first.out_shape}; "
            "(images, height, width, channels) must be equal"
        )
    return pixels_read(producer, first.tile_m, second)


def pixels_read(producer: Stage, tile_pixels: int, second: Conv2D) -> TileSet:
    """The same of any producer whose tiles are so many pixels each, one after the other."""
    begin = y * second.tile_m
    last = (begin + (second.tile_m - 1)).at_most(second.pixels - 1)
    window, image = second.window, second.height * second.width
    outputs = window.out_height * window.out_width
    before = window.padding * window.width + window.left
    after = (window.size - 1) * (window.width + 1) - before
    top = (_pixel(begin, window) - before).at_least(begin // outputs * image)
    bottom = (_pixel(last, window) + after).at_most(last // outputs * image + (image - 1))
    return producer[:, top // tile_pixels : bottom // tile_pixels + 1]


def _pixel(output: Index, window: Window) -> Index:
    """The number of the pixel where an output's window would begin without padding.

    Output n * P * Q + p * Q + q has pixel n * H * W + stride * (p * W + q), here without p and q.
    """
    rows, columns = window.out_height, window.out_width
    stride = window.stride
    pixel = output * stride if stride > 1 else output
    for divisor, factor in (
        (columns, stride * (window.width - columns)),
        (rows * columns, window.height * window.width - stride * rows * window.width),
    ):
        pixel = pixel + output // divisor * factor if factor else pixel
    return pixel


def residual_read(producer: Stage, consumer: Stage) -> TileSet:
    """The producer's tiles that hold the residual of consumer tile (x, y). Raises `DescriptionError`."""
    first, second = _convolution(producer), _convolution(consumer)
    if not second.has_residual:
        raise DescriptionError(
            f"{consumer.name} has no residual for {producer.name} to compute; use has_residual=True"
        )
    if first.out_shape != second.out_shape:
        raise DescriptionError(
            f"{consumer.name} adds a residual of {second.out_shape} but {producer.name} makes "
            f"{first.out_shape}; (images, height, width, channels) must be equal"
        )
    columns = _overlapping(x, second.tile_n, first.tile_n, first.grid.x)
    return producer[columns, _overlapping(y, second.tile_m, first.tile_m, first.grid.y)]


def _overlapping(place: Index, own: int, other: int, extent: int) -> Index | slice:
    """Tiles of another size that share elements with the tile at `place`."""
    if own == other:
        return place
    return slice(place * own // other, ((place * own + (own - 1)) // other + 1).at_most(extent))


def _convolution(stage: Stage) -> Conv2D:
    if not isinstance(stage.work, Conv2D):
        raise DescriptionError(f"stage {stage.name} is a {type(stage.work).__name__}, not a Conv2D")
    return stage.work
