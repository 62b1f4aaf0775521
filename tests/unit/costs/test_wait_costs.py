"""What waits cost by where a kernel waits: by hand, and in a run of two blocks."""

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.costs.wait_costs import WaitCosts, wait_costs_of
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.sim.simulation import simulate
from wavesim.work.gemm import Gemm

TOY = load("toy")
WORK_NS = 96_000  # of a tile: 96 k-blocks of 1 us


def pair(loop: MainLoop, columns: int = 3) -> Pipeline:
    """A row of producer tiles, and one consumer tile that reads it in step with its work."""
    block = Block(1024, 32)
    first = Stage("first", Kernel("first", Grid(columns), block))
    second = Stage("second", Kernel("second", Grid(1), block), main_loop=loop)
    return Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])


def consumer_ns(loop: MainLoop, **costs: int) -> tuple[int, int]:
    """(time from first instruction to end, of that waiting) of a consumer whose producers end at 100 us."""
    model = CostModel({"first": 100_000, "second": WORK_NS}, **costs)
    trace = simulate(pair(loop), SemaphoreSync(TileSync(), wait_kernel=False), TOY, model)
    row = trace.stage == 1
    return int((trace.end_ns - trace.start_ns)[row][0]), int(trace.wait_ns[row][0])


def test_at_a_barrier_every_wait_costs_a_poll_and_all_but_the_first_a_refill():
    costs = {"ready_poll_ns": 300, "refill_ns": 400}
    took, waited = consumer_ns(MainLoop(wait_place="block-barrier"), **costs)
    assert (took, waited) == (100_000 + WORK_NS + 3 * 300 + 2 * 400, 100_000 + 3 * 300)


def test_a_warp_that_only_loads_hides_its_waits_behind_what_is_loaded():
    costs = {"ready_poll_ns": 300, "tma_refill_ns": 1_500}
    took, _ = consumer_ns(MainLoop(4, "producer-warp"), **costs)
    assert took == 100_000 + WORK_NS + 300  # the first wait finds nothing to compute
    shallow, _ = consumer_ns(MainLoop(1, "producer-warp"), **costs)
    assert shallow == took + 2 * (300 + 1_500 - 1_000)  # one k-block of 1 us hides as much


def test_before_the_main_loop_all_tiles_are_waited_for_at_once():
    trace_ns, waited = consumer_ns(MainLoop(wait_place="before-main-loop"), ready_poll_ns=300, refill_ns=400)
    assert (trace_ns, waited) == (100_000 + WORK_NS + 3 * 300, 100_000 + 3 * 300)


def test_a_wait_that_spun_fills_the_pipeline_before_it_goes_on():
    waiting = WaitCosts(poll_ns=300, refill_ns=1_000, depth=4, iterations=96)
    assert waiting.passing(due_ns=50_000, ready_ns=70_000, work_ns=96_000, since_ns=20_000) == (300, 1_000)
    assert waiting.passing(due_ns=50_000, ready_ns=49_500, work_ns=96_000, since_ns=20_000) == (0, 800)
    assert waiting.passing(due_ns=50_000, ready_ns=0, work_ns=96_000, since_ns=20_000) == (0, 0)


def test_what_is_not_said_and_what_is_prefetched_cost_a_wait_as_before():
    costs = CostModel({}, wait_ns=750, ready_poll_ns=300, refill_ns=400)
    stage = Stage("gemm", Gemm("gemm", 128, 128, 4_096, 128, 128, 64))
    for loop in (MainLoop(), MainLoop(wait_place="prefetched")):
        assert wait_costs_of(costs, stage, loop) == WaitCosts(750)
    found = wait_costs_of(costs, stage, MainLoop(3, "producer-warp"))
    assert (found.depth, found.iterations) == (3, 64)


def test_a_persistent_kernel_stays_one_under_stream_sync_and_semaphores():
    stage = Stage("first", Kernel("first", Grid(10), Block(1024, 32)), main_loop=MainLoop(is_persistent=True))
    trace = simulate(
        Pipeline("one", [stage], []), StreamSync(), TOY, CostModel({"first": 1_000}, block_ns=100)
    )
    assert trace.makespan_ns == 100 + 3 * 1_000  # ten tiles on four SMs, one start of a block each
    plain = Stage("first", Kernel("first", Grid(10), Block(1024, 32)))
    blocks = simulate(
        Pipeline("one", [plain], []), StreamSync(), TOY, CostModel({"first": 1_000}, block_ns=100)
    )
    assert blocks.makespan_ns == 3 * 1_100


@pytest.mark.parametrize(("share", "time_ns"), [(0.0, 10_000), (0.5, 20_000)])
def test_a_spinning_neighbour_takes_its_share_of_the_sm(share, time_ns):
    first = Stage("first", Kernel("first", Grid(1), Block(512, 32)))
    second = Stage("second", Kernel("second", Grid(1), Block(512, 32)))
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[x, y]])])
    plan = SemaphoreSync(TileSync(), wait_kernel=False)
    costs = CostModel({"first": 10_000, "second": 5_000}, spin_share=share, sharing=(1.0, 0.5))
    trace = simulate(pipeline, plan, TOY.with_sm_count(1), costs)
    assert list(trace.end_ns) == [time_ns, time_ns + 5_000]


def test_kernels_of_unlike_occupancy_share_an_sm_as_if_they_asked_less_of_it():
    law = costs_of("h200").law
    assert law.demand([2, 2]) == law.full_demand / 2
    assert law.demand([1, 8]) == law.unlike_demand / 8 < law.full_demand / 8
