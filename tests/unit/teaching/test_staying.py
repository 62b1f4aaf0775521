"""Tasks for blocks that stay, dealt out and queued, and the mapping of WaveRNN's blocks that tuning finds."""

from wavesim.labs.wavernn import rotated
from wavesim.model.device import load
from wavesim.model.kernel import Grid
from wavesim.teaching.staying import TASKS, dealt_out, queued, tuned_mapping


def test_a_queue_gives_the_second_long_task_to_whoever_is_free():
    assert dealt_out().makespan_ns == 10_000  # the fourth block has both long tasks
    assert queued().makespan_ns == 7_000  # the second long one starts at 2
    assert queued(sorted(TASKS, reverse=True)).makespan_ns == 5_000


def test_equal_tasks_gain_nothing_by_a_queue_and_pay_for_it():
    equal = (2,) * 8
    assert dealt_out(equal).makespan_ns == queued(equal).makespan_ns == 4_000
    assert queued(equal, fetch=0.5).makespan_ns == 5_000


def test_a_rotated_order_begins_elsewhere_and_leaves_nothing_out():
    assert [x for x, _ in rotated(3).sequence(Grid(5))] == [3, 4, 0, 1, 2]


def test_tuning_finds_a_cut_of_which_no_sm_has_two_blocks_of_r():
    found = tuned_mapping(load("t4"))
    best, published = (
        found.plans[0],
        [row for row in found.plans if row.pipeline.name and row.name == "stream from-0"],
    )
    assert best.pipeline.stages[0].name.startswith(
        "96x64"
    )  # 28 blocks of R, and 22 others beside the other 12 SMs
    assert best.pipeline.stages[0].grid.size == 50
    assert best.predicted_ns < 0.8 * published[0].predicted_ns
    order = [x for x, _ in best.plan.order.sequence(Grid(50))]
    recurrent = {position % 40 for position, block in enumerate(order) if block < 28}
    others = [position % 40 for position, block in enumerate(order) if block >= 28]
    assert recurrent.isdisjoint(others)
    assert max(others.count(sm) for sm in others) == 2
