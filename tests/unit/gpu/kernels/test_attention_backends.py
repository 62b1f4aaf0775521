"""What the portable attention kernels take and refuse, and the parameters that they get."""

from dataclasses import replace

import pytest
from attention_layers import decode, decode_layer

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.buffers import buffers_of
from wavesim.model.contents import contents_of
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import StreamSync
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim_gpu.kernels.attention.attention_sm80 import PortableAttention
from wavesim_gpu.kernels.attention.decode import PortableDecode
from wavesim_gpu.kernels.backends import backend_of, require_runs
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

PREFILL = Attention("attention", 2, 300, 8, 2, cached=20, kv_rows=512, tile_m=64)
DECODE = AttentionDecode("decode", 3, 1000, 32, 8, splits=4, appends=True, kv_rows=2048)
H200 = load("h200")


def places(*names, address=4096, row_stride=1024):
    return {name: OperandPlace(address, row_stride) for name in names}


DECODE_PLACES = places("q", "k", "v", "k_new", "v_new", "out")


def test_the_portable_kernels_compute_attention_where_no_hopper_is_asked_for():
    assert backend_of(Stage("attention", PREFILL)).name == "portable-attention"
    assert backend_of(Stage("attention", PREFILL), "hopper").name == "hopper-attention"
    assert backend_of(Stage("decode", DECODE), "hopper").name == "portable-decode"


def test_a_prefill_tile_has_a_warp_for_sixteen_rows_and_two_slots_of_64_keys():
    launch = PortableAttention().launch(PREFILL, StreamSync(), H200)
    assert launch.expression == "attention<128, 64, false, true, false>"
    assert (launch.threads, launch.dynamic_shared_bytes, launch.blocks) == (128, 65_536, 8 * 2 * 5)


def test_the_decode_kernel_has_rows_for_8_or_16_query_heads():
    for heads, rows in ((8, 8), (64, 8), (72, 16), (128, 16)):
        launch = PortableDecode().launch(replace(DECODE, heads=heads), StreamSync(), H200)
        assert launch.expression == f"decode<DecodeConfig<128, {rows}, 4, 16, 3, false>>"
        assert (launch.threads, launch.dynamic_shared_bytes, launch.blocks) == (128, 98_304, 8 * 3 * 4)


def test_a_decode_kernel_gets_strides_between_the_sequences_of_each_operand():
    (record,) = PortableDecode().stage_arguments(DECODE, StreamSync(), DECODE_PLACES, Scratch(64, 128))
    assert record["q"].item() == (4096, 1024, 1024)
    assert record["k"].item() == (4096, 1024, 2048 * 1024)
    assert record["v_new"].item() == (4096, 1024, 1024)
    assert (record["length"], record["tile_n"], record["group"]) == (1001, 64, 4)
    assert (record["partials"], record["tickets"], record["is_dependent"]) == (64, 128, 0)
    # A row of 128 sums and what scales them, per KV head, sequence, split and query head.
    assert PortableDecode().partial_bytes(DECODE, StreamSync()) == 4 * (8 * 3 * 4) * 4 * 132
    assert PortableDecode().partial_bytes(replace(DECODE, splits=1), StreamSync()) == 0


def test_lengths_are_an_operand_of_their_own_and_need_a_row_to_append():
    work = replace(DECODE, has_lengths=True)
    assert list(work.operands) == ["q", "k", "v", "k_new", "v_new", "lengths", "out"]
    with_lengths = {**DECODE_PLACES, "lengths": OperandPlace(8192, 1)}
    (record,) = PortableDecode().stage_arguments(work, StreamSync(), with_lengths, Scratch())
    assert (record["lengths"], record["length"]) == (8192, 1001)
    with pytest.raises(DescriptionError, match="has_lengths without appends"):
        replace(work, appends=False)


def test_without_new_rows_the_decode_kernel_finds_them_in_the_cache():
    work, plan = replace(DECODE, appends=False), parse_plan("pdl", "row")
    (record,) = PortableDecode().stage_arguments(work, plan, places("q", "k", "v", "out"), Scratch())
    assert record["k_new"]["data"] == record["v_new"]["data"] == 0
    assert record["is_dependent"] == 1


def test_a_prefill_kernel_counts_its_work_items_in_steps_of_64_keys():
    work = replace(PREFILL, tile_n=192, dropout=0.5, seed=9)
    (record,) = PortableAttention().stage_arguments(
        work, StreamSync(), places("q", "k", "v", "out"), Scratch()
    )
    assert (record["steps_per_item"], record["row_blocks"], record["group"]) == (3, 5, 4)
    assert (record["length"], record["cached"]) == (300, 20)
    assert record["q"].item() == (4096, 1024, 300 * 1024)
    assert record["k"].item() == (4096, 1024, 512 * 1024)
    assert record["dropout"].item() == (9, 0, 2**31, 2.0)


@pytest.mark.parametrize(
    ("backend", "work", "said"),
    [
        (PortableAttention(), replace(PREFILL, tile_m=96), "the tile is 96x128; .* tile_m of 64 or 128"),
        (PortableAttention(), replace(PREFILL, tile_n=32), "the tile is 64x32; .* multiples of 64"),
        (
            PortableDecode(),
            replace(DECODE, heads=34, kv_heads=2),
            "17 query heads share .* kv_heads of at least 3",
        ),
    ],
)
def test_work_without_a_kernel_is_refused_by_name(backend, work, said):
    with pytest.raises(DescriptionError, match=said):
        backend.launch(work, StreamSync(), H200)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"k": OperandPlace(4104, 1024)}, "address of k is 4104; .* multiple of 16 bytes"),
        ({"v_new": OperandPlace(4096, 1020)}, "row stride of v_new is 1020; .* multiple of 8 elements"),
    ],
)
def test_what_16_byte_copies_cannot_read_is_refused_by_name(wrong, said):
    with pytest.raises(DescriptionError, match=said):
        PortableDecode().stage_arguments(DECODE, StreamSync(), {**DECODE_PLACES, **wrong}, Scratch())


def test_dependent_launch_is_refused_on_a_gpu_that_lacks_it():
    older = replace(H200, name="older", compute_capability=(8, 0))
    for backend, work in ((PortableDecode(), DECODE), (PortableAttention(), PREFILL)):
        assert backend.launch(work, parse_plan("pdl", "row"), H200).blocks == work.grid.size
        with pytest.raises(DescriptionError, match=r"older has compute capability 8\.0; dependent launch"):
            backend.launch(work, parse_plan("pdl", "row"), older)


def test_a_plan_that_its_kernels_do_not_run_is_refused_with_the_reason():
    assert "its blocks compute one tile each" in PortableDecode().refusal(
        parse_plan("persistent+streams+tile", "row")
    )


def steps_in_one_run(cached):
    """A step that appends row 300 of a cache, and one that reads so many of its rows and row `cached`."""
    cache = {"k": "keys", "v": "values"}
    first, second = (decode(cached=rows, splits=2) for rows in (300, cached))
    stages = [Stage("first", first, buffers=cache), Stage("second", second, buffers=cache)]
    return Pipeline("steps", stages, [Dependency(stages[1][x, y], [stages[0][x, y]])])


def test_cached_keys_that_an_earlier_stage_writes_are_refused_where_they_would_be_read_too_early():
    for words in ("tile+streams+tile", "tile+pdl+boundary"):
        with pytest.raises(DescriptionError, match="stage second: stage first writes k, of which"):
            require_runs(steps_in_one_run(cached=301), parse_plan(words, "row"))
    require_runs(steps_in_one_run(cached=301), parse_plan("tile+one-stream+boundary", "row"))
    require_runs(steps_in_one_run(cached=300), parse_plan("tile+streams+tile", "row"))


def test_a_cache_whose_rows_may_all_be_kept_is_never_poisoned():
    for has_lengths, poisoned in ((True, 0), (False, 5)):
        pipeline = decode_layer(decode(has_lengths=has_lengths))
        keys = next(one for one in buffers_of(pipeline).values() if one.uses[0].operand == "k")
        assert (
            sum(region.bottom - region.top for region in contents_of(Accesses(pipeline), keys).made)
            == poisoned
        )
