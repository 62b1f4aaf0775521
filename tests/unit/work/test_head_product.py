"""The products of attention by five kernels read what the formula needs, and write each output once."""

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim.work.attention.head_product import READ_TOGETHER, HeadProduct

FORMS = [
    {"sequences": 1, "length": 256, "heads": 2, "kv_heads": 2},
    {"sequences": 2, "length": 200, "heads": 4, "kv_heads": 2, "head_dim": 64},
    {"sequences": 3, "length": 40, "heads": 2, "kv_heads": 1, "cached": 304, "kv_rows": 400},
    {"sequences": 4, "length": 1, "heads": 2, "kv_heads": 2, "cached": 127, "kv_rows": 128},
    {"sequences": 1, "length": 160, "heads": 1, "kv_heads": 1, "head_dim": 192},
]


def marked(matrix, regions):
    """How often each element lies in one of some regions."""
    count = np.zeros((matrix.rows, matrix.columns), int)
    for region in regions:
        assert region.top < region.bottom <= matrix.rows
        assert region.left < region.right <= matrix.columns
        count[region.top : region.bottom, region.left : region.right] += 1
    return count


@pytest.mark.parametrize("product", ["scores", "context"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_output_is_written_once_and_the_own_keys_go_behind_those_cached(product, form):
    work = HeadProduct("product", product, **form)
    writes = [write for tile in work.grid for write in work.writes(*tile)]
    assert (marked(work.operands["out"], [w.region for w in writes if w.operand == "out"]) == 1).all()
    stored = [write.region for write in writes if write.operand == "cache"]
    if not work.kv_rows:
        assert not stored
        return
    of_sequence = marked(work.operands["cache"], stored).reshape(work.sequences, work.kv_rows, -1)
    assert (of_sequence[:, work.cached : work.keys] == 1).all()
    assert of_sequence.sum() == of_sequence[:, work.cached : work.keys].size


@pytest.mark.parametrize("product", ["scores", "context"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_tile_reads_its_rows_of_a_and_its_sequences_keys_in_the_order_of_the_k_blocks(product, form):
    work = HeadProduct("product", product, **form)
    x, y = work.grid.x - 1, work.grid.y - 1
    reads = list(work.reads(x, y, 0))
    assert [read.at for read in reads] == sorted(read.at for read in reads)
    assert {read.at for read in reads} == set(range(0, work.items(x, y, 0), READ_TOGETHER))
    rows = (work.length - 1) % work.tile_m + 1
    of_a = marked(work.operands["a"], [read.region for read in reads if read.operand == "a"])
    assert of_a.sum() == rows * work.k
    assert of_a[-rows:, -work.k :].all()
    keys = sum(
        marked(work.operands[name], [read.region for read in reads if read.operand == name]).sum()
        for name in ("b", "cache")
        if name in work.operands
    )
    columns = (work.n - 1) % work.tile_n + 1
    assert keys == columns * work.k


def test_a_block_of_keys_that_ends_among_the_own_is_read_from_the_cache_and_from_b():
    work = HeadProduct("scores", "scores", 2, 40, 2, 1, 64, cached=200, kv_rows=256)
    reads = {(read.operand, *read.region) for read in work.reads(3, 1, 0) if read.at == 0}
    assert reads == {
        ("a", 40, 80, 64, 128),
        ("cache", 256 + 128, 256 + 200, 0, 64),
        ("b", 40, 80, 0, 64),
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"length": 100}, "are 100 keys; they must be a multiple of 8"),
        ({"head_dim": 100}, "head_dim is 100; it must be a multiple of 8"),
        ({"kv_heads": 3}, "heads is 4 and kv_heads 3"),
        ({"cached": 64}, "the cache has 0 rows for a sequence; cached 64 \\+ length 128 need 192"),
        ({"product": "both"}, "product is 'both'; it must be 'scores' or 'context'"),
        ({"cached": -8}, "cached is -8; it must be an integer of at least 0"),
        ({"sequences": 0}, "sequences is 0"),
    ],
)
def test_what_no_kernel_takes_is_refused_by_name(changed, said):
    usual = {"product": "scores", "sequences": 1, "length": 128, "heads": 4, "kv_heads": 2}
    with pytest.raises(DescriptionError, match=said):
        HeadProduct("scores", **{**usual, **changed})
