"""Residual, RoPE and KV cache of a product: what they read and write, and what is refused by name."""

from dataclasses import replace

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.regions import Region
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope

ROPE, CACHE = Rope(heads=5, head_dim=128, rows=100, first=50), CacheStore(128, 100, capacity=300, first=50)
QKV = Gemm("qkv", 200, 6 * 128, 512, 128, 256, 64, rope=ROPE, cache=CACHE)


def writes(gemm, x, y):
    found = {}
    for write in gemm.writes(x, y):
        found.setdefault(write.operand, []).append(write.region)
    return found


def test_k_and_v_go_to_the_rows_of_their_sequences_and_c_keeps_q():
    assert QKV.columns == 4 * 128
    assert writes(QKV, 1, 1) == {"c": [Region(128, 200, 256, 512)]}
    # Rows 0 to 127: all of the first sequence, whose rows begin at 50 of 300, and 28 of the second.
    first, second = Region(50, 150, 0, 128), Region(350, 378, 0, 128)
    assert writes(QKV, 2, 0) == {"k_cache": [first, second], "v_cache": [first, second]}
    assert writes(QKV, 2, 1) == {name: [Region(378, 450, 0, 128)] for name in ("k_cache", "v_cache")}


@pytest.mark.parametrize("tile_n", [64, 128, 192, 256])
def test_every_output_is_written_once_whatever_the_tiles(tile_n):
    gemm = replace(QKV, tile_n=tile_n)
    cells = [
        (name, row, column)
        for tile in gemm.grid
        for name, regions in writes(gemm, *tile).items()
        for region in regions
        for row in range(region.top, region.bottom)
        for column in range(region.left, region.right)
    ]
    assert len(cells) == len(set(cells)) == gemm.m * gemm.n


def test_operands_are_those_that_it_has():
    assert QKV.operands["k_cache"].rows == 2 * 300
    assert (QKV.operands["rope"].rows, QKV.operands["rope"].columns) == (150, 128)
    assert QKV.operands["rope"].dtype == "fp32"
    out = Gemm("out", 200, 512, 512, 128, 256, 64, has_residual=True)
    assert out.operands["residual"].rows == 200
    assert not {"rope", "k_cache", "v_cache"} & set(out.operands)
    assert out.kernel.bytes_per_block > replace(out, has_residual=False).kernel.bytes_per_block


def test_the_residual_is_read_with_the_last_k_block():
    out = Gemm("out", 200, 1024, 512, 128, 256, 64, has_residual=True)
    (read,) = (read for read in out.reads(3, 1, 0) if read.operand == "residual")
    assert (read.region, read.at) == (Region(128, 200, 768, 1024), 7)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"activation": "gelu"}, "activation is 'gelu'; with rope it must be None"),
        ({"m": 250}, "m is 250; with rope it must be a multiple of the 100 rows"),
        ({"m": 250, "rope": None}, "m is 250; with cache it must be a multiple of the 100 rows"),
        ({"n": 512}, "n is 512; .* needs at least 640"),
        ({"n": 704}, "n is 704; .* a multiple of 128"),
        ({"n": 256, "rope": None}, "n is 256; .* needs at least 257"),
        ({"has_residual": True, "rope": None}, "has_residual is True .* take no residual"),
        ({"has_residual": 1.5}, "has_residual is 1.5"),
    ],
)
def test_a_product_that_does_not_fit_them_is_refused(change, said):
    with pytest.raises(DescriptionError, match=said):
        replace(QKV, **change)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Rope(4, 96, 10), "head_dim is 96; kernels rotate heads of 64 and 128"),
        (lambda: Rope(0, 64, 10), "Rope: heads is 0"),
        (lambda: CacheStore(100, 10, 20), "columns is 100; K and V have multiples of 64"),
        (lambda: CacheStore(128, 10, 20, first=11), "capacity is 20; 11 cached rows and 10 new ones need 21"),
        (lambda: CacheStore(128, 10, 20, first=-1), "CacheStore: first is -1"),
    ],
)
def test_sizes_that_no_kernel_takes_are_refused(make, said):
    with pytest.raises(DescriptionError, match=said):
        make()
