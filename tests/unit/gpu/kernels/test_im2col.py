"""The integers by which kernels load convolutions: tap by tap they make the right product."""

import numpy as np
import pytest
from conv_cases import CASES, PACKED, conv

from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.convolution.reads import conv_rows
from wavesim_gpu.kernels.convolution.im2col import (
    NOWHERE,
    im2col_map,
    im2col_record,
    multiplier,
    pixel_of,
    quotient,
    tap_of,
)
from wavesim_gpu.kernels.convolution.reference import conv_reference

TOLERANCE = 1e-4
ALL = CASES | PACKED


def data(work):
    """Random operands, float32, by name."""
    random = np.random.default_rng(0)
    return {
        name: random.standard_normal((matrix.rows, matrix.columns), np.float32)
        for name, matrix in work.operands.items()
    }


def loaded_pixels(work, row, k_block):
    """The pixels that a tile's rows of one k-block are, as a kernel asks for them."""
    record, rows = im2col_record(work), im2col_map(work, work.tile_m)
    return rows.walk(pixel_of(record, row * work.tile_m), tap_of(record, k_block))


def tile_sums(work, a, b, row):
    """A tile row of the product: what the kernel makes of what its loader loads."""
    record, sums = im2col_record(work), np.zeros((work.tile_m, work.filters), np.float32)
    if work.packs_rows:
        return packed_sums(work, a, b, row)
    weights = b.reshape(work.filters, work.window.taps, work.channels)
    for k_block in range(work.k_block_count):
        tap, pixels = tap_of(record, k_block), loaded_pixels(work, row, k_block)
        channels = slice(tap.channel_block * work.tile_k, (tap.channel_block + 1) * work.tile_k)
        values = np.where((pixels == NOWHERE)[:, None], 0, a[pixels, channels])
        sums += values @ weights[:, tap.number, channels].T
    return sums[: work.pixels - row * work.tile_m]


def packed_sums(work, a, b, row):
    """The same where a k-block is a row of taps: neighbouring pixels as they lie."""
    record, sums = im2col_record(work), np.zeros((work.tile_m, work.filters), np.float32)
    weights = b.reshape(work.filters, work.kernel_size, -1)
    for k_block in range(work.k_block_count):
        pixels = loaded_pixels(work, row, k_block)
        assert tap_of(record, k_block) == (k_block, k_block, 0, 0)
        values = a[np.maximum(pixels, 0)[:, None] + np.arange(work.kernel_size)].reshape(work.tile_m, -1)
        sums += np.where((pixels == NOWHERE)[:, None], 0, values) @ weights[:, k_block].T
    return sums[: work.pixels - row * work.tile_m]


def by_definition(work, a, b):
    """Output by output, with no product: what the convolution is."""
    images = a.reshape(work.images, work.height, work.width, work.channels)
    filters = b.reshape(work.filters, work.kernel_size, work.kernel_size, work.channels)
    out = np.zeros(work.out_shape, np.float32)
    for n, p, q, _ in np.ndindex(*work.out_shape[:3], 1):
        for r, s in np.ndindex(work.kernel_size, work.kernel_size):
            h, w = p * work.stride - work.window.padding + r, q * work.stride - work.window.left + s
            if 0 <= h < work.height and 0 <= w < work.width:
                out[n, p, q] += filters[:, r, s] @ images[n, h, w]
    return out.reshape(work.pixels, work.filters)


@pytest.mark.parametrize("case", ALL)
def test_the_k_blocks_that_are_loaded_make_the_convolution(case):
    work = ALL[case]
    operands = data(work)
    expected = by_definition(work, operands["a"], operands["b"])
    made = np.concatenate([tile_sums(work, operands["a"], operands["b"], row) for row in range(work.grid.y)])
    assert np.abs(made - expected).max() < TOLERANCE * np.abs(expected).max()
    assert np.abs(conv_reference(work, operands) - expected).max() < TOLERANCE * np.abs(expected).max()


def test_the_reference_adds_bias_and_residual_and_rectifies_last():
    work = conv(1, 5, 16, 8, has_bias=True, has_residual=True, activation="relu")
    operands = data(work)
    sums = by_definition(work, operands["a"], operands["b"]) + operands["bias"] + operands["residual"]
    assert np.allclose(conv_reference(work, operands), np.maximum(sums, 0), atol=1e-4)


@pytest.mark.parametrize("case", ALL)
def test_what_is_loaded_before_a_k_block_is_what_the_description_says_that_it_reads(case):
    work = ALL[case]
    for row in range(work.grid.y):
        said = {}
        for read in work.reads(0, row, 0):
            if read.operand == "a":
                said.setdefault(read.at, []).append(read.region)
        for k_block in range(work.k_block_count):
            pixels = loaded_pixels(work, row, k_block)
            reached = np.arange(work.kernel_size if work.packs_rows else 1)
            inside = (pixels[pixels != NOWHERE][:, None] + reached).ravel()
            regions = said.get(k_block, [])
            assert all(any(one.top <= pixel < one.bottom for one in regions) for pixel in inside)
            # It says no more than it must: both ends of each run are read.
            assert {edge for one in regions for edge in (one.top, one.bottom - 1)} <= set(inside)


def pair(rule):
    """Two 3 x 3 convolutions of images that cross tiles."""
    stages = [Stage(name, conv(5, 7, 64, 64, name)) for name in ("first", "second")]
    return Pipeline("pair", stages, [rule(*stages)])


def rows_alone(producer, consumer):
    """The mutant: a tile's own rows, without the halo."""
    return Dependency(consumer[x, y], [producer[:, y]])


@pytest.mark.parametrize(("rule", "is_right"), [(conv_rows, True), (rows_alone, False)])
def test_a_tile_whose_halo_was_not_awaited_is_not_a_number(rule, is_right):
    pipeline = pair(rule)
    first, second = (stage.work for stage in pipeline.stages)
    accesses, operands = Accesses(pipeline), data(second)
    for row in range(second.grid.y):
        # All that the tile waited for, and poison elsewhere.
        there = np.full((second.images * second.height * second.width, second.channels), np.nan, np.float32)
        for _, made in pipeline.dependency_of("second").producer_tiles(0, row):
            for top, bottom, left, right in accesses.writes("first", made)["first.c"]:
                there[top:bottom, left:right] = operands["a"][top:bottom, left:right]
        assert first.pixels == len(there)
        assert np.isfinite(tile_sums(second, there, operands["b"], row)).all() == is_right


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 8, 9, 11, 32, 49, 1023, 65_535])
def test_quotients_by_multiplication_are_those_by_division(divisor):
    numbers = [*range(0, 1 << 16, 97), *range(65_400, 1 << 16), divisor - 1, divisor]
    assert [quotient(one, multiplier(divisor)) for one in numbers] == [one // divisor for one in numbers]
