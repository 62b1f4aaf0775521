"""Work lists of a decode step have every tile once, evenly; what the kernel does not take is refused."""

from collections import Counter

import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.decode.shape import SHARED_BYTES, DecodeShape
from wavesim_gpu.kernels.decode.work_list import ATTENTION, HEAD, STAGES, share_tiles, tiles_of

LLAMA = {"hidden": 2048, "inner": 8192, "heads": 32, "kv_heads": 8, "head_size": 64}
QWEN = {"hidden": 896, "inner": 4864, "heads": 14, "kv_heads": 2, "head_size": 64, "has_bias": True}


@pytest.mark.parametrize("blocks", [16, 78, 132])
@pytest.mark.parametrize("sizes", [LLAMA, QWEN])
def test_every_tile_is_in_the_lists_once_and_no_block_has_more_than_an_even_share(blocks, sizes):
    shape = DecodeShape(**sizes)
    lists = share_tiles(shape, blocks, keys=512, vocabulary=4096)
    seen = Counter(int(code) for code in lists.items)
    expected = [tiles_of(shape, stage, 512, 4096)[0] for stage in range(len(STAGES))]
    assert seen == {stage << 24 | tile: 1 for stage, tiles in enumerate(expected) for tile in range(tiles)}
    for block in range(blocks):
        items = lists.of_block(block)
        assert items == sorted(items)
        for stage, count in Counter(stage for stage, _ in items).items():
            assert count <= -(-expected[stage] // blocks)
        assert all(lists.block_of(stage, tile) == block for stage, tile in items)


def test_blocks_with_keys_to_read_have_fewer_weights():
    shape = DecodeShape(**LLAMA)
    lists = share_tiles(shape, 132, keys=8192)
    weights = [
        sum(tiles_of(shape, stage, 8192)[1] for stage, _ in lists.of_block(block) if stage != ATTENTION)
        for block in range(132)
    ]
    has_keys = [any(stage == ATTENTION for stage, _ in lists.of_block(block)) for block in range(132)]
    reading, others = (
        [w for w, has in zip(weights, has_keys, strict=True) if has is which] for which in (True, False)
    )
    assert max(reading) < max(others)


def test_a_list_that_does_not_fit_into_shared_memory_is_refused():
    with pytest.raises(
        DescriptionError, match=r"a block would have .* it holds 320: use a GPU with more SMs"
    ):
        share_tiles(DecodeShape(**LLAMA), 8, keys=512, vocabulary=128_256)
    assert tiles_of(DecodeShape(**LLAMA), HEAD, 512, 128_256)[0] == 8016


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"head_size": 96}, "head_size is 96; a decode step takes 64 or 128"),
        ({"batch": 3}, "batch is 3; a decode step takes 1 or 2 or 4 or 8 sequences"),
        ({"heads": 32, "kv_heads": 2}, "32 query heads share 2 key heads; .* 1 to 8 query heads"),
        ({"hidden": 2040}, "hidden is 2040; it must be a multiple of 64"),
        ({"batch": 8}, "8 rows of 8192 values leave 0 slots .* use a smaller batch"),
    ],
)
def test_a_shape_that_the_kernel_does_not_take_is_refused_by_name(change, words):
    with pytest.raises(DescriptionError, match=words):
        DecodeShape(**LLAMA | change)


@pytest.mark.parametrize("sizes", [LLAMA, QWEN, LLAMA | {"hidden": 4096, "inner": 14336, "head_size": 128}])
def test_the_tuned_ring_fills_shared_memory_and_options_go_before_it(sizes):
    shape = DecodeShape(**sizes).tuned()
    assert shape.ring_slots == 12
    assert SHARED_BYTES * 0.9 < shape.shared_bytes < SHARED_BYTES
    assert DecodeShape(**sizes).tuned(replicas=1, groups=4).replicas == 1
