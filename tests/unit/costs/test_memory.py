"""Tiles that take longer because of DRAM: what the L2 holds, what is read, what that does to a schedule."""

from collections import OrderedDict
from dataclasses import asdict, replace

import numpy as np
import pytest

from wavesim.costs.calibration import calibrate
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.costs.dram_slowdown import GridBlocks, Memory, slowdowns
from wavesim.costs.l2_misses import Reads, missed_reads, reads_of
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.plan.stream_k import StreamK
from wavesim.sim.simulation import simulate
from wavesim.workloads.figure_one import TILE_NS, toy
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp

H200 = load("h200")
MEMORY = Memory(30_000_000, 3.8e12, sharpness=7, shared_sharpness=64, scattered_share=0.85)
FAST = {"gemm1": 130_000, "gemm2": 66_000}  # ns per 128x256 tile, as fast as wgmma makes them
TOKENS = 1_536


def reads(slabs: list[int], size: int = 10) -> Reads:
    count = len(slabs)
    at_ns, row = np.arange(count) * 1.0, np.zeros(count, int)
    return Reads(at_ns, np.ones(count), row, np.array(slabs), np.full(count, size), np.ones(1))


def uneven(pipeline: Pipeline, **tile_ns: int) -> CostModel:
    """Tile times that differ by up to a percent, as measured ones do."""
    grids = {stage.name: stage.grid.size for stage in pipeline.stages}
    return CostModel(
        {name: [ns + ns * (7 * i % 13) // 1_300 for i in range(grids[name])] for name, ns in tile_ns.items()}
    )


def run(plan: Plan, memory: Memory | None, **tile_ns: int) -> int:
    pipeline = gpt3_mlp(TOKENS)
    return simulate(pipeline, plan, H200, replace(uneven(pipeline, **tile_ns), memory=memory)).makespan_ns


def test_the_slab_that_was_not_used_for_longest_goes_first():
    found = missed_reads(reads([1, 2, 3, 1, 4, 2, 1]), l2_bytes=30)
    assert found.tolist() == [0, 1, 2, 4, 5]  # 4 pushes 2 out, not 1; 2 then pushes 3 out


def test_misses_follow_the_time_of_the_reads_not_their_places():
    late_first = replace(reads([1, 2, 3, 1]), at_ns=np.array([3.0, 2.0, 1.0, 0.0]))
    assert missed_reads(late_first, l2_bytes=20).tolist() == [3, 2, 1, 0]


def test_random_reads_miss_as_a_list_kept_by_hand_does():
    random = np.random.default_rng(1)
    slabs = random.integers(0, 40, 500).tolist()
    held: OrderedDict[int, None] = OrderedDict()
    expected = []
    for place, slab in enumerate(slabs):
        if slab not in held:
            expected.append(place)
        held.pop(slab, None)
        held[slab] = None
        while len(held) > 16:
            held.popitem(last=False)
    assert missed_reads(reads(slabs), l2_bytes=160).tolist() == expected


def test_every_block_reads_all_of_its_two_panels():
    pipeline = gpt3_mlp(256)
    trace = simulate(pipeline, StreamSync(), H200, CostModel(FAST))
    found = reads_of(trace, pipeline)
    per_block = np.bincount(found.row, found.size_bytes)
    gemm1, gemm2 = (stage.gemm for stage in pipeline.stages)
    assert set(per_block[trace.stage == 0]) == {2 * gemm1.k * (128 + 256)}
    assert set(per_block[trace.stage == 1]) == {2 * gemm2.k * (128 + 256)}


def test_blocks_in_step_read_each_operand_from_dram_once_per_wave():
    pipeline = gpt3_mlp(1_024)
    trace = simulate(pipeline, StreamSync(), H200, CostModel(FAST))
    found = reads_of(trace, pipeline)
    missed = missed_reads(found, MEMORY.l2_bytes)
    first = pipeline.stages[0].gemm
    wave = np.isin(found.row, np.flatnonzero((trace.stage == 0) & (trace.start_ns < 1_000)))
    rows = -(-132 // 24)  # of tiles that 132 blocks touch, all 24 columns of them
    assert found.size_bytes[missed][wave[missed]].sum() == 2 * first.k * (24 * 256 + rows * 128)


def test_streamk_parts_read_their_own_part_of_k():
    pipeline = gpt3_mlp(256)
    trace = simulate(pipeline, Plan(StreamK()), H200, CostModel(FAST))
    found = reads_of(trace, pipeline)
    total = np.bincount(trace.stage[found.row], found.size_bytes)
    whole = [stage.grid.tiles * 2 * stage.gemm.k * (128 + 256) for stage in pipeline.stages]
    assert total == pytest.approx(whole, rel=1e-4)  # of a slab that is cut, each part reads its own
    lasts = found.at_ns + found.span_ns
    ends = trace.end_ns[found.row]
    assert (lasts <= ends + 1).all()
    assert np.isclose(lasts, ends, atol=1).sum() == 2 * len(trace)  # the last slab of either operand


@pytest.mark.parametrize(("in_order", "low", "high"), [(True, 1.2, 2.0), (False, 1.0, 1.05)])
def test_runs_taken_in_order_are_out_of_step_and_starts_of_tiles_before_ends_are_not(
    in_order: bool, low: float, high: float
):
    """Measured on an H200, LLaMA at 640 tokens, Hopper GEMM: -11 points in order."""
    pipeline, plan = llama_mlp(640), Plan(StreamK(in_order=in_order))
    costs = CostModel({"gemm1": 100_000, "gemm2": 37_000})
    without, behind = (
        simulate(pipeline, plan, H200, replace(costs, memory=memory)).makespan_ns for memory in (None, MEMORY)
    )
    assert low <= behind / without < high


def test_parts_in_step_lose_little_though_each_reads_for_a_short_time_only():
    """Measured on an H200, LLaMA at 200 tokens, Hopper GEMM: +31 points, a third of a tile each."""
    pipeline, costs = llama_mlp(200), CostModel({"gemm1": 100_000, "gemm2": 37_000})
    without, behind = (
        simulate(pipeline, Plan(StreamK()), H200, replace(costs, memory=memory)).makespan_ns
        for memory in (None, MEMORY)
    )
    assert 1.0 <= behind / without < 1.06


def test_a_fast_row_major_gemm_loses_its_step_and_time_under_row_semaphores_and_grouped_tiles_do_not():
    """Measured on an H200 with sketch kernels at 1536 tokens: +9 points in row-major order, +17 in groups."""
    gains = {}
    for name, order in (("row", {}), ("grouped", {"order": Grouped(4)})):
        plans = (StreamSync(**order), SemaphoreSync(RowSync(), **order))
        stream, row = (run(plan, MEMORY, **FAST) for plan in plans)
        gains[name] = 100 * (1 - row / stream)
    without = 100 * (1 - run(SemaphoreSync(RowSync()), None, **FAST) / run(StreamSync(), None, **FAST))
    assert gains["grouped"] == pytest.approx(without, abs=1.0)
    assert gains["row"] < without - 3


def test_a_kernel_of_half_the_speed_loses_nothing():
    slow = {name: 2 * ns for name, ns in FAST.items()}
    for plan in (StreamSync(), SemaphoreSync(RowSync())):
        assert run(plan, MEMORY, **slow) == pytest.approx(run(plan, None, **slow), rel=0.005)


def test_streamk_in_order_loses_step_by_design_and_pays_for_it():
    """Measured on an H200, Hopper GEMM at 1100 tokens: 0 points, where full SMs alone would say +13."""
    pipeline = gpt3_mlp(1_100)
    costs = uneven(pipeline, **FAST)
    stream, stream_k = (
        simulate(pipeline, plan, H200, replace(costs, memory=MEMORY)).makespan_ns
        / simulate(pipeline, plan, H200, costs).makespan_ns
        for plan in (StreamSync(), Plan(StreamK(in_order=True)))
    )
    assert stream < 1.02
    assert stream_k > 1.08


def test_the_same_simulation_twice_is_the_same():
    assert run(SemaphoreSync(RowSync()), MEMORY, **FAST) == run(SemaphoreSync(RowSync()), MEMORY, **FAST)


def test_the_trace_says_what_is_behind_the_sms_and_nothing_where_nothing_is():
    costs = CostModel(FAST, memory=MEMORY)
    pipeline = gpt3_mlp(256)
    trace = simulate(pipeline, StreamSync(), H200, costs)
    said = dict(trace.header.costs["memory"])
    assert 0.0 < said.pop("slower_percent") < 2.0
    assert said == asdict(MEMORY)
    assert "memory" not in simulate(pipeline, StreamSync(), H200, replace(costs, memory=None)).header.costs


def test_calibration_takes_out_of_the_tile_times_what_a_busy_dram_put_in():
    pipeline = gpt3_mlp(TOKENS)
    memory = replace(MEMORY, dram_bytes_per_s=3.4e12)  # so little that even blocks in step ask for much of it
    costs = replace(uneven(pipeline, **FAST), memory=memory)
    stream = simulate(pipeline, StreamSync(), H200, costs)
    alone = np.mean(costs.tile_ns["gemm2"])
    slower, found = calibrate(stream), calibrate(stream, behind=(pipeline, memory))
    assert (slower.memory, found.memory) == (None, memory)
    assert slower.tile_ns["gemm2"] > 1.01 * alone
    assert found.tile_ns["gemm2"] == pytest.approx(alone, rel=0.01)


def test_stages_without_known_operands_are_left_alone():
    trace = simulate(toy(), StreamSync(), load("toy"), CostModel({"gemm1": TILE_NS, "gemm2": TILE_NS}))
    assert slowdowns(trace, toy(), MEMORY).tolist() == [1.0] * len(trace)


def test_values_by_block_and_by_row_are_each_other_turned_round():
    pipeline = gpt3_mlp(256)
    trace = simulate(pipeline, StreamSync(Grouped(2)), H200, CostModel(FAST))
    rows = 1.0 + np.arange(len(trace)) / 10
    blocks = GridBlocks(trace)
    assert blocks.by_row(blocks.by_block(rows)) == pytest.approx(rows)


@pytest.mark.parametrize("name", ["l2_bytes", "dram_bytes_per_s"])
def test_memory_without_room_or_bandwidth_is_refused_by_name(name: str):
    with pytest.raises(DescriptionError, match=f"{name} is 0; it must be above 0"):
        replace(MEMORY, **{name: 0})


def test_the_memory_of_a_device_is_its_own_where_fitted_and_scaled_where_it_has_no_file():
    assert costs_of("h200").memory == Memory(36_000_000, 4.4e12, 7, 64, 0.73)
    published = costs_of("v100")
    assert published.memory is not None
    assert published.memory.l2_bytes == 4_500_000
    assert published.has_timed_memory
    assert [costs_of(name).has_timed_memory for name in ("h200", "h100", "a100-40gb")] == [True, True, False]


def test_a_kernel_that_is_no_product_behind_one_is_slowed_down_by_nothing():
    product = gpt3_mlp(TOKENS).stages[0]
    rows = Stage("rows", Kernel("rows", Grid(1, product.grid.y), Block(256)))
    pipeline = Pipeline("softmax", [product, rows], [Dependency(rows[x, y], [product[:, y]])])
    costs = CostModel({"gemm1": 130_000, "rows": 5_000})
    with_memory = simulate(pipeline, StreamSync(), H200, replace(costs, memory=MEMORY))
    found = slowdowns(with_memory, pipeline, MEMORY, np.ones(len(with_memory)))
    assert found[with_memory.stage == 1].tolist() == [1.0] * rows.grid.size
    alone = simulate(pipeline, StreamSync(), H200, costs)
    ends = [
        trace.end_ns[trace.stage == 1] - trace.start_ns[trace.stage == 1] for trace in (alone, with_memory)
    ]
    assert ends[0].tolist() == ends[1].tolist()
