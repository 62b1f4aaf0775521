"""What must hold in every trace, simulated or measured, whatever the costs: each breach in words.

Example: two blocks in one slot at one time, a tile computed twice, a consumer that ends before
the producer tile it reads: each is a bug in the engine, the kernels or the recorder.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.model.dependency import Dependency
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import recorded_shape
from wavesim.plan.resolved import SHARE_UNIT
from wavesim.trace.trace import IntArray, Trace


def violations(trace: Trace, pipeline: Pipeline | None = None) -> list[str]:
    """Everything that is wrong with a trace; empty if nothing is.

    What consumers read is known from `pipeline` alone; without it only recorded waits are held
    against the posts. Times may be off by the trace's timer step.
    """
    found = [*_times(trace), *_tiles(trace), *_slots(trace), *_residents(trace), *_empty_sms(trace)]
    if found:
        return found  # what follows takes it for granted that every tile is there once
    found = [*_waits(trace), *_work(trace)]
    for dependency in () if pipeline is None else pipeline.dependencies:
        found += _reads(trace, dependency)
    return found


def _block(trace: Trace, row: int | np.integer[Any]) -> str:
    name = trace.header.stages[trace.stage[row]].name
    return f"{name} block {(int(trace.x[row]), int(trace.y[row]), int(trace.z[row]))}"


def _slack(trace: Trace) -> int:
    """Clock steps by which two stamps may be off; a simulated clock is exact."""
    return trace.header.timer_step_ns if trace.header.source == "measured" else 0


def _times(trace: Trace) -> Iterator[str]:
    for earlier, later in (("issue_ns", "start_ns"), ("start_ns", "end_ns")):
        for row in np.flatnonzero(getattr(trace, later) < getattr(trace, earlier)):
            yield f"{_block(trace, row)}: {later} is before {earlier}"
    length = trace.end_ns - trace.start_ns + _slack(trace)
    for row in np.flatnonzero((trace.wait_ns < 0) | (trace.wait_ns > length)):
        yield f"{_block(trace, row)}: waits {trace.wait_ns[row]} ns of {length[row]} ns"


def _tiles(trace: Trace) -> Iterator[str]:
    """Every block of every grid comes once; of tiles cut into parts every K iteration."""
    if trace.k_first is not None:
        yield from _parts(trace)
        return
    for number, info in enumerate(trace.header.stages):
        rows = np.flatnonzero(trace.stage == number)
        columns, height, slices = info.grid
        x, y, z = trace.x[rows], trace.y[rows], trace.z[rows]
        is_inside = (x >= 0) & (x < columns) & (y >= 0) & (y < height) & (z >= 0) & (z < slices)
        for row in rows[~is_inside]:
            yield f"{_block(trace, row)}: outside the grid {info.grid}"
        linear = ((z * height + y) * columns + x)[is_inside]
        counts = np.bincount(linear, minlength=columns * height * slices)
        for block in np.flatnonzero(counts != 1):
            place = (int(block % columns), int(block // columns % height), int(block // (columns * height)))
            yield f"{info.name} block {place}: {counts[block]} times instead of once"


def _parts(trace: Trace) -> Iterator[str]:
    """The parts of a tile, in the order of their numbers, cover its K iterations from first to last."""
    assert trace.k_first is not None
    assert trace.k_upto is not None
    assert trace.k_of is not None
    for number, info in enumerate(trace.header.stages):
        reached = {(x, y): 0 for y in range(info.grid[1]) for x in range(info.grid[0])}
        rows = np.flatnonzero(trace.stage == number)
        for row in rows[np.argsort(trace.z[rows], kind="stable")].tolist():
            tile, first, upto = (int(trace.x[row]), int(trace.y[row])), trace.k_first[row], trace.k_upto[row]
            if reached.get(tile) != first or upto <= first:
                yield f"{_block(trace, row)}: iterations {first} to {upto} after {reached.get(tile)}"
            reached[tile] = int(upto)
        iterations = int(trace.k_of[rows].max(initial=0))
        for tile, upto in reached.items():
            if upto != iterations:
                yield f"{info.name} tile {tile}: {upto} of {iterations} iterations are computed"


def _slots(trace: Trace) -> Iterator[str]:
    """A slot holds one block at a time."""
    order = np.lexsort((trace.end_ns, trace.issue_ns, trace.slot, trace.sm))
    for row, then in pairwise(order):
        is_same = trace.sm[row] == trace.sm[then] and trace.slot[row] == trace.slot[then]
        if is_same and trace.issue_ns[then] + _slack(trace) < trace.end_ns[row]:
            yield (
                f"{_block(trace, then)} is issued to SM {trace.sm[row]} slot {trace.slot[row]} at "
                f"{trace.issue_ns[then]} ns, while {_block(trace, row)} holds it until {trace.end_ns[row]} ns"
            )


def _residents(trace: Trace) -> Iterator[str]:
    """No SM holds more blocks of a stage than fit."""
    for number, info in enumerate(trace.header.stages):
        mine = trace.stage == number
        for sm in np.unique(trace.sm[mine]):
            rows = mine & (trace.sm == sm)
            most = _most_at_once(trace.issue_ns[rows] + _slack(trace), trace.end_ns[rows])
            if most > info.blocks_per_sm:
                yield f"SM {sm} holds {most} blocks of {info.name}; {info.blocks_per_sm} fit"


def _most_at_once(begin: IntArray, end: IntArray) -> int:
    times = np.concatenate([begin, np.maximum(begin, end)])
    change = np.concatenate([np.ones_like(begin), -np.ones_like(end)])
    order = np.lexsort((change, times))  # at one instant blocks leave before others come
    return int(np.cumsum(change[order]).max(initial=0))


def _empty_sms(trace: Trace) -> Iterator[str]:
    """Work is conserved: no SM stands empty between a kernel's first issue and its last (simulated traces).

    A wait-kernel has no row, so an SM that seems empty while one is resident may not be.
    """
    shape = recorded_shape(trace.header.plan, trace.header.plan_data)
    if trace.header.source == "measured" or trace.k_first is not None or shape.schedule.has_work_lists:
        return  # a launch lies between two blocks; blocks with a list of their own leave when it is done
    kernels = [(event.start_ns, event.end_ns) for event in trace.events if event.name == "wait-kernel"]
    for number, info in enumerate(trace.header.stages):
        issues = trace.issue_ns[trace.stage == number]
        if not issues.size or issues.min() == issues.max():
            continue
        for sm in range(trace.header.sm_count):
            for begin, end in _gaps(trace, sm, int(issues.min()), int(issues.max())):
                if not any(start < end and begin < stop for start, stop in kernels):
                    yield f"SM {sm} is empty from {begin} to {end} ns while {info.name} has blocks to issue"


def _gaps(trace: Trace, sm: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Times between begin and end at which the SM holds no block."""
    rows = np.flatnonzero(trace.sm == sm)
    rows = rows[np.argsort(trace.issue_ns[rows], kind="stable")]
    free = begin
    for issue, leave in zip(trace.issue_ns[rows].tolist(), trace.end_ns[rows].tolist(), strict=True):
        if free < min(issue, end):
            yield free, min(issue, end)
        free = max(free, leave)
    if free < end:
        yield free, end


def _waits(trace: Trace) -> Iterator[str]:
    """A wait ends no sooner than the last tile of its semaphore."""
    if trace.waits is None:
        return
    ready: dict[tuple[int, int], int] = {}
    for number, info in enumerate(trace.header.dependencies):
        mine = trace.rows_of(info.producer)
        columns = next(stage.grid[0] for stage in trace.header.stages if stage.name == info.producer)
        tiles = trace.y[mine] * columns + trace.x[mine]
        for tile, end in zip(tiles.tolist(), trace.end_ns[mine].tolist(), strict=True):
            key = (number, info.semaphore_of_tile[tile])
            ready[key] = max(ready.get(key, end), end)
    waits = trace.waits
    for row, number, semaphore, end in zip(
        waits.block.tolist(),
        waits.dependency.tolist(),
        waits.semaphore.tolist(),
        waits.end_ns.tolist(),
        strict=True,
    ):
        if end + _slack(trace) < ready[number, semaphore]:
            producer = trace.header.dependencies[number].producer
            yield (
                f"{_block(trace, row)} stops waiting for {producer}[{semaphore}] at {end} ns, "
                f"before its last post at {ready[number, semaphore]} ns"
            )


def _work(trace: Trace) -> Iterator[str]:
    """Work is conserved: a block that shares its SM with nobody computes as long as its cost says."""
    if not is_alone(trace):
        return
    busy = trace.end_ns - trace.start_ns - trace.wait_ns
    for number, info in enumerate(trace.header.stages):
        found = expected_work_ns(trace, number)
        if found is None:
            continue
        work_ns, parts = found
        rows = np.flatnonzero(trace.stage == number)
        least_ns, most_ns = waiting_ns(trace, info.name)
        # What a wait adds up to its most is not known from the header; beyond that it is a breach.
        more_ns = busy[rows] - work_ns - least_ns
        for row, more in zip(rows[parts == 1], more_ns[parts == 1], strict=True):
            if not 0 <= more <= most_ns - least_ns:
                yield f"{_block(trace, row)} computes {busy[row]} ns; its work is {busy[row] - more} ns"
        if most_ns > least_ns:
            continue  # of parts' sums and waits only their total is known
        tile = trace.y[rows] * info.grid[0] + trace.x[rows]
        for split in np.unique(tile[parts > 1]):
            mine = tile == split
            if not is_summed_up(trace.end_ns[rows][mine], more_ns[mine], trace.header.costs):
                place = (int(split % info.grid[0]), int(split // info.grid[0]))
                yield f"{info.name} tile {place}: its parts spend {more_ns[mine].tolist()} ns on sums"


def _reads(trace: Trace, dependency: Dependency) -> Iterator[str]:
    """No read before the post: after its last producer tile a block still has the rest of its work to do.

    How much that is follows from the position in its K loop, unless it shares its SM or prefetches
    (measured traces); then only the order of the ends is known.
    """
    costs = trace.header.costs
    name = dependency.consumer.stage.name
    is_exact = is_alone(trace) and trace.k_first is None
    if is_exact and dependency.consumer.stage.grid.z > 1:
        is_exact = not costs["partial_ns"] and not costs["fixup_ns"]
    opening_ns, closing_ns = opening_and_closing(trace, name) if is_exact else (0, 0)
    _, most_ns = waiting_ns(trace, name) if is_exact else (0, 0)
    prefetched = round(float(costs.get("prefetch", 0.0)) * SHARE_UNIT)
    plan = recorded_shape(trace.header.plan, trace.header.plan_data)
    ahead_ns = costs.get("prologue_epilogue_ns", 0) if plan.waits_for_grids else 0
    ends = _tile_ends(trace)
    for row in np.flatnonzero(trace.rows_of(name)).tolist():
        done_ns = int(trace.end_ns[row]) - closing_ns
        begin_ns = int(trace.start_ns[row] + trace.wait_ns[row]) + opening_ns
        work = max(0, done_ns - begin_ns - most_ns) if is_exact else 0
        for tile, done, of in _tiles_read(
            dependency, int(trace.x[row]), int(trace.y[row]), int(trace.z[row])
        ):
            rest = work - max(work * done // of, work * prefetched // SHARE_UNIT, min(work, ahead_ns))
            if done_ns + _slack(trace) - rest < ends[tile]:
                yield (
                    f"{_block(trace, row)} ends at {trace.end_ns[row]} ns, too soon after {tile[0]} tile "
                    f"{tile[1:]}, which it reads and which ends at {ends[tile]} ns"
                )


def _tile_ends(trace: Trace) -> dict[tuple[str, int, int], int]:
    """When the last slice of each tile (stage, x, y) ends."""
    ends: dict[tuple[str, int, int], int] = {}
    names = [info.name for info in trace.header.stages]
    columns = (trace.stage.tolist(), trace.x.tolist(), trace.y.tolist(), trace.end_ns.tolist())
    for stage, x, y, end in zip(*columns, strict=True):
        ends[names[stage], x, y] = max(end, ends.get((names[stage], x, y), end))
    return ends


def _tiles_read(
    dependency: Dependency, x: int, y: int, z: int
) -> Iterator[tuple[tuple[str, int, int], int, int]]:
    """Producer tiles (stage, x, y) of one consumer block, each needed once done/of of its work is done."""
    slices = dependency.consumer.stage.grid.z
    for need in dependency.needs:
        for j, n, tile in need.walk(need.box(x, y)):
            is_mine = (j + 1) * slices > z * n and j * slices < (z + 1) * n  # within this slice's part of K
            if is_mine:
                yield (need.stage.name, *tile), max(0, j * slices - z * n), n


# --- what each block must have computed, from the trace's header alone ---


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
        share[_first_of_blocks(trace, rows)] += prologue_epilogue_ns
        tile = trace.y[rows] * info.grid[0] + trace.x[rows]
        return share, np.bincount(tile)[tile]
    share = np.full(int(rows.sum()), tile_ns + sum(opening_and_closing(trace, info.name)))
    return share, np.full(share.size, info.grid[2])


def _first_of_blocks(trace: Trace, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether an item, of all in the order of rounds, is its block's first.

    It is first in its slot, or it starts as long after its issue as a block takes that follows another there.
    """
    slot, block_ns = trace.slot[rows], trace.header.costs["block_ns"]
    is_first = (trace.start_ns[rows] - trace.issue_ns[rows] >= block_ns) & (block_ns > 0)
    is_first[np.unique(trace.sm[rows] * (slot.max() + 1) + slot, return_index=True)[1]] = True
    return np.asarray(is_first)


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
