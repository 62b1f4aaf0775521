"""The reference simulator's thread blocks: how far each gets, and what it does at its end.

Example: a block of 80 us with waits at 0 and 40 us is walked as far as posts until now allow: to 40 us, where
it is held up; a post at 55 us walks it on to its end at 95 us.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush
from typing import Any

from wavesim.bench.reference.sms import ComputingBlocks, SmRoom
from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.waits import Wait
from wavesim.sim.block_costs import block_costs_of
from wavesim.sim.launches import launched
from wavesim.sim.placement import Footprint, footprint


@dataclass(eq=False, slots=True)
class ReferenceBlock:
    """One tile's block, or one item of a persistent block; times in ns, -1 until they are known."""

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
    is_held_up: bool = False  # by a semaphore that is not ready
    done: int = 0  # work it has had, or is having
    since: int = 0  # of that, since the wait before
    arrival: int = 0  # when it reaches the wait that holds it up
    ahead: int = 0  # less than none: work it has had beyond `done` on a shared SM, in ns / RATE_UNIT


class ReferenceBlocks(ABC):
    """The state of a run as far as blocks go, and what they do from issue to exit."""

    def __init__(self, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel) -> None:
        self.costs = costs
        self.program = launched(pipeline, plan, device, costs.main_loops)
        self.block_costs = [block_costs_of(costs, plan, program) for program in self.program.stages]
        self.now = self.pushes = 0
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.turns: list[tuple[int, int, Callable[[ReferenceBlock], None], ReferenceBlock]] = []
        self.room = SmRoom(device)
        self.untried = set(range(device.sm_count))  # SMs where the head of the queue may have room
        self.missing = self.program.semaphore_values  # posts until ready
        self.held_up: list[list[ReferenceBlock]] = [[] for _ in self.missing]
        self.ready = [0] * len(self.missing)  # when each became so
        self.computing: list[ComputingBlocks] | None = None
        if costs.is_shared:
            self.computing = [ComputingBlocks(costs, self.at) for _ in range(device.sm_count)]
        self._build_stages(device)

    def _build_stages(self, device: Device) -> None:
        self.stages: list[list[ReferenceBlock]] = []
        self.launch: list[int] = []  # of each stage
        for program, costs in zip(self.program.stages, self.block_costs, strict=True):
            launch = self.program.launch_of(program.index)
            self.launch.append(self.program.launches.index(launch))
            kind, work = footprint(device, launch.kernel), costs.work_ns
            self.stages.append(
                [
                    ReferenceBlock(program.index, i, tile, kind, work[i])
                    for i, tile in enumerate(program.blocks)
                ]
            )
        self.items = [[b for s in launch.stages for b in self.stages[s]] for launch in self.program.launches]
        self.drawn = [launch.blocks for launch in self.program.launches]
        self.parts = [program.contributors for program in self.program.stages]
        self.came = [[0] * len(parts) for parts in self.parts]
        self.stored = [[0] * len(parts) for parts in self.parts]  # when the sums of those that came are there
        self.left = [len(blocks) for blocks in self.stages]
        self.has_started = [False] * len(self.stages)
        self.has_ended = [False] * len(self.stages)
        self.staying: list[list[ReferenceBlock]] = [[] for _ in self.stages]  # until the grid ahead has ended

    def at(self, time: int, act: Callable[[Any], None], subject: Any) -> None:
        """Has `act(subject)` called at a time."""
        self.pushes += 1
        heappush(self.heap, (time, self.pushes, act, subject))

    def take_turns(self) -> None:
        """What blocks of this instant do one after the other, by SM and slot."""
        turns, self.turns = self.turns, []
        for _, _, act, block in sorted(turns, key=lambda turn: turn[:2]):
            act(block)

    @abstractmethod
    def started(self, stage: int) -> None:
        """The first block of a stage executes its first instruction."""

    @abstractmethod
    def stage_ended(self, stage: int) -> None:
        """The last block of a stage has ended."""

    def begin(self, block: ReferenceBlock, delay_ns: int) -> None:
        """A block that has its SM and slot, from now on; its first instruction is `delay_ns` away."""
        block.issue, block.start = self.now, self.now + delay_ns
        block.waits = self.program.stages[block.stage].waits(block.position)
        if not self.has_started[block.stage]:
            self.at(block.start, self.started, block.stage)
        time = block.start + self.block_costs[block.stage].opening_ns
        if self.computing is None:
            self._walk(block, time)
        else:
            self.at(time, self._compute, block)

    # --- a block that has its SM's speed to itself: its way is known until the next unready semaphore ---

    def _walk(self, block: ReferenceBlock, time: int) -> None:
        """Takes the block from `time` as far as posts until now allow."""
        costs, waits = self.block_costs[block.stage], block.waits
        while block.passed < len(waits):
            wait = waits[block.passed]
            due = costs.due_ns(block.work, wait)
            if not block.is_held_up:
                block.since, block.done = due - block.done, due
                block.arrival = time + block.since
            if self.missing[wait.semaphore]:
                block.is_held_up = True
                self.held_up[wait.semaphore].append(block)
                return
            ready = self.ready[wait.semaphore]
            polling, refilling = costs.waiting.passing(block.arrival, ready, block.work, block.since)
            time = max(block.arrival, ready) + polling + refilling
            block.wait += time - refilling - block.arrival
            block.is_held_up = False
            block.passed += 1
        end = time + block.work - block.done + costs.waiting.test_ns + costs.closing_ns
        self.at(end, self._finish, block)

    # --- a block that shares its SM: step by step ---

    def _compute(self, block: ReferenceBlock) -> None:
        """Up to the next wait, or to the end of its work."""
        assert self.computing is not None
        due = block.work
        if block.passed < len(block.waits):
            wait = block.waits[block.passed]
            due = self.block_costs[block.stage].due_ns(block.work, wait)
        block.since, block.done = due - block.done, due
        if block.since:
            self.computing[block.sm].join(self.now, block.since, self._computed, block, _age(block))
        else:
            self._computed(block)

    def _computed(self, block: ReferenceBlock) -> None:
        if block.passed == len(block.waits):
            block.ahead = 0
            self._stall(block, self.block_costs[block.stage].waiting.test_ns, self._close)
            return
        block.arrival = self.now
        semaphore = block.waits[block.passed].semaphore
        if self.missing[semaphore]:
            assert self.computing is not None
            self.computing[block.sm].spin(self.now, 1)
            self.held_up[semaphore].append(block)
        else:
            self._pass_wait(block)

    def _pass_wait(self, block: ReferenceBlock) -> None:
        """The semaphore is ready: the block polls once more, and then has its pipeline to fill."""
        ready, costs = self.ready[block.waits[block.passed].semaphore], self.block_costs[block.stage]
        polling, refilling = costs.waiting.passing(block.arrival, ready, block.work, block.since)
        if self.now + polling + refilling > block.arrival:
            block.ahead = 0
        block.passed += 1
        block.wait += self.now - block.arrival + polling
        self._stall(block, polling + refilling, self._compute)

    def _stall(self, block: ReferenceBlock, latency: int, then: Callable[[ReferenceBlock], None]) -> None:
        assert self.computing is not None
        if latency and self.block_costs[block.stage].leaves_share:
            self.at(self.now + latency, then, block)
        elif latency:
            self.computing[block.sm].join(self.now, latency, then, block, _age(block), is_stalled=True)
        else:
            then(block)

    def _close(self, block: ReferenceBlock) -> None:
        self.at(self.now + self.block_costs[block.stage].closing_ns, self._finish, block)

    # --- the end of a block ---

    def _finish(self, block: ReferenceBlock) -> None:
        """A block whose tile is made by others too takes a ticket: the last one adds up."""
        if self.parts[block.stage][self._output(block)] > 1:
            self.turns.append((block.sm, block.slot, self._take_ticket, block))
        else:
            self._exit_last(block)

    def _output(self, block: ReferenceBlock) -> int:
        return self.program.stages[block.stage].output(block.position)

    def _take_ticket(self, block: ReferenceBlock) -> None:
        stage, output, costs = block.stage, self._output(block), self.block_costs[block.stage]
        self.came[stage][output] += 1
        end, act = self.now + costs.partial_ns, self._exit_early
        if self.came[stage][output] == self.parts[stage][output]:
            others = self.parts[stage][output] - 1
            end = max(self.now, self.stored[stage][output]) + costs.fixup_ns * others
            act = self._exit_last
        else:
            self.stored[stage][output] = end
        if end > self.now:
            self.at(end, act, block)
        else:
            act(block)

    def _exit_early(self, block: ReferenceBlock) -> None:
        self._exit(block, is_last=False)

    def _exit_last(self, block: ReferenceBlock) -> None:
        self._exit(block, is_last=True)

    def _exit(self, block: ReferenceBlock, *, is_last: bool) -> None:
        block.end = self.now
        stage, program = block.stage, self.program.stages[block.stage]
        if is_last:
            for semaphore in program.posts[program.output(block.position)]:
                self.at(self.now + self.block_costs[stage].post_visibility_ns, self._post, semaphore)
        self.left[stage] -= 1
        if not self.left[stage]:
            self._end_grid(stage)
        following = program.following(block.position)
        if self.program.launches[self.launch[stage]].fetches_next:
            self.turns.append((block.sm, block.slot, self._draw, block))
        elif following >= 0:
            self._go_on(block, self.stages[stage][following])
        else:
            self._leave(block)

    def _end_grid(self, stage: int) -> None:
        """Its blocks have done their work; the grid ends if the one ahead has, and then the next may."""
        ahead = self.program.ahead_of(stage)
        if ahead is not None and not self.has_ended[ahead]:
            return
        self.has_ended[stage] = True
        self.stage_ended(stage)
        staying, self.staying[stage] = self.staying[stage], []
        for block in staying:
            self.leave(block)
        following = stage + 1
        is_next = following < len(self.stages) and self.program.ahead_of(following) == stage
        if is_next and not self.left[following] and not self.has_ended[following]:
            self._end_grid(following)

    def _leave(self, block: ReferenceBlock) -> None:
        program = self.program.stages[block.stage]
        ahead = self.program.ahead_of(block.stage)
        if ahead is None or self.has_ended[ahead] or program.stage.name not in self.costs.stays:
            self.leave(block)
        else:
            self.staying[ahead].append(block)

    def _draw(self, block: ReferenceBlock) -> None:
        """A persistent block takes the next item that nobody has, or leaves."""
        launch = self.launch[block.stage]
        item = self.drawn[launch]
        self.drawn[launch] += 1
        if item < len(self.items[launch]):
            self._go_on(block, self.items[launch][item])
        else:
            self._leave(block)

    def _go_on(self, block: ReferenceBlock, following: ReferenceBlock) -> None:
        following.sm, following.slot = block.sm, block.slot
        self.begin(following, 0)

    def leave(self, block: ReferenceBlock) -> None:
        """Frees the block's slot."""
        self.room.leave(block)
        self.untried.add(block.sm)

    def _post(self, semaphore: int) -> None:
        self.missing[semaphore] -= 1
        if self.missing[semaphore]:
            return
        self.ready[semaphore] = self.now
        blocks, self.held_up[semaphore] = self.held_up[semaphore], []
        for block in blocks:
            if self.computing is None:
                self._walk(block, block.arrival)
            else:
                self.computing[block.sm].spin(self.now, -1)
                self._pass_wait(block)


def _age(block: ReferenceBlock) -> tuple[int, int, int]:
    """Older blocks run ahead of younger ones."""
    return block.issue, block.stage, block.position
