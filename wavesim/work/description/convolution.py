"""Convolutions in a description: their table, the names that stand for what they read, and the way back.

Example:
    [[stages]]
    name = "conv2"
    tile = [128, 128, 64]
    convolution = { images = 8, height = 28, width = 28, channels = 128, filters = 128, residual = true }
    [[dependencies]]
    consumer = "conv2"
    needs = ["conv1", "conv0"]   # the tiles with its images' pixels, halo included, and with its residual
"""

from collections.abc import Iterator, Mapping

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.kernel import Block, Carveout
from wavesim.model.stage import Stage, TileSet
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import images_read, residual_read
from wavesim.work.description.fields import CONVOLUTION
from wavesim.work.description.table import DescriptionTable

GIVEN = ("images", "height", "width", "channels", "filters")
USUAL_TILE_K = 32  # channels of a k-block, as of `Conv2D`
USUAL = {"kernel_size": 3, "stride": 1, "dilation": 1, "groups": 1}
READ_BY_PLACE = (images_read, residual_read)


def convolution_of(
    name: str, block: Block, carveout: Carveout, stage: DescriptionTable, split_k: int
) -> Conv2D:
    """The convolution that a stage's table describes. Raises `RecordingError` or `DescriptionError`."""
    for other in ("m", "n", "k", "flops", "bytes"):
        if stage.has(other):
            raise stage.wrong(other, "convolution says it; leave it out")
    tile = stage.integers("tile", 2, 3, "[rows, columns] or [rows, columns, k-block]")
    if tile is None:
        raise stage.missing("tile", ", rows (pixels) and columns (filters) of a block's output")
    given = stage.values["convolution"]
    table = DescriptionTable.of(stage.path, f"{stage.where}convolution.", given, CONVOLUTION)
    sizes = {size: table.required(size, int) if table.has(size) else usual for size, usual in USUAL.items()}
    tile_m, tile_n, tile_k = [*tile, USUAL_TILE_K][:3]
    return Conv2D(
        name,
        table.required("images", int),
        table.required("height", int),
        table.required("width", int),
        table.required("channels", int),
        table.required("filters", int),
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=tile_k,
        block=block,
        kernel_size=sizes["kernel_size"],
        stride=sizes["stride"],
        dilation=sizes["dilation"],
        groups=sizes["groups"],
        carveout=carveout,
        padding=table.optional("padding", int),
        column_padding=table.optional("column_padding", int),
        packs_rows=table.optional("packs_rows", bool) or False,
        split_k=split_k,
        dtype=stage.word("element", ("fp16", "bf16")) or "fp16",
        has_bias=table.optional("bias", bool) or False,
        has_residual=table.optional("residual", bool) or False,
        activation=stage.word("activation", ("relu",)),
    )


def tiles_of_name(place: int, text: object, stages: Mapping[str, Stage], consumer: Stage) -> TileSet | None:
    """What a stage's name alone means as a need: a convolution's images' tiles, or in second place its
    residual's.
    """
    if not isinstance(text, str) or text not in stages or place >= len(READ_BY_PLACE):
        return None
    return READ_BY_PLACE[place](stages[text], consumer) if isinstance(consumer.work, Conv2D) else None


def written_needs(dependency: Dependency) -> Iterator[str | TileSet]:
    """A dependency's needs: a name where that says all, else the tile set."""
    for place, need in enumerate(dependency.needs):
        try:
            named = tiles_of_name(
                place, need.stage.name, {need.stage.name: need.stage}, dependency.consumer.stage
            )
        except DescriptionError:  # a producer that makes neither its images nor its residual
            named = None
        yield need.stage.name if named == need else need


def convolution_lines(conv: Conv2D) -> Iterator[str]:
    """A convolution's lines of a stage's table."""
    values = {name: str(getattr(conv, name)) for name in GIVEN}
    chosen = (name for name, usual in USUAL.items() if getattr(conv, name) != usual)
    values |= {name: str(getattr(conv, name)) for name in chosen}
    for name in ("padding", "column_padding"):
        if getattr(conv, name) is not None:
            values[name] = str(getattr(conv, name))
    values |= {"packs_rows": "true"} if conv.packs_rows else {}
    values |= {"bias": "true"} if conv.has_bias else {}
    values |= {"residual": "true"} if conv.has_residual else {}
    yield f"tile = [{conv.tile_m}, {conv.tile_n}, {conv.tile_k}]"
    yield f"convolution = {{ {', '.join(f'{name} = {value}' for name, value in values.items())} }}"
    yield f'element = "{conv.dtype}"'
    if conv.activation is not None:
        yield f'activation = "{conv.activation}"'
    if conv.split_k > 1:
        yield f"split_k = {conv.split_k}"
