"""Work lists of a megakernel: what each SM computes, in order, what each item waits for, and what it posts.

Example: 768 tiles of the QKV product on 132 SMs are six items for 108 of them and five for the others. The
first item of attention on an SM waits until the counter of QKV reads 132: every SM posts once, behind the
last of its items of the stage. Lists go through the stages in order, so that they cannot deadlock; a list
that somebody has changed may, and `stuck` says where.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.megakernel import Megakernel
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync
from wavesim.plan.resolved import resolve

BARRIER_BYTES = 1_024  # of shared memory, for the barriers of the ring and sums across warps
COLUMNS = ("stage", "tile", "split", "splits", "wait", "value", "post", "order")
NOTHING = -1
STAGE_SHIFT = 24  # of an item's code


class WorkItem(NamedTuple):
    """A split of a tile; it waits until counter `wait` is `value`, and adds 1 to counter `post`.

    Counters are numbered as stages; -1 is none. What the loader brings ahead waits for nothing.
    """

    stage: int
    x: int
    y: int
    z: int
    wait: int = NOTHING
    value: int = 0
    post: int = NOTHING


@dataclass(frozen=True)
class WorkLists:
    """The items of each SM, in the order of loading and of computing, and the ring they go through."""

    pipeline: Pipeline
    schedule: Megakernel
    items: tuple[tuple[WorkItem, ...], ...]
    ring_bytes: int

    @property
    def slots(self) -> int:
        """Chunks that the ring holds."""
        return self.ring_bytes // self.schedule.chunk_bytes

    @cached_property
    def first(self) -> NDArray[np.int32]:
        """(sms + 1): SM s has rows `first[s]` up to `first[s + 1]` of `table`."""
        return np.cumsum([0, *map(len, self.items)], dtype=np.int32)

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """(items, 8), by `COLUMNS`, for a kernel: tiles row-major, `order` the place in the SM's list."""
        grids = [stage.grid for stage in self.pipeline.stages]
        rows = [
            (i.stage, i.y * grids[i.stage].x + i.x, i.z, grids[i.stage].z, i.wait, i.value, i.post, order)
            for own in self.items
            for order, i in enumerate(own)
        ]
        return np.array(rows, dtype=np.int32).reshape(-1, len(COLUMNS))

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """(items,): stage << 24 | tile * splits + split, for a kernel whose results say themselves that they
        are there, so that items need no counters.
        """
        stage, tile, split, splits = self.table.T[:4]
        codes: NDArray[np.int32] = stage << STAGE_SHIFT | tile * splits + split
        return codes

    def bytes_of(self, item: WorkItem) -> int:
        """What the loader brings for an item."""
        return self.pipeline.stages[item.stage].work.ahead_bytes(item.x, item.y, item.z)

    @cached_property
    def bytes_by_sm(self) -> tuple[int, ...]:
        """What each SM loads in all."""
        return tuple(sum(map(self.bytes_of, own)) for own in self.items)

    def stuck(self) -> list[tuple[int, WorkItem]]:
        """(SM, item) of each list that can never go on; none where every list ends, whatever the timing."""
        counters, at = [0] * len(self.pipeline.stages), [0] * len(self.items)
        ready = deque(range(len(self.items)))
        waiting: dict[int, list[int]] = {}
        while ready:
            sm = ready.popleft()
            for item in self.items[sm][at[sm] :]:
                if item.wait != NOTHING and counters[item.wait] < item.value:
                    waiting.setdefault(item.wait, []).append(sm)
                    break
                at[sm] += 1
                if item.post != NOTHING:
                    counters[item.post] += 1
                    ready.extend(waiting.pop(item.post, ()))
        return [(sm, own[at[sm]]) for sm, own in enumerate(self.items) if at[sm] < len(own)]


def lists_of_plan(pipeline: Pipeline, plan: Plan, device: Device) -> WorkLists:
    """The lists of a plan with a `Megakernel` on a device.

    Raises `DescriptionError` for stages that load nothing ahead of their waits, for semaphores finer than a
    stage, more SMs than the device has, and a ring that does not fit beside the activations.
    """
    schedule: Any = plan.schedule
    if not plan.schedule.has_work_lists:
        raise DescriptionError(f"plan {plan.name} has no work lists; use schedule=Megakernel()")
    _check_stages(pipeline, plan)
    if schedule.sms > device.sm_count:
        raise DescriptionError(
            f"Megakernel: sms is {schedule.sms}, and {device.name} has {device.sm_count}: blocks that are "
            f"not resident would be waited for. Use sms={device.sm_count} or fewer"
        )
    count = schedule.block_count(0, device.sm_count)
    dealt = _dealt(pipeline, schedule, count)
    awaited = _awaited(pipeline, plan)
    posts = [
        len({sm for sm, own in enumerate(dealt) for stage, *_ in own if stage == number})
        for number in range(len(pipeline.stages))
    ]
    items = tuple(tuple(_with_waits(own, awaited, posts)) for own in dealt)
    return WorkLists(pipeline, schedule, items, ring_bytes_of(pipeline, schedule, device))


def ring_bytes_of(pipeline: Pipeline, schedule: Megakernel, device: Device) -> int:
    """The ring: as asked for, or whole chunks in the shared memory that activations leave.

    Raises `DescriptionError` where that is not there.
    """
    stage = max(pipeline.stages, key=_most_awaited)
    taken = _most_awaited(stage) + BARRIER_BYTES
    room = (device.shared_bytes_per_block - taken) // schedule.chunk_bytes * schedule.chunk_bytes
    if schedule.ring_bytes > room or room <= 0:
        asked = schedule.ring_bytes or schedule.chunk_bytes
        raise DescriptionError(
            f"Megakernel: a ring of {asked:,} bytes does not fit: stage {stage.name} keeps {taken:,} of "
            f"{device.name}'s {device.shared_bytes_per_block:,} bytes of a block's shared memory for "
            f"activations. Use at most {max(0, room):,}, fewer rows, more splits of K there, or its input in "
            "parts"
        )
    return schedule.ring_bytes or room


def _most_awaited(stage: Stage) -> int:
    return max(stage.work.held_bytes(z) for z in range(stage.grid.z))


def _check_stages(pipeline: Pipeline, plan: Plan) -> None:
    for stage in pipeline.stages:
        if not stage.work.ahead_operands:
            raise DescriptionError(
                f"stage {stage.name} is a {type(stage.work).__name__}, of which nothing is known to be there "
                "before a wait; a megakernel streams StreamedProduct and AttentionDecode"
            )
    for edge in resolve(pipeline, plan).edges:
        policy = plan.policy_of(*edge)
        if policy != GridSync():
            raise DescriptionError(
                f"plan {plan.name}: {edge[1]} waits for {edge[0]} by policy {policy.name}; a megakernel has "
                "one counter per stage. Use Semaphores(GridSync())"
            )


def _dealt(pipeline: Pipeline, schedule: Megakernel, sms: int) -> list[list[tuple[int, int, int, int]]]:
    """(stage, x, y, z) of each SM's items: stage after stage, in each split after split."""
    dealt: list[list[tuple[int, int, int, int]]] = [[] for _ in range(sms)]
    blocks = [[(x, y, z) for z in range(stage.grid.z) for x, y in stage.grid] for stage in pipeline.stages]
    sizes = [
        [stage.work.ahead_bytes(*block) for block in own]
        for stage, own in zip(pipeline.stages, blocks, strict=True)
    ]
    for number, places in enumerate(schedule.places(sizes, sms)):
        for block, sm in zip(blocks[number], places, strict=True):
            dealt[sm].append((number, *block))
    return dealt


def _awaited(pipeline: Pipeline, plan: Plan) -> list[int]:
    """The counter that each stage waits for: the latest of its producers, which must cover the others."""
    numbers = {stage.name: number for number, stage in enumerate(pipeline.stages)}
    awaited, covered = list[int](), list[set[int]]()
    for stage in pipeline.stages:
        dependency = pipeline.dependency_of(stage.name)
        producers = {numbers[name] for name in dependency.producers} if dependency else set[int]()
        last = max(producers, default=NOTHING)
        behind = covered[last] | {last} if producers else set[int]()
        for other in producers - behind:
            raise DescriptionError(
                f"plan {plan.name}: {stage.name} needs {pipeline.stages[other].name} and "
                f"{pipeline.stages[last].name}, which does not wait for it; an item has one wait. Let the "
                "later one need the earlier"
            )
        awaited.append(last)
        covered.append(behind)
    return awaited


def _with_waits(
    own: Sequence[tuple[int, int, int, int]], awaited: Sequence[int], posts: Sequence[int]
) -> list[WorkItem]:
    """An SM's items; the last of each stage posts for all of them."""
    last = {stage: place for place, (stage, *_) in enumerate(own)}
    return [
        WorkItem(
            *block,
            wait=awaited[block[0]],
            value=posts[awaited[block[0]]] if awaited[block[0]] != NOTHING else 0,
            post=block[0] if last[block[0]] == place else NOTHING,
        )
        for place, block in enumerate(own)
    ]
