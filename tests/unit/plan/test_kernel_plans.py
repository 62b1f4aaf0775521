"""Dependent launch, Stream-K, persistent kernels, graph and host launches, split-K sums: by hand on 4 SMs.

Unit tile time, one block per SM, nothing else costs time unless a test says so. Entries are
(tile (x, y), SM, issue, end); Figure 1's GEMMs have 3 tile rows x 2 tile columns.
"""

import pytest
from toy_schedules import HALF_SM, TOY, pair, run, schedule, stage, waves

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import KernelBoundary, Semaphores
from wavesim.safety.deadlock import safety_of
from wavesim.trace.trace import Trace
from wavesim.work.gemm import Gemm
from wavesim.workloads.figure_one import toy

PRODUCER = [
    ((0, 0), 0, 0, 1),
    ((1, 0), 1, 0, 1),
    ((0, 1), 2, 0, 1),
    ((1, 1), 3, 0, 1),
    ((0, 2), 0, 1, 2),
    ((1, 2), 1, 1, 2),
]
ONE_KERNEL = Pipeline("alone", [toy().stages[0]])


def parts_of(trace):
    return list(zip(trace.z.tolist(), trace.k_first.tolist(), trace.k_upto.tolist(), strict=True))


# --- dependent launch ---


def test_under_dependent_launch_the_consumer_is_issued_early_but_waits_for_the_whole_grid():
    trace = run(toy(), Plan(launch=DependentLaunch()))
    assert schedule(trace, "gemm1") == PRODUCER
    assert schedule(trace, "gemm2") == [
        ((0, 0), 2, 1, 3),  # spins from 1 to 2, though its own row is there at 1
        ((1, 0), 3, 1, 3),
        ((0, 1), 0, 2, 3),
        ((1, 1), 1, 2, 3),
        ((0, 2), 0, 3, 4),
        ((1, 2), 1, 3, 4),
    ]
    assert trace.wait_ns.tolist() == [0] * 6 + [1_000, 1_000, 0, 0, 0, 0]


def test_what_a_consumer_does_before_its_wait_fills_the_producers_last_wave():
    trace = run(toy(), Plan(launch=DependentLaunch(), prefetch=0.5))
    assert schedule(trace, "gemm2") == [
        ((0, 0), 2, 1, 2.5),  # a half, spins from 1.5 to 2, the other half
        ((1, 0), 3, 1, 2.5),
        ((0, 1), 0, 2, 3),
        ((1, 1), 1, 2, 3),
        ((0, 2), 2, 2.5, 3.5),
        ((1, 2), 3, 2.5, 3.5),
    ]


def test_the_boundary_of_a_dependent_launch_is_hidden_by_what_comes_before_the_wait():
    costs = {"boundary_ns": 1_050, "dependent_ns": 830}
    assert run(toy(), StreamSync(), **costs).makespan_ns == 2_000 + 1_050 + 2_000
    assert run(toy(), Plan(launch=DependentLaunch()), **costs).makespan_ns == 2_000 + 830 + 2_000
    # Blocks issued at 2 do 0.25 of their tile until 2.25 and wait until 2.83 like the two issued at 1.
    assert (
        run(toy(), Plan(launch=DependentLaunch(), prefetch=0.25), **costs).makespan_ns
        == 2_000 + 830 + 750 + 1_000
    )


def test_blocks_that_wait_for_a_grid_have_filled_their_pipelines_by_then():
    # Of the first four two are issued at 1 and two at 2, when the wait is over: these take all of 1.
    trace = run(toy(), Plan(launch=DependentLaunch()), prologue_epilogue_ns=100)
    assert trace.end_ns[trace.rows_of("gemm2")].tolist() == [2_900, 2_900, 3_000, 3_000, 3_900, 3_900]
    assert trace.wait_ns[trace.rows_of("gemm2")].tolist() == [900, 900, 0, 0, 0, 0]


def test_a_dependent_kernels_blocks_come_once_all_blocks_before_have_started():
    trace = run(
        pair(stage("a", 2), stage("b", 2)), Plan(launch=DependentLaunch()), block_ns=100, launch_ns=50
    )
    assert trace.issue_ns.tolist() == [0, 0, 100, 100]  # a's blocks start 0.1 after they are issued at 0
    late = run(
        pair(stage("a", 2), stage("b", 2)), Plan(launch=DependentLaunch()), block_ns=100, launch_ns=700
    )
    assert late.issue_ns.tolist() == [0, 0, 700, 700]


def three(*reads):
    """Kernels a, b and c of one tile each, 4 units long; `reads` are pairs (consumer, producers)."""
    stages = {name: stage(name, 1) for name in "abc"}
    needs = [
        Dependency(stages[consumer][x, y], [stages[one][:, y] for one in producers])
        for consumer, producers in reads
    ]
    return Pipeline("three", list(stages.values()), needs)


@pytest.mark.parametrize(
    ("reads", "sync", "issued"),
    [
        ((("b", "a"), ("c", "b")), Semaphores(RowSync()), [0, 0, 0]),  # a chain
        ((("b", "a"), ("c", "a")), Semaphores(RowSync()), [0, 0, 8]),  # a fork: c does not wait for b
        ((("b", "a"), ("c", "ab")), Semaphores(RowSync()), [0, 0, 0]),
        ((("c", "ab"),), Semaphores(RowSync()), [0, 4, 4]),  # a join: b waits for nobody
        ((("b", "a"), ("c", "b")), KernelBoundary(), [0, 0, 0]),
        ((("b", "a"), ("c", "a")), KernelBoundary(), [0, 0, 0]),  # c waits for b's grid, which waited for a's
        ((("c", "ab"),), KernelBoundary(), [0, 4, 4]),
    ],
)
def test_by_dependent_launch_only_a_kernel_that_waits_for_the_one_before_starts_early(reads, sync, issued):
    """Else it could end before that one, and what the stream does next would not wait for both."""
    trace = run(three(*reads), Plan(launch=DependentLaunch(), sync=sync), 4)
    assert (trace.issue_ns // 1_000).tolist() == issued
    ends = trace.end_ns.tolist()
    assert ends == sorted(ends)


# --- Stream-K ---


def test_stream_k_computes_six_tiles_on_four_sms_in_one_and_a_half_tile_times():
    trace = run(ONE_KERNEL, Plan(StreamK()))
    assert schedule(trace, "gemm1") == [
        *[((0, 2), 0, 0, 0.5), ((0, 2), 1, 0, 0.5), ((1, 2), 2, 0, 0.5), ((1, 2), 3, 0, 0.5)],
        *[((0, 0), 0, 0.5, 1.5), ((1, 0), 1, 0.5, 1.5), ((0, 1), 2, 0.5, 1.5), ((1, 1), 3, 0.5, 1.5)],
    ]
    assert parts_of(trace)[:5] == [(0, 0, 48), (1, 48, 96), (0, 0, 48), (1, 48, 96), (0, 0, 96)]
    assert waves(run(toy(), Plan(StreamK()))) == 3  # and the pair in twice that


def test_of_its_run_a_block_computes_the_start_of_a_tile_before_the_end_of_another():
    trace = run(ONE_KERNEL, Plan(StreamK(waves=2)))
    assert schedule(trace, "gemm1") == [
        *[((1, 0), 0, 0, 0.5), ((1, 0), 1, 0, 0.5), ((0, 2), 2, 0, 0.5), ((0, 2), 3, 0, 0.5)],
        *[((0, 0), 0, 0.5, 1.5), ((0, 1), 1, 0.5, 1.5), ((1, 1), 2, 0.5, 1.5), ((1, 2), 3, 0.5, 1.5)],
    ]
    assert parts_of(trace)[:3] == [(0, 0, 48), (1, 48, 96), (0, 0, 48)]


def test_in_order_it_takes_the_run_as_it_comes():
    trace = run(ONE_KERNEL, Plan(StreamK(waves=2, in_order=True)))
    assert schedule(trace, "gemm1") == [
        ((0, 0), 0, 0, 1),
        ((1, 0), 1, 0, 0.5),
        ((1, 1), 2, 0, 1),
        ((0, 2), 3, 0, 0.5),
        ((1, 0), 0, 1, 1.5),
        ((0, 1), 1, 0.5, 1.5),
        ((0, 2), 2, 1, 1.5),
        ((1, 2), 3, 0.5, 1.5),
    ]


@pytest.mark.parametrize(
    ("tiles", "cut"), [(132, 0), (133, 133), (164, 164), (165, 33), (200, 68), (297, 33), (296, 164)]
)
def test_a_rest_of_less_than_a_quarter_of_a_wave_is_cut_with_the_wave_before_it(tiles, cut):
    assert StreamK().cut_tiles(tiles, 132) == cut


def test_the_part_of_a_tile_that_comes_last_adds_the_sums_and_the_others_go_on():
    trace = run(ONE_KERNEL, Plan(StreamK()), partial_ns=100, fixup_ns=200)
    # One part of a tile is stored at 0.6. The one on the higher SM waits for that, adds it, and is late then.
    assert trace.end_ns.tolist() == [600, 600 + 200] * 2 + [1_600, 1_800] * 2
    assert not trace.wait_ns.any()
    uneven = run(Pipeline("five", [stage("a", 5)]), Plan(StreamK(waves=2)), fixup_ns=200)
    # 1.25 tiles each. Tile 1: a quarter in block 0, until 0.25, the rest in block 1, from 0.5 to 1.25.
    is_second = (uneven.x == 1) & (uneven.y == 0)
    assert uneven.end_ns[is_second & (uneven.z == 0)].tolist() == [250]
    assert uneven.end_ns[is_second & (uneven.z == 1)].tolist() == [1_250 + 200]


def test_what_lies_at_the_edges_of_tiles_is_paid_once_per_block():
    trace = run(ONE_KERNEL, Plan(StreamK()), prologue_epilogue_ns=100)
    assert trace.end_ns.tolist() == [100 + 450] * 4 + [550 + 900] * 4
    assert run(ONE_KERNEL, StreamSync(), prologue_epilogue_ns=100).makespan_ns == 2_000  # blocks of their own


def test_a_grid_of_whole_waves_is_not_split_and_a_small_one_is_shared_by_all():
    whole = run(Pipeline("eight", [stage("a", 8)]), Plan(StreamK()))
    assert whole.makespan_ns == 2_000
    assert set(whole.k_upto - whole.k_first) == {96}
    small = run(Pipeline("one", [stage("a", 1)]), Plan(StreamK()), fixup_ns=10)
    assert small.makespan_ns == 250 + 3 * 10  # a quarter each, and three others' sums


def test_stream_k_runs_cover_every_iteration_once_whatever_the_numbers():
    for tiles, iterations, slots, last in [(6, 3, 4, 2), (1, 2, 5, 1), (13, 7, 5, 3), (9, 1, 4, 1)]:
        names = tuple((index, 0) for index in range(tiles))
        lists = StreamK(last, in_order=tiles % 2 == 0).block_lists(names, iterations, slots)
        covered = [(p.tile, k) for parts in lists for p in parts for k in range(p.first, p.upto)]
        assert sorted(covered) == [(tile, k) for tile in names for k in range(iterations)]
        runs = [sum(p.upto - p.first for p in parts) for parts in lists]
        assert max(runs) - min(runs) <= 1 or tiles * iterations < slots


def test_stream_k_refuses_split_k_and_counts_a_gemms_own_iterations():
    with pytest.raises(DescriptionError, match="a has 2 split-K slices; Stream-K splits K itself"):
        run(Pipeline("alone", [stage("a", 2, slices=2)]), Plan(StreamK()))
    gemm = Gemm("a", m=64, n=64, k=320, tile_m=64, tile_n=64, block=Block(1_024, 64))
    trace = run(Pipeline("alone", [Stage("a", gemm)]), Plan(StreamK()))
    assert parts_of(trace) == [(0, 0, 2), (1, 2, 5), (2, 5, 7), (3, 7, 10)]


# --- persistent kernels ---


@pytest.mark.parametrize("policy", [TileSync(), RowSync()], ids=str)
def test_one_persistent_kernel_runs_tile_syncs_schedule_without_its_launches(policy):
    costs = {"launch_ns": 300, "boundary_ns": 1_050}
    trace = run(toy(), Plan(Persistent(fused=True), sync=Semaphores(policy)), **costs)
    semaphores = run(toy(), SemaphoreSync(policy))
    for name in ("gemm1", "gemm2"):
        assert schedule(trace, name) == schedule(semaphores, name)
    assert waves(trace) == 3
    assert run(toy(), SemaphoreSync(policy), **costs).makespan_ns > trace.makespan_ns
    assert trace.events == ()


def test_persistent_kernels_under_stream_sync_start_one_block_per_slot():
    costs = {"block_ns": 100, "tile_fetch_ns": 10, "boundary_ns": 50}
    trace = run(toy(), Plan(Persistent()), **costs)
    first = trace.rows_of("gemm1")
    assert trace.end_ns[first].tolist() == [1_110] * 4 + [2_120] * 2
    assert trace.makespan_ns == 2_120 + 50 + 2_120
    assert run(toy(), StreamSync(), **costs).makespan_ns == 2_200 + 50 + 2_200


def test_a_persistent_kernel_needs_what_the_largest_stage_needs():
    wide, deep = (
        stage("a", 4, block=HALF_SM),
        stage("b", 4, block=Block(256, 32, dynamic_shared_bytes=150_000)),
    )
    trace = run(pair(wide, deep), Plan(Persistent(fused=True), sync=Semaphores()))
    assert [info.blocks_per_sm for info in trace.header.stages] == [1, 1]
    assert waves(trace) == 2
    with pytest.raises(DescriptionError, match="registers"):
        run(
            pair(stage("a", 1, block=Block(1_024, 32)), stage("b", 1, block=Block(128, 168))),
            Plan(Persistent(fused=True), sync=Semaphores()),
        )


def test_draws_of_one_instant_go_by_sm_and_slot():
    trace = run(Pipeline("alone", [stage("a", 12, block=HALF_SM)]), Plan(Persistent()))
    order = [row[1] for row in schedule(trace, "a")]
    assert order == [0, 0, 2, 2, 1, 1, 3, 3, 0, 0, 1, 1]  # the first ones from SMs far apart
    assert trace.slot[8:].tolist() == [0, 1, 0, 1]


# --- launches ---


def test_a_graph_launches_at_once_and_the_host_one_by_one():
    two = Pipeline("two", [stage("a", 1), stage("b", 1)])
    costs = {"boundary_ns": 50, "launch_ns": 3_000, "host_ns": 4_500}
    issued = [run(two, StreamSync(launch=how), **costs).issue_ns[1] for how in ("graph", "stream", "host")]
    assert issued == [1_050, 3_050, 4_550]


# --- split-K ---


def test_slices_store_their_sums_and_the_last_one_adds_them_to_its_own():
    first, second = stage("a", 1, slices=3), stage("b", 1)
    trace = run(pair(first, second), StreamSync(), {"a": [1, 3, 2], "b": 1}, partial_ns=100, fixup_ns=50)
    assert trace.end_ns.tolist() == [1_100, 3_000 + 2 * 50, 2_100, 4_100]


def test_of_slices_that_end_together_the_one_on_the_higher_sm_waits_for_the_others_sums_and_adds_them():
    trace = run(Pipeline("alone", [stage("a", 1, slices=2)]), StreamSync(), partial_ns=100, fixup_ns=50)
    assert trace.end_ns.tolist() == [1_100, 1_150]


# --- all of them ---


@pytest.mark.parametrize(
    "plan",
    [
        Plan(launch=DependentLaunch(), prefetch=0.5),
        Plan(StreamK()),
        Plan(Persistent(fused=True), sync=Semaphores()),
        Plan(Persistent()),
        StreamSync(launch="host"),
    ],
    ids=str,
)
def test_none_of_them_can_deadlock_even_on_one_sm(plan):
    stages = first, second, third = stage("a", 2, 2), stage("b", 2, 2), stage("c", 2, 2)
    needs = [Dependency(second[x, y], [first[:, y]]), Dependency(third[x, y], [second[:, y]])]
    chain, device = Pipeline("chain", stages, needs), TOY.with_sm_count(1)
    assert waves(run(chain, plan, device=device)) == 12
    verdict = safety_of(chain, plan, device)
    assert verdict.is_safe
    assert verdict.reason.startswith("safe: ")


def test_a_file_keeps_which_iterations_a_row_computed(tmp_path):
    trace = run(ONE_KERNEL, Plan(StreamK()))
    loaded = Trace.load(trace.save(tmp_path / "trace.npz"))
    assert parts_of(loaded) == parts_of(trace)
    assert set(loaded.k_of) == {96}
    assert "what partial sums cost is an estimate" in loaded.header.note
