"""Exercises of notebook 18: tasks in a queue, cycles, what a barrier may cost, a better mapping."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from wavesim.costs.persistent_costs import estimated_costs
from wavesim.model.device import default_device
from wavesim.predict.wavernn import rotated, trace_of
from wavesim.teaching.exercises import Exercise, pair, require, whole
from wavesim.teaching.staying import FULL_CYCLE, TASKS, UNIT_NS, queued
from wavesim.workloads.wavernn import RECURRENT, STEPS, BlockRows, cycles_of, published_device

FEWEST_UNITS = 5.0
BARRIER_WITHIN_NS = 25
BEST_CYCLE_NS = 1_350  # of the cuts and orders that `tuned_mapping` tries the best takes 1,323


def grade_task_order(answer: Any) -> str:
    """An order of the eight tasks in which a queue for four blocks takes the least."""
    is_list = isinstance(answer, Sequence) and not isinstance(answer, str)
    require(is_list, f"{answer!r} is no list of tasks.")
    are_these = all(isinstance(one, int | float) for one in answer) and sorted(answer) == sorted(TASKS)
    require(are_these, f"give the same eight tasks, {TASKS}, in another order.")
    units = queued(answer).makespan_ns / UNIT_NS
    require(units <= FEWEST_UNITS, f"{units:g} units from the queue. Which tasks had better not begin late?")
    return "Both long tasks begin at once, and the short ones fill the other two blocks."


def grade_cycles(answer: Any) -> str:
    """Cycles of 32 steps of five batches: one product at a time, and pipelined."""
    alone, pipelined = pair(answer, "without pipeline, with it")
    require(
        alone == len(cycles_of("persistent", STEPS)),
        f"{alone} without the pipeline? Each of five batches does 32 steps of five products, one at a time.",
    )
    require(
        pipelined == len(cycles_of("both", STEPS)),
        f"{pipelined} with it? A batch enters in each of 160 cycles, and the last has to come out too.",
    )
    return "32 × 5 × 5 products one by one; 160 entries and four cycles until the last is through."


@cache
def break_even_ns() -> float:
    """The barrier at which staying takes as long as launching every cycle, on an H200, int8."""
    costs = estimated_costs(default_device(), "int8")
    others = costs.total_ns("both", STEPS) - costs.barrier_ns * (len(cycles_of("both", STEPS)) - 1)
    return (costs.total_ns("pipeline", STEPS) - others) / (len(cycles_of("both", STEPS)) - 1)


def grade_barrier(answer: Any) -> str:
    """The longest barrier with which staying is still no slower."""
    barrier = whole(answer, 0, 1_000_000)
    limit = break_even_ns()
    require(
        barrier <= limit + BARRIER_WITHIN_NS,
        f"with {barrier} ns launching every cycle is the faster. What does a cycle pay that stays, and "
        "what one that is launched?",
    )
    require(
        barrier >= limit - BARRIER_WITHIN_NS,
        f"{barrier} ns still gain. A launched cycle pays for more than its launch.",
    )
    return "A launched cycle pays the launch and loads R's weights; one that stays pays the barrier alone."


def grade_mapping(answer: Any) -> str:
    """(rows of a block of R, number of the block issued first) with which a T4's full cycle is short."""
    rows, first = pair(answer, "rows of a block of R, the block that is issued first")
    cut = BlockRows(whole(rows, 8, RECURRENT.rows) // 8 * 8, 64)
    require(rows % 8 == 0, f"{rows} rows: tensor cores take rows in eights.")
    first = whole(first, 0, cut.all_blocks - 1)
    blocks = cut.blocks(RECURRENT)
    sms = published_device().sm_count
    require(blocks <= sms, f"{blocks} blocks of R on {sms} SMs: some SM has two, and all wait for it.")
    device = published_device()
    costs = estimated_costs(device, "int8", cut)
    cycle = trace_of([FULL_CYCLE], "both", device, costs, cut, order=rotated(first)).makespan_ns
    require(
        cycle <= BEST_CYCLE_NS,
        f"a cycle takes {cycle:,} ns. Look for an SM that has a block of R and another beside it, or for a "
        "block of R that is too long by itself.",
    )
    return f"{blocks} SMs have a block of R each, the others two of the small ones: {cycle:,} ns, simulated."


EXERCISES = (
    Exercise("18.1", "an order of the eight tasks in which a queue takes the least", grade_task_order),
    Exercise("18.2", "cycles of 32 steps of five batches: (without pipeline, with it)", grade_cycles),
    Exercise(
        "18.3", "the longest barrier, in ns, with which staying is no slower than launching", grade_barrier
    ),
    Exercise("18.4", "(rows of a block of R, number of the block issued first)", grade_mapping),
)
