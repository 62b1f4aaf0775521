"""The engine of launches from the device: blocks that call, a pool of pending launches, one start at a time.

Example: 4,096 threads each launch a grid within 256 us, and a grid starts every 500 ns: the pool fills, and
what is called while it is full is lost.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice, pairwise

from simpy import Environment, Resource, Store
from simpy.resources.resource import Request

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.sim.events import Process
from wavesim.sim.sms import BlockSpan, Sms
from wavesim.sim.streams.device_launches import MOST_GRIDS, ChildLaunch, DeviceGrid, LaunchMachine

HOST = "host"


@dataclass(eq=False)
class GridRun:
    """A grid's way: called, its first block begun, its last block ended, complete with all that it launched.

    `lost` says why it never ran, and then all later times are -1. `queue` is its block's stream, `tails` what
    it launched on the tail stream.
    """

    grid: DeviceGrid
    launched_by: "GridRun | None"
    stream: str
    called_ns: int
    is_virtual: bool = False
    has_launched: bool = False
    lost: str = ""
    queue: "deque[GridRun] | None" = field(default=None, repr=False)
    start_ns: int = -1
    work_ns: int = -1
    end_ns: int = -1
    children_left: int = 0
    blocks_left: int = field(init=False)
    tails: "deque[GridRun]" = field(default_factory=deque, repr=False)

    def __post_init__(self) -> None:
        self.blocks_left = len(self.grid.blocks_ns)

    @property
    def name(self) -> str:
        """The grid's."""
        return self.grid.name

    @property
    def parent(self) -> str:
        """The name of the grid that launched it; none of what the host launched."""
        return self.launched_by.name if self.launched_by else ""

    @property
    def depth(self) -> int:
        """0 for what the host launched."""
        return self.launched_by.depth + 1 if self.launched_by else 0


@dataclass(frozen=True)
class LaunchTimeline:
    """One simulated run. `pending`: (time, launches that are called and have not begun) at every change."""

    machine: LaunchMachine
    grids: Sequence[GridRun]
    blocks: Sequence[BlockSpan]
    pending: Sequence[tuple[int, int]]

    @property
    def end_ns(self) -> int:
        """When the grid that the host launched was complete."""
        return self.grids[0].end_ns

    @property
    def launches(self) -> int:
        """Calls on the device, lost ones too."""
        return len(self.grids) - 1

    @property
    def lost(self) -> int:
        """Launches that never ran."""
        return sum(bool(grid.lost) for grid in self.grids)

    @property
    def most_pending(self) -> int:
        """The most launches that were pending at once, for however short a time."""
        steps = pairwise((*self.pending, (self.end_ns + 1, 0)))
        return max(count for (since_ns, count), (until_ns, _) in steps if until_ns > since_ns)

    def grid(self, name: str) -> GridRun:
        """The first grid of that name. Raises `KeyError`."""
        for grid in self.grids:
            if grid.name == name:
                return grid
        raise KeyError(name)


def simulate_launches(grid: DeviceGrid, machine: LaunchMachine) -> LaunchTimeline:
    """The grid, launched by the host, and all that it launches.

    Raises `DescriptionError` for too many grids and for a block that no SM can hold.
    """
    if len(list(islice(grid.all_grids, MOST_GRIDS + 1))) > MOST_GRIDS:
        raise DescriptionError(
            f"{grid.name} and all that it launches are more than {MOST_GRIDS:,} grids; take fewer"
        )
    return LaunchEngine(machine).run(grid)


class LaunchEngine:
    """One run: built, run once."""

    def __init__(self, machine: LaunchMachine) -> None:
        self._machine = machine
        self._env = Environment()
        self._sms = Sms(self._env, machine.device)
        self._ready = Store(self._env)
        self._resident = Resource(self._env, machine.resident_grids)
        self._runs: list[GridRun] = []
        self._queues: dict[tuple[int, int | None], deque[GridRun]] = defaultdict(deque)
        self._pending = [(0, 0)]
        self._ranks = count()

    def run(self, grid: DeviceGrid) -> LaunchTimeline:
        """Simulates until nothing is left to happen."""
        host = GridRun(grid, None, HOST, 0)
        self._runs.append(host)
        self._issue(host, self._resident.request())
        self._env.process(self._start())
        self._env.run()
        return LaunchTimeline(self._machine, self._runs, self._sms.spans, self._pending)

    # --- what blocks do ---

    def _work(self, run: GridRun, position: int, *_: int) -> Process:
        if run.start_ns < 0:
            run.start_ns = int(self._env.now)
            if run.launched_by is not None:
                self._count(-1)
        calls: dict[int | None, list[ChildLaunch]] = defaultdict(list)
        for call in run.grid.launches:
            if call.block == position:
                calls[call.warp].append(call)
        own = self._warp(run, position, None, calls.pop(None, []))
        others = [self._env.process(self._warp(run, position, *warp_calls)) for warp_calls in calls.items()]
        yield from own
        if others:
            yield self._env.all_of(others)
        run.blocks_left -= 1
        if not run.blocks_left:
            yield from self._last_calls(run)

    def _end(self, run: GridRun, resident: Request) -> None:
        run.work_ns = int(self._env.now)
        self._resident.release(resident)
        self._look(run)

    def _warp(self, run: GridRun, position: int, warp: int | None, calls: Sequence[ChildLaunch]) -> Process:
        """A warp that calls; the block's own works before, between and behind its calls."""
        worked_ns, block_ns = 0, run.grid.blocks_ns[position]
        for call in sorted(calls, key=lambda call: call.after_ns):
            wanted_ns = min(call.after_ns, block_ns) - worked_ns
            yield self._env.timeout(wanted_ns + self._machine.call_ns)
            worked_ns += wanted_ns
            self._call(run, call)
        if warp is None:
            yield self._env.timeout(block_ns - worked_ns)

    def _last_calls(self, run: GridRun) -> Process:
        for call in run.grid.launches:
            if call.block is None:
                yield self._env.timeout(self._machine.call_ns)
                self._call(run, call)

    def _call(self, parent: GridRun, call: ChildLaunch) -> None:
        """A launch: it takes a place in the pool, or is lost."""
        child = GridRun(call.grid, parent, call.stream, int(self._env.now))
        self._runs.append(child)
        is_full = self._pending[-1][1] >= self._machine.pool
        if child.depth > self._machine.depth:
            child.lost = f"deeper than {self._machine.depth} levels"
        elif is_full and not self._machine.is_virtualised:
            child.lost = f"{self._machine.pool:,} launches were pending"
        if child.lost:
            return
        child.is_virtual = is_full
        parent.has_launched = True
        self._count(1)
        if call.stream == "tail":
            parent.tails.append(child)
            return
        parent.children_left += 1
        if call.stream == "block":
            child.queue = self._queues[id(parent), call.block]
            child.queue.append(child)
            if len(child.queue) > 1:
                return
        self._ready.put(child)

    def _count(self, change: int) -> None:
        self._pending.append((int(self._env.now), self._pending[-1][1] + change))

    # --- what the device does ---

    def _start(self) -> Process:
        """Takes launches whose turn has come from the pool, one at a time."""
        machine = self._machine
        while True:
            run = yield self._ready.get()
            resident = self._resident.request()
            yield resident
            earliest_ns = run.called_ns + machine.latency_ns - int(self._env.now)
            wait_ns = max(machine.start_ns, earliest_ns) + run.is_virtual * machine.virtual_ns
            yield self._env.timeout(wait_ns)
            self._issue(run, resident)

    def _issue(self, run: GridRun, resident: Request) -> None:
        grid = run.grid
        kernel = Kernel(grid.name, Grid(len(grid.blocks_ns)), Block(grid.threads))
        ended = partial(self._end, run, resident)
        self._sms.launch(kernel, next(self._ranks), partial(self._work, run), ended)

    def _look(self, run: GridRun) -> None:
        """A grid is complete when its blocks, its children and then its tail launches are."""
        if run.blocks_left or run.work_ns < 0 or run.children_left:
            return
        if run.tails:
            run.children_left += 1
            self._ready.put(run.tails.popleft())
            return
        if run.has_launched and self._machine.complete_ns:
            self._env.process(self._complete_later(run))
        else:
            self._complete(run)

    def _complete_later(self, run: GridRun) -> Process:
        yield self._env.timeout(self._machine.complete_ns)
        self._complete(run)

    def _complete(self, run: GridRun) -> None:
        run.end_ns = int(self._env.now)
        if run.queue:
            run.queue.popleft()
            if run.queue:
                self._ready.put(run.queue[0])
        if run.launched_by is not None:
            run.launched_by.children_left -= 1
            self._look(run.launched_by)
