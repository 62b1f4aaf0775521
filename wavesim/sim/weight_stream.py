"""How weights flow through the rings of a megakernel's SMs: one memory for all, a ring and warps on each.

Example: an SM whose warps wait 2 us for the stage before goes on loading; 192 KB of ring last for 5.9 us at
its 33 GB/s of 4.4 TB/s. Then the warps empty the ring faster than memory fills it, and have lost nothing; or
hardly faster, and the memory has to wait for the ring: then every wait is lost.

Times are integer picoseconds: a chunk of 16 KB passes the memory in 3,691 of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from wavesim.errors import DeadlockError, Waiter
from wavesim.plan.work_lists import NOTHING, WorkItem, WorkLists
from wavesim.work.streamed.law import MegakernelCosts

PS = 1_000  # of a nanosecond


@dataclass
class ItemTimes:
    """Of an item, in picoseconds. `wait`: for the counter; `stall`: for bytes that were not in the ring."""

    group: int
    start: int
    wait: int
    stall: int = 0
    end: int = 0


@dataclass
class StageEntry:
    """When an SM's warps may begin a stage (`ready`), and which of its chunks they then take first."""

    stage: int
    ready: int
    chunk: int


@dataclass(eq=False)
class StreamingSm:
    """An SM: its chunks, as (item, bytes); when each was asked for, arrived and left the ring; its groups."""

    number: int
    items: tuple[WorkItem, ...]
    chunks: list[tuple[int, int]]
    groups: list[int]  # when each is free
    arrived: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    asked: int = 0  # when the last chunk was
    copied: int = 0  # when its loader has issued all copies of that
    is_asking: bool = False  # for another, in the queue of requests
    port: int = 0  # when the ring's last chunk has been taken
    turn: int = 0
    place: tuple[int, int] = (NOTHING, 0)  # stage and split whose activations it has
    begun: dict[int, tuple[int, int]] = field(default_factory=dict)  # by group: when its wait began, how long
    entries: list[StageEntry] = field(default_factory=list)
    times: list[ItemTimes] = field(default_factory=list)


class WeightStream:
    """One run: built, run once, read from `sms`. Without `waits` no item waits for a stage."""

    def __init__(self, lists: WorkLists, costs: MegakernelCosts, *, waits: bool = True) -> None:
        self.lists, self.waits = lists, waits
        self._in_flight = lists.schedule.in_flight or lists.slots
        rates = (costs.dram_bytes_per_s, costs.activation_bytes_per_s, costs.consume_bytes_per_s)
        self._dram_ps, self._activation_ps, self._take_ps = (PS * 1e9 / rate for rate in rates)
        names = ("latency_ns", "stage_ns", "item_ns", "post_ns")
        self._latency, self._stage, self._item, self._post = (PS * getattr(costs, name) for name in names)
        self.sms = [
            StreamingSm(number, items, list(self._chunks(items)), [0] * lists.schedule.groups)
            for number, items in enumerate(lists.items)
        ]
        stages = range(len(lists.pipeline.stages))
        self._counters, self._posted = [0 for _ in stages], [0 for _ in stages]  # and when last
        self._behind = [0 for _ in stages]  # what a post waits for in the queue of the memory
        self._parked: dict[int, list[tuple[int, StreamingSm]]] = {}  # by counter: (value, who)
        self._dram, self._now = 0, 0  # when the memory is free; of the request that is served
        self._queue_share = costs.queue_share
        self._copy = PS * costs.copy_ns
        works = [stage.work for stage in lists.pipeline.stages]
        rows = [work.output_tile[1] if work.multiplies_weights and work.output_tile else 0 for work in works]
        self._slower = [max(1.0, costs.full_rows / count) if count else 1.0 for count in rows]
        self._heap: list[tuple[int, int]] = []

    def _chunks(self, items: tuple[WorkItem, ...]) -> Iterator[tuple[int, int]]:
        most = self.lists.schedule.chunk_bytes
        for place, item in enumerate(items):
            size = self.lists.bytes_of(item)
            yield from ((place, min(most, size - done)) for done in range(0, max(1, size), most))

    def run(self) -> None:
        """Until nothing is left to load. Raises `DeadlockError` for lists that wait for ever."""
        for sm in self.sms:
            self._ask(sm)
        while self._heap:
            now, number = heappop(self._heap)
            sm = self.sms[number]
            sm.is_asking = False
            self._load(sm, now)
            self._take(sm)
            self._ask(sm)
        if any(len(sm.freed) < len(sm.chunks) for sm in self.sms):
            raise self._deadlock()

    def _load(self, sm: StreamingSm, now: int) -> None:
        """Asks for the next chunk; the memory serves chunks in the order in which they were asked for."""
        place, size = sm.chunks[len(sm.arrived)]
        copies = self.lists.pipeline.stages[sm.items[place].stage].work.ahead_copies(size)
        self._now, sm.copied = now, max(sm.copied, now) + copies * self._copy
        self._dram = max(self._dram, now) + round(size * self._dram_ps)
        sm.arrived.append(max(self._dram, sm.copied) + self._latency)
        sm.asked = now

    def _ask(self, sm: StreamingSm) -> None:
        """Queues the request for the next chunk, for when its slot of the ring is known to be free and few
        enough are on their way.
        """
        number = len(sm.arrived)
        slot, landed = number - self.lists.slots, number - self._in_flight
        if not sm.is_asking and number < len(sm.chunks) and slot < len(sm.freed):
            sm.is_asking = True
            free = sm.freed[slot] if slot >= 0 else 0
            few = sm.arrived[landed] if landed >= 0 else 0
            heappush(self._heap, (max(free, few, sm.asked), sm.number))

    def _take(self, sm: StreamingSm) -> None:
        """Takes out of the ring what was asked for, up to a stage that may not begin yet."""
        while len(sm.freed) < len(sm.arrived):
            item = sm.items[sm.chunks[len(sm.freed)][0]]
            if sm.place != (item.stage, item.z) and not self._enter(sm, item):
                return
            self._take_chunk(sm)

    def _enter(self, sm: StreamingSm, item: WorkItem) -> bool:
        """Waits for a stage and loads activations, those of another split without a wait; False: not yet."""
        is_new, ready = sm.place[0] != item.stage, 0
        if is_new and self.waits and item.wait != NOTHING:
            if self._counters[item.wait] < item.value:
                self._parked.setdefault(item.wait, []).append((item.value, sm))
                return False
            ready = self._posted[item.wait] + self._post + self._behind[item.wait]
        free = max(sm.groups)  # its warps leave a stage together
        begins = max(ready, free)
        if is_new:
            sm.entries.append(StageEntry(item.stage, begins, len(sm.freed)))
        loads = round(self._activation_bytes(item) * self._activation_ps)
        sm.place, begins = (item.stage, item.z), begins + loads + is_new * self._stage
        sm.begun = dict.fromkeys(range(len(sm.groups)), (free, max(0, ready - free)))
        sm.groups = [begins] * len(sm.groups)
        return True

    def _activation_bytes(self, item: WorkItem) -> int:
        """Of an item's stage and split: of each split of the stage before, whose sums the reader adds up."""
        stages = self.lists.pipeline.stages
        parts = 1 if item.wait == NOTHING else stages[item.wait].grid.z
        return parts * stages[item.stage].work.awaited_bytes(item.z)

    def _take_chunk(self, sm: StreamingSm) -> None:
        """One group takes a chunk; all share what the SM takes per second. The last chunk ends the item."""
        number = len(sm.freed)
        place, size = sm.chunks[number]
        if place == len(sm.times):
            start, wait = sm.begun.pop(sm.turn, (sm.groups[sm.turn], 0))
            sm.times.append(ItemTimes(sm.turn, start, wait))
        times, free = sm.times[place], sm.groups[sm.turn]
        times.stall += max(0, sm.arrived[number] - free)
        sm.port = max(sm.port, free, sm.arrived[number]) + round(
            size * self._slower[sm.items[place].stage] * self._take_ps
        )
        sm.freed.append(sm.port)
        sm.groups[sm.turn] = times.end = sm.port
        if number + 1 == len(sm.chunks) or sm.chunks[number + 1][0] != place:
            sm.groups[sm.turn] = times.end = times.end + self._item
            sm.turn = (sm.turn + 1) % len(sm.groups)
            self._finish(sm, sm.items[place])

    def _finish(self, sm: StreamingSm, item: WorkItem) -> None:
        """The last item of a stage posts behind all of them; the last SM to post lets the others begin."""
        if item.post == NOTHING:
            return
        self._counters[item.post] += 1
        self._posted[item.post] = max(self._posted[item.post], *sm.groups)
        self._behind[item.post] = round(self._queue_share * max(0, self._dram - self._now))
        parked, reached = self._parked.get(item.post, []), self._counters[item.post]
        if not any(value <= reached for value, _ in parked):
            return
        self._parked[item.post] = [(value, sm) for value, sm in parked if value > reached]
        for value, other in parked:
            if value <= reached:
                self._take(other)
                self._ask(other)

    def _deadlock(self) -> DeadlockError:
        stages = self.lists.pipeline.stages
        return DeadlockError(
            tuple(
                Waiter(
                    stages[item.stage].name,
                    (item.x, item.y, item.z),
                    sm,
                    0,
                    f"{stages[item.wait].name} grid[0]",
                    self._counters[item.wait],
                    item.value,
                )
                for sm, item in self.lists.stuck()
            ),
            detail="each SM computes its list in order; put the items that are waited for first",
        )
