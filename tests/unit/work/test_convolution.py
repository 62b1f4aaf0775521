"""Convolutions: which pixels a tile reads and when, what it waits for, and what no kernel takes."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.safety.hazard_fixes import double_buffered, with_anti_dependencies
from wavesim.safety.hazards import hazards_of
from wavesim.sim.simulation import simulate
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import conv_rows
from wavesim.work.convolution.window import Tap
from wavesim.work.description.reader import Description, load_description
from wavesim.work.description.writer import write_description

BLOCK = Block(threads=128)
# (height, width), kernel size, stride, padding
SHAPES = [
    ((7, 9), 3, 1, None),
    ((8, 6), 1, 1, None),
    ((8, 7), 1, 2, None),
    ((9, 8), 3, 2, None),
    ((11, 12), 7, 2, None),
    ((5, 6), 5, 1, 0),
    ((6, 5), 3, 1, 2),
    ((3, 3), 7, 1, 6),
]


def conv(name="conv", images=3, size=(8, 8), channels=16, filters=16, tile=(20, 8), **rest) -> Conv2D:
    return Conv2D(name, images, *size, channels, filters, *tile, block=BLOCK, **rest)


def stage(name: str, **rest) -> Stage:
    return Stage(name, conv(name, **rest))


def pixels_of(one: Conv2D, row: int, tap: tuple[int, int]) -> np.ndarray:
    """Pixels that a tap of a tile's outputs reads, one output after the other: from the definition."""
    _, rows, columns, _ = one.out_shape
    padding = one.kernel_size // 2 if one.padding is None else one.padding
    end = min((row + 1) * one.tile_m, one.pixels)
    image, p, q = np.unravel_index(np.arange(row * one.tile_m, end), (one.images, rows, columns))
    h, w = p * one.stride - padding + tap[0], q * one.stride - padding + tap[1]
    inside = (h >= 0) & (h < one.height) & (w >= 0) & (w < one.width)
    return ((image * one.height + h) * one.width + w)[inside]


@pytest.mark.parametrize(("size", "kernel_size", "stride", "padding"), SHAPES)
@pytest.mark.parametrize("tile_m", [5, 16, 100])
def test_a_tap_reads_the_pixels_of_its_definition(size, kernel_size, stride, padding, tile_m):
    one = conv(size=size, kernel_size=kernel_size, stride=stride, padding=padding, tile=(tile_m, 8))
    for row, taps in product(range(one.grid.y), product(range(kernel_size), repeat=2)):
        end = min((row + 1) * tile_m, one.pixels)
        found = list(one.window.pixels_read(Tap(*taps), row * tile_m, end))
        pixels = pixels_of(one, row, taps)
        image = one.height * one.width
        expected = [pixels[pixels // image == n] for n in range(one.images)]
        assert found == [(part.min(), part.max() + 1) for part in expected if len(part)]


@pytest.mark.parametrize(("size", "kernel_size", "stride", "padding"), SHAPES)
@pytest.mark.parametrize("tiles", [(16, 16), (8, 24), (40, 16)])
def test_all_pixels_that_a_tile_reads_are_in_the_tiles_that_its_dependency_names(
    size, kernel_size, stride, padding, tiles
):
    first = stage("first", size=size, kernel_size=1, tile=(tiles[0], 8))
    second = stage(
        "second", size=size, kernel_size=kernel_size, stride=stride, padding=padding, tile=(tiles[1], 8)
    )
    pipeline = Pipeline("pair", [first, second], [conv_rows(first, second)])
    Precedence(Accesses(pipeline)).require_covered("second")
    named = pipeline.dependencies[0]
    for row in range(second.grid.y):
        read = {
            int(pixel) // tiles[0]
            for tap in product(range(kernel_size), repeat=2)
            for pixel in pixels_of(second.work, row, tap)
        }
        rows = {tile[1] for _, tile in named.producer_tiles(0, row)}
        assert read <= rows
        assert rows <= set(range(min(read) - 1, max(read) + 2))


def test_k_goes_tap_by_tap_and_the_row_above_is_read_first():
    # 8 x 8 images in tiles of two pixel rows: the second tile reads rows 1 to 4, row 1 with the upper taps.
    first, second = (stage(name, images=1, tile=(16, 8), tile_k=8) for name in ("first", "second"))
    accesses = Accesses(Pipeline("pair", [first, second], [conv_rows(first, second)]))
    item = {
        (cx, row): accesses.first_item("second", (0, 1), 0, "first", (cx, row))
        for cx in (0, 1)
        for row in range(4)
    }
    # Two k-blocks of 8 channels a tap: the first column of tiles makes the first of each.
    assert item == {
        (0, 0): 0,
        (1, 0): 1,
        (0, 1): 0,
        (1, 1): 1,
        (0, 2): 12,
        (1, 2): 13,
        (0, 3): None,
        (1, 3): None,
    }


def test_a_split_reads_its_own_taps_and_counts_from_the_first_of_them():
    one = conv(images=1, tile=(16, 8), tile_k=8, split_k=3)
    assert [one.k_blocks(z) for z in range(3)] == [(0, 6), (6, 12), (12, 18)]
    ats = [[read.at for read in one.reads(0, 0, z)] for z in range(3)]
    assert [min(part) for part in ats] == [0, 6, 12]
    # Of the top row of tiles the upper taps are padding in part: the first of them still reads pixels.
    assert one.grid.size == 2 * 4 * 3
    top = conv(images=1, tile=(8, 8), tile_k=8)
    assert min(read.at for read in top.reads(0, 0, 0)) == 0  # its filters; all upper taps are padding
    assert min(read.at for read in top.reads(0, 0, 0) if read.operand == "a") == 6


def test_without_its_halo_a_tile_reads_the_pixels_of_its_own_rows_alone():
    one = conv(awaits_halo=False)
    for row in range(one.grid.y):
        reads = [read.region for read in one.reads(0, row, 0) if read.operand == "a"]
        end = min((row + 1) * one.tile_m, one.pixels)
        assert {(min(r.top for r in reads), max(r.bottom for r in reads))} == {(row * one.tile_m, end)}


def test_a_window_makes_as_many_outputs_as_the_networks_say():
    first = conv(size=(224, 224), channels=8, filters=64, kernel_size=7, stride=2, images=1, tile=(128, 64))
    assert first.out_shape == (1, 112, 112, 64)
    assert conv(size=(56, 56), kernel_size=3, stride=2).out_shape == (3, 28, 28, 16)
    assert conv(size=(56, 56), kernel_size=1, stride=2).out_shape == (3, 28, 28, 16)


def basic_block(**buffers) -> Pipeline:
    """A block of ResNet: two convolutions and the first one's input as the residual of the second."""
    zero, one = stage("zero"), stage("one", activation="relu")
    two = stage("two", has_residual=True, activation="relu", tile=(16, 16))
    needs = [conv_rows(zero, one), conv_rows(one, two, residual=zero)]
    return Pipeline("block", [zero, one, two], needs)


def test_a_residual_is_a_second_producer_that_is_read_with_the_last_k_block():
    pipeline = basic_block()
    accesses = Accesses(pipeline)
    last = pipeline.stage("two").work.k_block_count - 1
    assert accesses.view("two", "residual") == accesses.view("zero", "c")
    assert accesses.view("two", "a") == accesses.view("one", "c")
    assert accesses.first_item("two", (0, 3), 0, "zero", (0, 2)) == last
    assert accesses.first_item("two", (0, 3), 0, "one", (0, 2)) == 0
    assert accesses.first_item("two", (0, 3), 0, "zero", (0, 1)) is None
    for name in ("one", "two"):
        Precedence(accesses).require_covered(name)
    for policy in (RowSync(), TileSync()):
        trace = simulate(pipeline, SemaphoreSync(policy), load("toy"))
        assert trace.makespan_ns > 0


def test_a_residual_whose_tiles_are_not_named_is_refused():
    skip = stage("skip")  # beside the two, so that nothing orders it but being named
    one, two = basic_block().stages[1:]
    needs = Dependency(two[x, y], [*conv_rows(one, two).needs, skip[0, 0]])
    order = Precedence(Accesses(Pipeline("block", [skip, one, two], [needs])))
    with pytest.raises(DescriptionError, match=r"of two reads .* which tile \(1, 0\) of skip writes"):
        order.require_covered("two")


def ping_pong(kernel_size: int) -> Pipeline:
    """Three convolutions between two buffers: the third writes what the second reads."""
    places = [("in", "ping"), ("ping", "pong"), ("pong", "ping")]
    works = [conv("conv0"), conv("conv1"), conv("conv2", kernel_size=kernel_size)]
    stages = [
        Stage(work.name, work, buffers={"a": a, "c": c}) for work, (a, c) in zip(works, places, strict=True)
    ]
    return Pipeline("ping-pong", stages, [conv_rows(*stages[:2]), conv_rows(*stages[1:])])


@pytest.mark.parametrize("policy", [RowSync(), TileSync()])
def test_convolutions_that_ping_pong_wait_for_the_readers_of_what_they_overwrite(policy):
    plan = SemaphoreSync(policy)
    assert next(hazards_of(ping_pong(3), plan), None) is None  # its own halo is who reads its pixels
    risky = ping_pong(1)
    found = next(hazards_of(risky, plan), None)
    assert found is not None
    assert (found.buffer, found.kind) == ("ping", "overwritten before read")
    assert next(hazards_of(with_anti_dependencies(risky), plan), None) is None
    assert next(hazards_of(double_buffered(risky, "ping"), plan), None) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"channels": 12}, "channels is 12; it must be a multiple of 8, 16 bytes. Pad with zeros to 16"),
        ({"filters": 1}, "filters is 1; it must be a multiple of 8"),
        ({"dilation": 2}, "dilation is 2; it must be 1: taps are neighbours"),
        ({"groups": 4}, "groups is 4; it must be 1: every filter reads all channels"),
        ({"stride": 3}, "stride is 3; it must be 1 or 2"),
        ({"kernel_size": 4}, "kernel_size is 4; it must be odd"),
        ({"kernel_size": 3, "padding": 3}, "padding is 3; with kernel_size 3 it must be 0 to 2"),
        (
            {"size": (2, 9), "kernel_size": 7, "padding": 1},
            "an image of 2 x 9 with padding 1 holds at most 4",
        ),
        ({"split_k": 10}, "9 taps of 16 channels have only 9 k-blocks of 32. Use split_k <= 9"),
        ({"activation": "gelu"}, "activation is 'gelu'; it must be None or 'relu'"),
        ({"dtype": "fp8"}, "dtype is 'fp8'; it must be 'fp16' or 'bf16'"),
        ({"awaits_halo": False, "stride": 2}, "awaits_halo is False; the published code has stride 1"),
        ({"images": 1, "channels": 2**40}, "at most 4,194,304 in all are enumerated. Use fewer images, or a"),
        ({"column_padding": 3}, "padding is 1, 3 left and right; with kernel_size 3 it must be 0 to 2"),
        ({"packs_rows": True, "channels": 8}, "column_padding is 1; with packs_rows it must be 0"),
        ({"packs_rows": True}, "3 taps of them must fit a k-block of 32: at most 10. Use packs_rows=False"),
        (
            {"images": 100_000},
            "6,400,000 pixels are more than 65,535 tiles of 20. Use fewer images or larger",
        ),
    ],
)
def test_what_no_implicit_gemm_of_ours_takes_is_refused_by_name(change, words):
    with pytest.raises(DescriptionError, match="Conv2D conv: ") as caught:
        conv(**change)
    assert words in str(caught.value)


def test_residuals_that_do_not_fit_are_refused():
    zero, one, two = basic_block().stages
    with pytest.raises(DescriptionError, match="one has no residual for zero to compute"):
        conv_rows(zero, one, residual=zero)
    with pytest.raises(
        DescriptionError, match=r"adds a residual of \(3, 8, 8, 16\) but odd makes \(3, 4, 4, 16\)"
    ):
        conv_rows(one, two, residual=stage("odd", stride=2))


FILE = """
device = "h200"
[[stages]]
name = "conv1"
convolution = { images = 2, height = 56, width = 56, channels = 64, filters = 128, stride = 2 }
tile = [128, 64, 64]
threads = 128
registers = 64
shared_bytes = 0
[[stages]]
name = "skip"
convolution = { images = 2, height = 56, width = 56, channels = 64, filters = 128, SKIP }
tile = [64, 128, 64]
threads = 128
registers = 64
shared_bytes = 0
[[stages]]
name = "conv2"
convolution = { images = 2, height = 28, width = 28, channels = 128, filters = 128, EPILOGUE }
tile = [128, 128, 64]
element = "fp16"
activation = "relu"
split_k = 2
threads = 128
registers = 64
shared_bytes = 0
[[dependencies]]
consumer = "conv2"
needs = ["conv1", "skip"]
""".replace("SKIP", "kernel_size = 1, stride = 2").replace("EPILOGUE", "residual = true, bias = true")


def test_a_description_says_what_python_says(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    found = load_description(path)
    one, skip, two = found.pipeline.stages
    assert isinstance(two.work, Conv2D)
    assert (two.work.split_k, two.work.has_bias, two.work.activation, str(two.grid)) == (
        2,
        True,
        "relu",
        "1 x 13 x 2",
    )
    assert isinstance(one.work, Conv2D)
    assert one.work.out_shape == (2, 28, 28, 128)
    assert found.pipeline.dependencies == (conv_rows(one, two, residual=skip),)
    again = write_description(tmp_path / "again.toml", Description(found.pipeline, load("h200")))
    assert 'needs = ["conv1", "skip"]' in again.read_text()
    assert load_description(again).pipeline.dependencies == found.pipeline.dependencies


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("stride = 2 }", "strid = 2 }", "stages[0].convolution.strid' is unknown"),
        ("images = 2, ", "", "stages[0].convolution.images' is missing; write images = 8"),
        ("stride = 2 }", "stride = 0 }", "stride is 0; it must be 1 or 2"),
        ("tile = [128, 64, 64]\n", "", "stages[0].tile' is missing"),
        (
            "tile = [128, 64, 64]\n",
            "tile = [128, 64, 64]\nm = 5\n",
            "stages[0].m' is 5; convolution says what",
        ),
        (
            "tile = [128, 64, 64]\n",
            "tile = [128, 64, 64]\ngrid = [2, 14]\n",
            "convolution and tile make it 2 x 13",
        ),
        ("residual = true, ", "", "conv2 has no residual for skip to compute"),
    ],
)
def test_a_description_of_a_convolution_that_cannot_be_is_refused_by_field(tmp_path: Path, old, new, words):
    path = tmp_path / "mine.toml"
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises((DescriptionError, RecordingError)) as caught:
        load_description(path)
    assert words in str(caught.value)
