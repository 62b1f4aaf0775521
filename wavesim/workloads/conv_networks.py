"""ResNet-34, ResNet-50 and VGG-19 as they are: every convolution, with strides, shortcuts and residuals.

Example: `network_part("resnet-34", 28, images=8)` is the eight 3 x 3 convolutions on 28 x 28 images, the
first of stride 2, and the 1 x 1 convolution of stride 2 beside them, whose output the second adds.

A part is what computes images of one size; VGG pools between parts, ResNet before its second. Pooling, and
the products behind the convolutions, are kernels of their own, which nothing overlaps. Batch normalisation is
folded into weights and biases; the 3 colours are padded to 8 channels.
Source: He et al., "Deep Residual Learning", 2016 (ResNet-50 with the stride in its 3 x 3, as torchvision has
it); Simonyan and Zisserman, "Very Deep Convolutional Networks", 2015, configuration E.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import shown
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import conv_rows
from wavesim.workloads.hopper import TILE_K, block_of

Tile = tuple[int, int, int]  # rows, columns, splits of K
PADDED_COLOURS = 8


@dataclass(frozen=True)
class Convolution:
    """One convolution of a network, on images of `size` x `size` pixels.

    `reads` and `residual` name the convolutions that compute its images and what it adds; "" none of its
    part. `adds`: whether it adds a residual, whoever computes it.
    """

    name: str
    size: int
    channels: int
    filters: int
    kernel_size: int = 3
    stride: int = 1
    reads: str = ""
    residual: str = ""
    has_relu: bool = True
    adds: bool = False

    @property
    def out_size(self) -> int:
        """Of its outputs."""
        return self.size // self.stride


@dataclass(frozen=True)
class Network:
    """All convolutions in their order."""

    name: str
    convolutions: tuple[Convolution, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of its parts' outputs."""
        return tuple(dict.fromkeys(one.out_size for one in self.convolutions))

    def part(self, size: int) -> tuple[Convolution, ...]:
        """What it computes on images of a size; what another part computes is an input."""
        found = [one for one in self.convolutions if one.out_size == size]
        names = {one.name for one in found}
        return tuple(
            replace(
                one,
                reads=one.reads if one.reads in names else "",
                residual=one.residual if one.residual in names else "",
            )
            for one in found
        )


def _vgg19() -> Network:
    found: list[Convolution] = []
    size, channels = 224, PADDED_COLOURS
    for number, (filters, count) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), start=1):
        for place in range(1, count + 1):
            reads = found[-1].name if place > 1 else ""
            found.append(Convolution(f"conv{number}_{place}", size, channels, filters, reads=reads))
            channels = filters
        size //= 2
    return Network("vgg-19", tuple(found))


Block = Callable[[str, int, int, int, int, str], Iterator[Convolution]]


def _resnet(name: str, block: Block, expansion: int) -> Network:
    found = [Convolution("conv1", 224, PADDED_COLOURS, 64, kernel_size=7, stride=2)]
    size, channels, reads = 56, 64, ""
    for number, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for place in range(1, count + 1):
            stride = 2 if place == 1 and number > 1 else 1
            found += block(f"layer{number}_{place}", size, channels, width, stride, reads)
            size, channels, reads = size // stride, width * expansion, found[-1].name
    return Network(name, tuple(found))


def basic_block(
    name: str, size: int, channels: int, width: int, stride: int, reads: str
) -> Iterator[Convolution]:
    """Two 3 x 3; the shortcut is the input, or where its shape differs a 1 x 1 of it."""
    yield Convolution(f"{name}a", size, channels, width, stride=stride, reads=reads)
    down, residual = _shortcut(name, size, channels, width, stride, reads)
    yield from down
    last = Convolution(f"{name}b", size // stride, width, width, reads=f"{name}a")
    yield replace(last, residual=residual, adds=True)


def bottleneck(
    name: str, size: int, channels: int, width: int, stride: int, reads: str
) -> Iterator[Convolution]:
    """1 x 1 to `width` channels, 3 x 3, and 1 x 1 to four times as many; shortcuts as in `basic_block`."""
    yield Convolution(f"{name}a", size, channels, width, kernel_size=1, reads=reads)
    yield Convolution(f"{name}b", size, width, width, stride=stride, reads=f"{name}a")
    down, residual = _shortcut(name, size, channels, 4 * width, stride, reads)
    yield from down
    last = Convolution(f"{name}c", size // stride, width, 4 * width, kernel_size=1, reads=f"{name}b")
    yield replace(last, residual=residual, adds=True)


def _shortcut(
    name: str, size: int, channels: int, filters: int, stride: int, reads: str
) -> tuple[tuple[Convolution, ...], str]:
    """The convolution of the shortcut, where there is one, and who computes the residual."""
    if stride == 1 and channels == filters:
        return (), reads
    down = Convolution(f"{name}_down", size, channels, filters, 1, stride, reads, has_relu=False)
    return (down,), down.name


NETWORKS: Mapping[str, Network] = {
    one.name: one
    for one in (_resnet("resnet-34", basic_block, 1), _resnet("resnet-50", bottleneck, 4), _vgg19())
}


def network_named(name: str) -> Network:
    """Raises `DescriptionError`, with those that are known."""
    if name not in NETWORKS:
        raise DescriptionError(f"network is {shown(name)}; known are {', '.join(NETWORKS)}")
    return NETWORKS[name]


def network_part(
    name: str, size: int, images: int, tiles: Mapping[str, Tile] | Tile = (128, 128, 1)
) -> Pipeline:
    """The convolutions of a network on images of `size` pixels, a batch of `images`, on the Hopper kernels.

    `tiles` are (rows, columns, splits of K) of all, or by convolution. Raises `DescriptionError`.
    """
    network = network_named(name)
    if size not in network.sizes:
        raise DescriptionError(
            f"{name} has no part of {shown(size)} pixels; it has {', '.join(map(str, network.sizes))}"
        )
    return chain_of_convolutions(f"{name}-{size}", network.part(size), images, tiles)


def chain_of_convolutions(
    name: str, convolutions: Sequence[Convolution], images: int, tiles: Mapping[str, Tile] | Tile
) -> Pipeline:
    """Some convolutions in their order, each reading what it names. Raises `DescriptionError`."""
    stages: dict[str, Stage] = {}
    needs = []
    for one in convolutions:
        tile = tiles[one.name] if isinstance(tiles, Mapping) else tiles
        stages[one.name] = Stage(one.name, conv_of(one, images, tile))
        makers = [stages[maker] for maker in (one.reads, one.residual) if maker]
        if one.reads:
            needs.append(conv_rows(makers[0], stages[one.name], *makers[1:]))
    return Pipeline(name, list(stages.values()), needs, {"images": images})


def conv_of(one: Convolution, images: int, tile: Tile) -> Conv2D:
    """A network's convolution for a batch, in tiles of the Hopper kernels."""
    tile_m, tile_n, split_k = tile
    return Conv2D(
        one.name,
        images,
        one.size,
        one.size,
        one.channels,
        one.filters,
        tile_m,
        tile_n,
        block=block_of((tile_m, tile_n), is_convolution=True),
        carveout="full",
        kernel_size=one.kernel_size,
        stride=one.stride,
        tile_k=TILE_K,
        split_k=split_k,
        has_bias=True,
        has_residual=one.adds,
        activation="relu" if one.has_relu else None,
    )
