"""The reference simulator: the semantics once more, as a bare heapq loop, to check the SimPy model against.

Example: the same pipeline, plan, device and costs go into both; start, end, SM and slot of every
block must come out equal, and a deadlock must leave the same blocks waiting. It is also the
yardstick of speed: `wavesim bench` reports how many times its CPU time SimPy takes.

It shares with the engine the worked-out plan (`launched`), the footprints and what the cost model
costs, and nothing that happens in time.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heappop

from wavesim.bench.reference.blocks import ReferenceBlock, ReferenceBlocks
from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.plan.launch import LaunchTurn
from wavesim.plan.plan import Plan
from wavesim.sim.placement import SPREAD, SPREAD_OVER, footprint


@dataclass(eq=False)
class QueuedKernel:
    """Blocks to issue in this order. Of kernels that arrive at one instant the lower rank goes first."""

    rank: int
    blocks: deque[ReferenceBlock]
    launch: int = -1  # whose blocks these are; a wait-kernel's are nobody's
    is_first: bool = False  # only the first of them; the others come later


class ReferenceSimulator(ReferenceBlocks):
    """One run: `run()`, then read `blocks` and, after a deadlock, `stuck` and `stuck_wait_kernels`."""

    def __init__(self, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel) -> None:
        super().__init__(pipeline, plan, device, costs)
        self.head_start = plan.launch.head_start
        self.between_ns = costs.between_launches_ns(plan)
        self.all_sms = range(device.sm_count)
        self.queue: deque[QueuedKernel] = deque()
        self.arrivals: list[QueuedKernel] = []
        self.index = {stage.name: i for i, stage in enumerate(pipeline.stages)}
        self.wait_kernel = footprint(device, WAIT_KERNEL)
        self.stuck_wait_kernels: list[ReferenceBlock] = []  # resident; the stage is the one they stand before

    @property
    def blocks(self) -> list[ReferenceBlock]:
        """All blocks, stage by stage, in issue order."""
        return [block for stage in self.stages for block in stage]

    @property
    def stuck(self) -> list[tuple[ReferenceBlock, int]]:
        """Blocks that wait for ever, each with its semaphore (global index)."""
        return [(block, semaphore) for semaphore, blocks in enumerate(self.held_up) for block in blocks]

    def run(self) -> "ReferenceSimulator":
        """Everything that completes at an instant, then a dispatch pass, and so on. Returns itself."""
        self._launch()
        heap = self.heap
        while True:
            while heap and heap[0][0] == self.now:
                _, _, act, subject = heappop(heap)
                act(subject)
            if self.turns:
                self.take_turns()
            elif self.arrivals or (self.untried and self.queue):
                self._dispatch()
            elif heap:
                self.now = heap[0][0]
            else:
                return self

    # --- launches and the queue ---

    def _launch(self) -> None:
        """A kernel follows the one before it or its own wait-kernel; otherwise its turn comes at once."""
        self.launched_at = []
        host = 0
        for number, launch in enumerate(self.program.launches):
            stage = launch.stages[0]
            has_arrays = bool(self.program.stages[stage].arrays)
            rank, ahead = 2 * number, self.head_start if has_arrays else 0
            if launch.has_wait_kernel:
                kernel = ReferenceBlock(stage, 0, (0, 0, 0), self.wait_kernel, 0)
                self.at(host, self.arrivals.append, QueuedKernel(rank, deque([kernel])))
                host += self.between_ns
            if ahead:  # before everything else
                first = deque(self.items[number][:ahead])
                self.arrivals.append(QueuedKernel(rank - 2 * len(self.stages), first, number, is_first=True))
            self.launched_at.append(host)
            if launch.turn.is_at_once and not launch.has_wait_kernel:
                self.at(host, self.arrivals.append, self._queued(number, ahead))
            host += self.between_ns

    def _queued(self, launch: int, ahead: int = 0) -> QueuedKernel:
        blocks = self.items[launch][ahead : self.program.launches[launch].blocks]
        return QueuedKernel(2 * launch + 1, deque(blocks), launch)

    def _follow(self, launch: int) -> None:
        """What this launch follows in its stream has ended: a boundary later it is its turn."""
        stage = self.program.stages[self.program.launches[launch].stages[0]].stage.name
        turn = max(self.now, self.launched_at[launch]) + self.costs.of_stage(stage).boundary_ns
        self.at(turn, self.arrivals.append, self._queued(launch))

    def _dispatch(self) -> None:
        """Issues from the head of the queue until the head has no room."""
        if not self.queue:
            self.untried = set(self.all_sms)
        self.queue.extend(sorted(self.arrivals, key=lambda kernel: kernel.rank))
        self.arrivals.clear()
        while self.queue:
            kernel = self.queue[0]
            placed = list(self.room.fill(self.untried, kernel.blocks))
            for block in _drawn(placed) if self._is_fetching(kernel) else placed:
                self._issued(block)
            if kernel.blocks:
                self.untried = set()
                return
            self.queue.popleft()
            self.untried = set(self.all_sms)
            if not kernel.is_first:
                self._all_issued(kernel.launch)

    def _is_fetching(self, kernel: QueuedKernel) -> bool:
        is_fetching = kernel.launch >= 0 and self.program.launches[kernel.launch].is_fetching
        return is_fetching and self.costs.fetches_by_sm

    def _issued(self, block: ReferenceBlock) -> None:
        if block.footprint is self.wait_kernel:
            block.issue = self.now
            self.stuck_wait_kernels.append(block)
            self._look(block)
        else:
            self.begin(block, self.costs.block_ns)

    def _all_issued(self, launch: int) -> None:
        """A dependent launch comes when the last block has executed its first instruction."""
        if launch >= 0 and self._turn_of(launch + 1).is_early:
            turn = max(self.now + self.costs.block_ns, self.launched_at[launch + 1])
            self.at(turn, self.arrivals.append, self._queued(launch + 1))

    def stage_ended(self, stage: int) -> None:
        """The next kernel of the stream comes a boundary later."""
        following = self.launch[stage] + 1
        if self._turn_of(following).is_after_end:
            self._follow(following)

    def _turn_of(self, launch: int) -> LaunchTurn:
        """Of a launch; past the last one nothing follows."""
        launches = self.program.launches
        return launches[launch].turn if launch < len(launches) else LaunchTurn.AT_ONCE

    # --- wait-kernels ---

    def started(self, stage: int) -> None:
        """Wait-kernels look again."""
        if not self.has_started[stage]:
            self.has_started[stage] = True
            for kernel in tuple(self.stuck_wait_kernels):
                self._look(kernel)

    def _look(self, kernel: ReferenceBlock) -> None:
        """A wait-kernel ends once all the producers of its stage have started."""
        if all(self.has_started[self.index[name]] for name in self.program.stages[kernel.stage].arrays):
            self.stuck_wait_kernels.remove(kernel)
            costs = self.costs
            delay_ns = costs.post_visibility_ns + costs.wait_ns + costs.wait_kernel_ns
            self.at(self.now + delay_ns, self._end_wait_kernel, kernel)

    def _end_wait_kernel(self, kernel: ReferenceBlock) -> None:
        self.leave(kernel)
        self._follow(self.launch[kernel.stage])


def _drawn(blocks: list[ReferenceBlock]) -> list[ReferenceBlock]:
    """The same blocks on the same places; if any SM has several they get them SM by SM."""
    sms = [block.sm for block in blocks]
    if len(set(sms)) < len(sms):
        places = sorted((b.sm * SPREAD % SPREAD_OVER, b.sm, b.slot) for b in blocks)
        for block, (_, sm, slot) in zip(blocks, places, strict=True):
            block.sm, block.slot = sm, slot
    return blocks
