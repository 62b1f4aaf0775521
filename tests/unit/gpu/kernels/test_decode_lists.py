"""Work lists of a decode step have every tile once, evenly; what the kernel does not take is refused."""

from collections import Counter
from dataclasses import replace

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.work_lists import lists_of_plan
from wavesim_gpu.kernels.decode.shape import SHARED_BYTES, DecodeShape
from wavesim_gpu.kernels.decode.work_list import ATTENTION, STAGES, pipeline_of, plan_of, share_tiles

H200 = load("h200")

LLAMA = {"hidden": 2048, "inner": 8192, "heads": 32, "kv_heads": 8, "head_size": 64}
QWEN = {"hidden": 896, "inner": 4864, "heads": 14, "kv_heads": 2, "head_size": 64, "has_bias": True}


def lists_of(shape, blocks=132, keys=512, vocabulary=0):
    return share_tiles(shape, replace(H200, sm_count=blocks), keys, vocabulary)


@pytest.mark.parametrize("blocks", [16, 78, 132])
@pytest.mark.parametrize("sizes", [LLAMA, QWEN, LLAMA | {"batch": 8}])
def test_every_tile_is_in_the_lists_once_and_no_block_has_more_than_an_even_share(blocks, sizes):
    shape = DecodeShape(**sizes)
    lists = lists_of(shape, blocks, vocabulary=4096)
    seen = Counter(int(code) for code in lists.items)
    splits = shape.batch * shape.kv_heads * shape.splits
    rows = shape.qkv_columns // 16, shape.hidden // 16, shape.inner // 8, shape.hidden // 16, 4096 // 16
    expected = [rows[0], splits, *rows[1:]]
    assert seen == {stage << 24 | tile: 1 for stage, tiles in enumerate(expected) for tile in range(tiles)}
    for block in range(blocks):
        items = lists.of_block(block)
        assert [stage for stage, _ in items] == sorted(stage for stage, _ in items)
        for stage, count in Counter(stage for stage, _ in items).items():
            assert count <= -(-expected[stage] // blocks)
        assert all(lists.block_of(stage, tile) == block for stage, tile in items)
    assert len(expected) == len(STAGES)


@pytest.mark.parametrize("placement", ["balanced", "continued", "restarted"])
@pytest.mark.parametrize(
    "options", [{}, {"batch": 8, "splits": 2}, {"qkv_rows": 8, "down_rows": 8, "splits": 16}]
)
def test_a_kernel_reads_the_list_of_the_plan_that_is_simulated(placement, options):
    shape = DecodeShape(**QWEN | options).tuned(placement=placement)
    plan = plan_of(shape)
    simulated = lists_of_plan(pipeline_of(shape, 512), plan, H200)
    lists = lists_of(shape)
    assert lists.items.tolist() == simulated.codes.tolist()
    assert lists.first[:, 0].tolist() == simulated.first[:-1].tolist()
    assert plan.schedule.ring_bytes <= shape.shared_bytes
    assert simulated.slots == shape.ring_slots


def test_blocks_with_keys_to_read_have_fewer_weights():
    shape = DecodeShape(**LLAMA)
    lists = lists_of(shape, keys=8192)
    sizes = {0: shape.hidden, 2: shape.attention_columns, 3: shape.hidden, 4: shape.inner}
    weights = [
        sum(sizes[stage] for stage, _ in lists.of_block(block) if stage != ATTENTION) for block in range(132)
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
        lists_of(DecodeShape(**LLAMA), 8, vocabulary=128_256)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"head_size": 96}, "head_size is 96; a decode step takes 64 or 128"),
        ({"batch": 3}, "batch is 3; a decode step takes 1 or 2 or 4 or 8 sequences"),
        ({"heads": 32, "kv_heads": 2}, "32 query heads share 2 key heads; .* 1 to 8 query heads"),
        ({"hidden": 2040}, "hidden is 2040; it must be a multiple of 64"),
        ({"batch": 8, "hidden": 16384}, "8 rows of 16384 values leave .* slots .* use a smaller batch"),
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


@pytest.mark.parametrize(("batch", "parts"), [(1, 1), (2, 1), (4, 2), (8, 4)])
def test_the_widest_input_comes_in_as_few_parts_as_leave_room_for_a_ring(batch, parts):
    shape = DecodeShape(4096, 14336, 32, 8, 128, batch).tuned()
    assert (shape.parts, shape.ring_slots >= 6) == (parts, True)
