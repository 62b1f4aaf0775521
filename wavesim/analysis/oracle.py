"""The oracle: the simulator's semantics once more, as a bare heapq loop, to check the SimPy model against.

Picture: the same pipeline, plan, device and costs go into both; start, end, SM and slot of every
block must come out equal, and a deadlock must leave the same blocks waiting. It is also the
yardstick of speed: `wavesim bench` reports how many times its CPU time SimPy takes.

It shares with the engine the worked-out plan (`build_program`), the footprints and the cost
model, and nothing that happens in time.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from wavesim.analysis.oracle_sms import ComputingBlocks, SmRoom
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync
from wavesim.model.waits import Wait
from wavesim.sim.cost import RATE_UNIT, CostModel
from wavesim.sim.placement import Footprint, footprint
from wavesim.sim.program import build_program


@dataclass(eq=False, slots=True)
class OracleBlock:
    """One block and what became of it; times in ns, -1 until they are known."""

    stage: int
    position: int
    tile: tuple[int, int, int]
    footprint: Footprint
    work: int
    waits: tuple[Wait, ...] = ()
    sm: int = -1
    slot: int = -1
    issue: int = -1
    start: int = -1
    wait: int = 0
    end: int = -1
    passed: int = 0  # waits behind it
    done: int = 0  # work it has had, or is having
    arrival: int = 0  # when it reaches the wait that holds it up


@dataclass(eq=False)
class QueuedKernel:
    """Blocks to issue in this order. Of kernels that arrive at one instant the lower rank goes first."""

    rank: int
    blocks: deque[OracleBlock]


class Oracle:
    """One run: `run()`, then read `blocks` and, after a deadlock, `stuck` and `stuck_wait_kernels`."""

    def __init__(self, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel) -> None:
        self.costs, self.plan = costs, plan
        self.program = build_program(pipeline, plan)
        self.now = self.pushes = 0
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._build_stages(pipeline, device)
        self.room = SmRoom(device)
        self.all_sms = range(device.sm_count)
        self.untried = set(self.all_sms)  # SMs where the head of the queue may have room
        self.queue: deque[QueuedKernel] = deque()
        self.arrivals: list[QueuedKernel] = []
        self.missing = self.program.semaphore_values  # posts until ready
        self.held_up: list[list[OracleBlock]] = [[] for _ in self.missing]
        self.computing: list[ComputingBlocks] | None = None
        if set(costs.rates) != {(RATE_UNIT, RATE_UNIT)}:
            self.computing = [ComputingBlocks(costs.rates, self.at) for _ in self.all_sms]

    def _build_stages(self, pipeline: Pipeline, device: Device) -> None:
        self.stages: list[list[OracleBlock]] = []
        for program, stage in zip(self.program.stages, pipeline.stages, strict=True):
            kind, work, grid = footprint(device, stage.kernel), self.costs.tile_times(stage), stage.grid
            times = [work] * grid.size if isinstance(work, int) else work
            self.stages.append(
                [
                    OracleBlock(program.index, i, (x, y, z), kind, times[(z * grid.y + y) * grid.x + x])
                    for i, (x, y, z) in enumerate(program.blocks)
                ]
            )
        self.slices = [[stage.grid.z] * stage.grid.tiles for stage in pipeline.stages]
        self.post_ns = [self.costs.post_ns if program.posts[0] else 0 for program in self.program.stages]
        self.left = [stage.grid.size for stage in pipeline.stages]
        self.has_started = [False] * len(self.stages)
        self.index = {stage.name: i for i, stage in enumerate(pipeline.stages)}
        self.wait_kernel = footprint(device, WAIT_KERNEL)
        self.stuck_wait_kernels: list[OracleBlock] = []  # resident; the stage is the one they stand before

    @property
    def blocks(self) -> list[OracleBlock]:
        """All blocks, stage by stage, in issue order."""
        return [block for stage in self.stages for block in stage]

    @property
    def stuck(self) -> list[tuple[OracleBlock, int]]:
        """Blocks that wait for ever, each with its semaphore (global index)."""
        return [(block, semaphore) for semaphore, blocks in enumerate(self.held_up) for block in blocks]

    def at(self, time: int, act: Callable[[Any], None], subject: Any) -> None:
        """Has `act(subject)` called at a time."""
        self.pushes += 1
        heappush(self.heap, (time, self.pushes, act, subject))

    def run(self) -> "Oracle":
        """Everything that completes at an instant, then a dispatch pass, and so on. Returns itself."""
        self._launch()
        heap = self.heap
        while True:
            while heap and heap[0][0] == self.now:
                _, _, act, subject = heappop(heap)
                act(subject)
            if self.arrivals or (self.untried and self.queue):
                self._dispatch()
            elif heap:
                self.now = heap[0][0]
            else:
                return self

    # --- launches and the queue ---

    def _launch(self) -> None:
        """Under stream sync a kernel follows the one before it; otherwise only its own wait-kernel."""
        self.launched_at = []
        host = 0
        for program, blocks in zip(self.program.stages, self.stages, strict=True):
            rank, ahead = 2 * program.index, 0
            is_stream = not isinstance(self.plan, SemaphoreSync)
            if isinstance(self.plan, SemaphoreSync) and program.arrays:
                if self.plan.wait_kernel:
                    kernel = OracleBlock(program.index, 0, (0, 0, 0), self.wait_kernel, 0)
                    self.at(host, self.arrivals.append, QueuedKernel(rank, deque([kernel])))
                    host += self.costs.launch_ns
                    is_stream = True
                ahead = self.plan.head_start
                if ahead:  # before everything else
                    self.arrivals.append(QueuedKernel(rank - 2 * len(self.stages), deque(blocks[:ahead])))
            self.launched_at.append(host)
            if not is_stream or program.index == 0:
                self.at(host, self.arrivals.append, QueuedKernel(rank + 1, deque(blocks[ahead:])))
            host += self.costs.launch_ns

    def _follow(self, stage: int) -> None:
        """The kernel before this stage in its stream has ended: a boundary later it is its turn."""
        turn = max(self.now, self.launched_at[stage]) + self.costs.boundary_ns
        self.at(turn, self.arrivals.append, QueuedKernel(2 * stage + 1, deque(self.stages[stage])))

    def _dispatch(self) -> None:
        """Issues from the head of the queue until the head has no room."""
        if not self.queue:
            self.untried = set(self.all_sms)
        self.queue.extend(sorted(self.arrivals, key=lambda kernel: kernel.rank))
        self.arrivals.clear()
        while self.queue:
            blocks = self.queue[0].blocks
            for block in self.room.fill(self.untried, blocks):
                block.issue = self.now
                self._issued(block)
            if blocks:
                self.untried = set()
                return
            self.queue.popleft()
            self.untried = set(self.all_sms)

    def _leave(self, block: OracleBlock) -> None:
        self.room.leave(block)
        self.untried.add(block.sm)

    # --- wait-kernels ---

    def _issued(self, block: OracleBlock) -> None:
        if block.footprint is self.wait_kernel:
            self.stuck_wait_kernels.append(block)
            self._look(block)
            return
        block.start = self.now + self.costs.block_ns
        block.waits = self.program.stages[block.stage].waits(block.position)
        if not self.has_started[block.stage]:
            self.at(block.start, self._started, block.stage)
        if self.computing is None:
            self._walk(block, block.start + self._prologue_ns(block))
        else:
            self.at(block.start + self._prologue_ns(block), self._compute, block)

    def _started(self, stage: int) -> None:
        if not self.has_started[stage]:
            self.has_started[stage] = True
            for kernel in tuple(self.stuck_wait_kernels):
                self._look(kernel)

    def _look(self, kernel: OracleBlock) -> None:
        """A wait-kernel ends once all the producers of its stage have started."""
        if all(self.has_started[self.index[name]] for name in self.program.stages[kernel.stage].arrays):
            self.stuck_wait_kernels.remove(kernel)
            self.at(self.now + self.costs.signal_ns + self.costs.wait_ns, self._end_wait_kernel, kernel)

    def _end_wait_kernel(self, kernel: OracleBlock) -> None:
        self._leave(kernel)
        self._follow(kernel.stage)

    # --- a block that has its SM's speed to itself: its way is known until the next unready semaphore ---

    def _walk(self, block: OracleBlock, time: int) -> None:
        """Takes the block from `time` as far as posts until now allow."""
        costs, waits = self.costs, block.waits
        while block.passed < len(waits):
            wait = waits[block.passed]
            due = block.work * wait.done // wait.of
            time, block.done = time + due - block.done, due
            if self.missing[wait.semaphore]:
                block.arrival = time
                self.held_up[wait.semaphore].append(block)
                return
            time += costs.wait_ns
            block.wait += costs.wait_ns
            block.passed += 1
        self.at(time + block.work - block.done + self._post_ns(block), self._finish, block)

    def _prologue_ns(self, block: OracleBlock) -> int:
        if not isinstance(self.plan, SemaphoreSync):
            return 0
        is_waiting = bool(self.program.stages[block.stage].arrays)
        return self.costs.counter_ns + is_waiting * self.costs.look_ns

    def _post_ns(self, block: OracleBlock) -> int:
        return self.costs.post_ns if self.program.stages[block.stage].posts[0] else 0

    # --- a block that shares its SM: step by step ---

    def _compute(self, block: OracleBlock) -> None:
        """Up to the next wait, or to the end of its work."""
        assert self.computing is not None
        due = block.work
        if block.passed < len(block.waits):
            wait = block.waits[block.passed]
            due = block.work * wait.done // wait.of
        amount, block.done = due - block.done, due
        if amount:
            age = (block.issue, block.stage, block.position)
            self.computing[block.sm].join(self.now, amount, self._computed, block, age)
        else:
            self._computed(block)

    def _computed(self, block: OracleBlock) -> None:
        if block.passed == len(block.waits):
            self.at(self.now + self._post_ns(block), self._finish, block)
            return
        block.arrival = self.now
        semaphore = block.waits[block.passed].semaphore
        if self.missing[semaphore]:
            self.held_up[semaphore].append(block)
        else:
            self._pass_wait(block)

    def _pass_wait(self, block: OracleBlock) -> None:
        block.passed += 1
        block.wait += self.now - block.arrival + self.costs.wait_ns
        self.at(self.now + self.costs.wait_ns, self._compute, block)

    # --- the end of a block ---

    def _finish(self, block: OracleBlock) -> None:
        block.end = self.now
        self._leave(block)
        stage, (x, y, _) = block.stage, block.tile
        program = self.program.stages[stage]
        tile = y * program.stage.grid.x + x
        self.slices[stage][tile] -= 1
        if not self.slices[stage][tile]:
            for semaphore in program.posts[tile]:
                self.at(self.now + self.costs.signal_ns, self._post, semaphore)
        self.left[stage] -= 1
        is_stream = not isinstance(self.plan, SemaphoreSync)
        if is_stream and not self.left[stage] and stage + 1 < len(self.stages):
            self._follow(stage + 1)

    def _post(self, semaphore: int) -> None:
        self.missing[semaphore] -= 1
        if self.missing[semaphore]:
            return
        blocks, self.held_up[semaphore] = self.held_up[semaphore], []
        for block in blocks:
            if self.computing is not None:
                self._pass_wait(block)
            else:
                block.wait += max(0, self.now - block.arrival)
                self._walk(block, max(self.now, block.arrival))
