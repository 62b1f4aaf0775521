"""What each block of a simulated trace must have computed, from its header alone.

Example: under row semaphores a producer tile of 150 us takes 151: it fetches its tile (0.6 us) and posts
(0.4 us). A Stream-K part of a third of the tile takes 50 us, and time to store its sums or add others'.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavesim.plan.parsing import recorded_shape
from wavesim.trace.trace import IntArray, Trace


def opening_and_closing(trace: Trace, stage: str) -> tuple[int, int]:
    """Nanoseconds that a stage's blocks spend before their work and, posting, after it."""
    costs, plan = trace.header.costs, recorded_shape(trace.header.plan, trace.header.plan_data)
    producers = {info.producer for info in trace.header.dependencies}
    consumers = {info.consumer for info in trace.header.dependencies}
    has_semaphores = plan.sync.has_semaphores
    loop = _loop(trace, stage)
    is_fetching = (has_semaphores or plan.schedule.fetches_tiles) and not loop.get("is_persistent")
    is_polling = has_semaphores and stage in consumers and loop.get("wait_place") in (None, "prefetched")
    opening_ns = is_fetching * costs["tile_fetch_ns"] + is_polling * costs["poll_ns"]
    return opening_ns, (has_semaphores and stage in producers) * costs["post_ns"]


def waiting_ns(trace: Trace, stage: str) -> tuple[int, int]:
    """Least and most nanoseconds that waits add to the work of a stage's blocks, by where its kernel waits.

    Every k-block may work out whether to wait; after a wait within the main loop the pipeline fills up anew,
    as far as what was loaded before does not hide it.
    """
    costs, loop = trace.header.costs, _loop(trace, stage)
    plan = recorded_shape(trace.header.plan, trace.header.plan_data)
    place, edges = loop.get("wait_place"), [d for d in trace.header.dependencies if d.consumer == stage]
    if not edges or not plan.sync.has_semaphores or plan.waits_for_grids:
        return 0, 0
    if place == "producer-warp":
        return 0, costs["tma_refill_ns"] * sum(len(edge.value_of_semaphore) for edge in edges)
    if place not in {"block-barrier", "before-main-loop"}:
        return 0, 0
    is_tested = place == "block-barrier" and bool(loop["tests_each_k_block"])
    test_ns = is_tested * costs["wait_test_ns"] * loop["iterations"]
    refill_ns = 0 if loop["pipeline_depth"] == 1 else costs["refill_ns"]
    return test_ns, test_ns + refill_ns * sum(len(edge.value_of_semaphore) for edge in edges)


def is_alone(trace: Trace) -> bool:
    """Whether no block is slowed down by others of its SM, computing or spinning."""
    costs = trace.header.costs
    return set(costs.get("sharing", [0])) == {1.0} and not costs.get("spin_share")


def _loop(trace: Trace, stage: str) -> Mapping[str, Any]:
    """What the header says of a stage's main loop; nothing where its author has not."""
    found: Mapping[str, Any] = trace.header.costs.get("main_loops", {}).get(stage, {})
    return found


def expected_work_ns(trace: Trace, stage: int) -> tuple[IntArray, IntArray] | None:
    """Nanoseconds per row of the stage without what sums cost, and in how many parts its tile is made.

    Both arrays (rows of the stage,); None if tile times differ.
    """
    costs, info = trace.header.costs, trace.header.stages[stage]
    tile_ns = costs["tile_ns"].get(info.name)
    if not isinstance(tile_ns, int):
        return None
    rows = trace.stage == stage
    if trace.k_first is not None and trace.k_upto is not None and trace.k_of is not None:
        prologue_epilogue_ns = costs["prologue_epilogue_ns"]
        inner_ns = max(0, tile_ns - prologue_epilogue_ns)
        share = inner_ns * trace.k_upto[rows] // trace.k_of[rows]
        share -= inner_ns * trace.k_first[rows] // trace.k_of[rows]
        share[_first_of_blocks(trace.sm[rows], trace.slot[rows])] += prologue_epilogue_ns
        tile = trace.y[rows] * info.grid[0] + trace.x[rows]
        return share, np.bincount(tile)[tile]
    share = np.full(int(rows.sum()), tile_ns + sum(opening_and_closing(trace, info.name)))
    return share, np.full(share.size, info.grid[2])


def _first_of_blocks(sm: IntArray, slot: IntArray) -> IntArray:
    """Of items in the order of rounds, each block's first; a slot holds one block of the stage."""
    place = sm * (slot.max() + 1) + slot
    return np.asarray(np.unique(place, return_index=True)[1])


def is_summed_up(end_ns: IntArray, more_ns: IntArray, costs: Mapping[str, int]) -> bool:
    """Whether the parts of a tile spend on sums, `more_ns`, what that costs; both arrays (parts,).

    All but the last to have done its work store theirs; once they have, it adds them to its own. Of parts
    that are done together any may have come last.
    """
    done_ns = end_ns - more_ns
    for last in np.flatnonzero(done_ns == done_ns.max()):
        others = np.delete(done_ns, last)
        expected = np.full(done_ns.size, costs["partial_ns"])
        waiting_ns = max(0, int(others.max()) + costs["partial_ns"] - int(done_ns[last]))
        expected[last] = waiting_ns + costs["fixup_ns"] * others.size
        if (more_ns == expected).all():
            return True
    return False
