"""The engine: thread blocks as SimPy processes that compute, wait on semaphores and post.

Picture: a block is issued, draws its tile, spins until the semaphore of its first producer tile
is ready, computes up to the next wait, and so on; at its end it posts its own tile's semaphores
and frees its slot. It holds the slot all the while, spinning or not.
Source: the paper's section III; scheduling rules as observed on an NVIDIA H200.
"""

from dataclasses import dataclass

from simpy import Environment, Event

from wavesim.errors import DeadlockError, Waiter
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync
from wavesim.sim.cost import CostModel
from wavesim.sim.dispatcher import Dispatcher, Launch, Process
from wavesim.sim.placement import footprint
from wavesim.sim.program import StageProgram, build_program
from wavesim.sim.sharing import SharedSm

WAIT_KERNEL = Kernel("wait-kernel", Grid(1), Block(threads=32, registers=24))


class Semaphore:
    """A counter in global memory; `ready` fires when it reaches the awaited value."""

    __slots__ = ("awaited", "ready", "seen")

    def __init__(self, env: Environment, awaited: int) -> None:
        self.awaited = awaited
        self.seen = 0
        self.ready = Event(env)

    def post(self) -> None:
        """Adds one."""
        self.seen += 1
        if self.seen == self.awaited:
            self.ready.succeed()


@dataclass
class Rows:
    """The trace while it fills: one entry per block, stages one after another, each in issue order."""

    sm: list[int]
    slot: list[int]
    issue: list[int]
    start: list[int]
    wait: list[int]
    end: list[int]
    waits: list[tuple[int, int, int, int]]  # row, semaphore, start, end
    events: list[tuple[str, str, int, int]]  # name, stage, start, end

    @classmethod
    def of(cls, count: int) -> "Rows":
        """Empty columns for so many blocks."""
        sm, slot, issue, start, wait, end = ([0] * count for _ in range(6))
        return cls(sm, slot, issue, start, wait, end, [], [])


@dataclass
class StageState:
    """What changes about a stage while it runs."""

    first_row: int
    blocks_left: int
    slices_left: list[int]
    started: Event
    done: Event


class Engine:
    """One run of a pipeline under a plan on a device: built, run once, read."""

    def __init__(self, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel) -> None:
        self.program = build_program(pipeline, plan)
        self.footprints = [footprint(device, stage.kernel) for stage in pipeline.stages]
        self.rows = Rows.of(sum(stage.grid.size for stage in pipeline.stages))
        self._plan = plan
        self._costs = costs
        self._work = [costs.tile_times(stage) for stage in pipeline.stages]
        self._env = Environment()
        self._dispatcher = Dispatcher(self._env, device)
        self._wait_kernel_footprint = footprint(device, WAIT_KERNEL)
        is_shared = any(rate != costs.rates[0] for rate in costs.rates)
        self._shared = (
            [SharedSm(self._env, costs.rates) for _ in range(device.sm_count)] if is_shared else None
        )
        self._semaphores = [Semaphore(self._env, value) for value in self.program.semaphore_values]
        self._spinning: dict[int, tuple[StageProgram, int, int]] = {}  # row -> stage, position, semaphore
        self._stages: list[StageState] = []
        for stage in pipeline.stages:
            row = sum(state.blocks_left for state in self._stages)
            slices = [stage.grid.z] * stage.grid.tiles
            self._stages.append(StageState(row, stage.grid.size, slices, Event(self._env), Event(self._env)))

    def run(self) -> None:
        """Simulates until nothing is left to happen. Raises `DeadlockError` if blocks have not run."""
        head_start = self._plan.head_start if isinstance(self._plan, SemaphoreSync) else 0
        if head_start:
            self._give_head_start(head_start)
        at_ns = 0
        previous: Event | None = None
        for program in self.program.stages:
            is_waiting = (
                isinstance(self._plan, SemaphoreSync) and self._plan.wait_kernel and bool(program.arrays)
            )
            if isinstance(self._plan, SemaphoreSync):
                previous = None
            if is_waiting:
                waited = Event(self._env)
                self._env.process(self._launch_wait_kernel(program, at_ns, waited))
                previous, at_ns = waited, at_ns + self._costs.launch_ns
            self._env.process(self._launch_stage(program, at_ns, previous, head_start))
            previous, at_ns = self._stages[program.index].done, at_ns + self._costs.launch_ns
        self._env.run()
        if any(state.blocks_left for state in self._stages):
            raise self._deadlock()

    # --- streams: when a kernel reaches the dispatcher ---

    def _launch_stage(
        self, program: StageProgram, at_ns: int, previous: Event | None, head_start: int
    ) -> Process:
        """Enqueues the stage once it is launched and the kernel before it in its stream is done."""
        yield from self._turn(program, at_ns, previous)
        first = min(head_start, program.stage.grid.size) if program.arrays else 0
        if first < program.stage.grid.size:
            self._enqueue(program, first, program.stage.grid.size)

    def _turn(self, program: StageProgram, at_ns: int, previous: Event | None) -> Process:
        if at_ns:
            yield self._env.timeout(at_ns)
        if previous is not None:
            yield previous
            end = int(self._env.now)
            if self._costs.boundary_ns:
                yield self._env.timeout(self._costs.boundary_ns)
            self.rows.events.append(("kernel boundary", program.stage.name, end, int(self._env.now)))

    def _enqueue(self, program: StageProgram, first: int, upto: int) -> None:
        def start(position: int, sm: int, slot: int) -> Process:
            return self._block(program, position, sm, slot)

        block = self.footprints[program.index]
        self._dispatcher.enqueue(Launch(program.stage.name, block, start, first, upto))

    def _give_head_start(self, blocks: int) -> None:
        """Puts the first blocks of every consumer before any producer: a race between streams, lost."""
        for program in self.program.stages:
            if program.arrays:
                self._enqueue(program, 0, min(blocks, program.stage.grid.size))

    def _launch_wait_kernel(self, program: StageProgram, at_ns: int, done: Event) -> Process:
        """One block that spins until every producer has started, ahead of the consumer in its stream."""
        if at_ns:
            yield self._env.timeout(at_ns)
        index = {stage.stage.name: stage.index for stage in self.program.stages}
        started = [self._stages[index[name]].started for name in program.arrays]

        def start(position: int, sm: int, slot: int) -> Process:
            begin = int(self._env.now)
            for event in started:
                if not event.triggered:
                    yield event
            if self._costs.wait_ns:
                yield self._env.timeout(self._costs.wait_ns)
            self.rows.events.append(("wait-kernel", program.stage.name, begin, int(self._env.now)))
            self._dispatcher.release(sm, slot, self._wait_kernel_footprint)
            done.succeed()

        name = f"wait-kernel of {program.stage.name}"
        self._dispatcher.enqueue(Launch(name, self._wait_kernel_footprint, start, 0, 1))

    # --- a block's life ---

    def _block(self, program: StageProgram, position: int, sm: int, slot: int) -> Process:
        """Issue, start, waits and work in turn, post, exit."""
        env, costs, state, rows = self._env, self._costs, self._stages[program.index], self.rows
        x, y, z = program.blocks[position]
        row = state.first_row + position
        rows.sm[row], rows.slot[row], rows.issue[row] = sm, slot, int(env.now)
        if costs.block_ns:
            yield env.timeout(costs.block_ns)
        rows.start[row] = int(env.now)
        if not state.started.triggered:
            state.started.succeed()
        work = self._work_of(program, x, y, z)
        if self._shared is None:
            yield from self._alone(program, position, row, work)
        else:
            yield from self._together(program, position, row, work, self._shared[sm])
        rows.end[row] = int(env.now)
        self._finish(program, state, y * program.stage.grid.x + x)
        self._dispatcher.release(sm, slot, self.footprints[program.index])

    def _work_of(self, program: StageProgram, x: int, y: int, z: int) -> int:
        work = self._work[program.index]
        grid = program.stage.grid
        return work if isinstance(work, int) else work[(z * grid.y + y) * grid.x + x]

    def _alone(self, program: StageProgram, position: int, row: int, work: int) -> Process:
        """Work at full speed. Waits that are ready by now are passed without an event of their own."""
        env, semaphores, cost = self._env, self._semaphores, self._costs.wait_ns
        done = delay = waited = 0
        for wait in program.waits(*program.blocks[position]):
            due = work * wait.done // wait.of
            delay, done = delay + due - done, due
            semaphore = semaphores[wait.semaphore]
            if semaphore.seen < semaphore.awaited:
                if delay:
                    yield env.timeout(delay)
                    delay = 0
                if semaphore.seen < semaphore.awaited:
                    begin = int(env.now)
                    yield self._spin(program, position, row, wait.semaphore)
                    waited += self._stop_spinning(row, wait.semaphore, begin)
            delay += cost
            waited += cost
        delay += work - done + self._costs.post_ns
        self.rows.wait[row] = waited
        if delay:
            yield env.timeout(delay)

    def _together(self, program: StageProgram, position: int, row: int, work: int, sm: SharedSm) -> Process:
        """Work at the speed that the SM's other computing blocks leave; spinning takes no share."""
        env, semaphores, cost = self._env, self._semaphores, self._costs.wait_ns
        done = waited = 0
        for wait in program.waits(*program.blocks[position]):
            due = work * wait.done // wait.of
            if due > done:
                yield sm.compute(due - done)
                done = due
            semaphore = semaphores[wait.semaphore]
            if semaphore.seen < semaphore.awaited:
                begin = int(env.now)
                yield self._spin(program, position, row, wait.semaphore)
                waited += self._stop_spinning(row, wait.semaphore, begin)
            if cost:
                yield env.timeout(cost)
                waited += cost
        self.rows.wait[row] = waited
        if work > done:
            yield sm.compute(work - done)
        if self._costs.post_ns:
            yield env.timeout(self._costs.post_ns)

    def _spin(self, program: StageProgram, position: int, row: int, semaphore: int) -> Event:
        self._spinning[row] = (program, position, semaphore)
        return self._semaphores[semaphore].ready

    def _stop_spinning(self, row: int, semaphore: int, begin: int) -> int:
        del self._spinning[row]
        now = int(self._env.now)
        self.rows.waits.append((row, semaphore, begin, now))
        return now - begin

    def _finish(self, program: StageProgram, state: StageState, tile: int) -> None:
        """The last split-K slice of a tile posts it; the last block ends the stage."""
        state.slices_left[tile] -= 1
        if not state.slices_left[tile]:
            for semaphore in program.posts[tile]:
                self._semaphores[semaphore].post()
        state.blocks_left -= 1
        if not state.blocks_left:
            state.done.succeed()

    # --- when nothing can happen any more ---

    def _deadlock(self) -> DeadlockError:
        waiters = tuple(self._waiter(row, *self._spinning[row]) for row in sorted(self._spinning))
        slots = ", ".join(f"SM {w.sm} slot {w.slot}" for w in waiters[:8]) + (
            ", ..." if len(waiters) > 8 else ""
        )
        starved = tuple(
            f"{launch.name}: {launch.upto - launch.next} of its blocks, because waiting blocks hold {slots}"
            for launch in self._dispatcher.queue
        )
        return DeadlockError(waiters, starved)

    def _waiter(self, row: int, program: StageProgram, position: int, semaphore: int) -> Waiter:
        return Waiter(
            stage=program.stage.name,
            tile=program.blocks[position],
            sm=self.rows.sm[row],
            slot=self.rows.slot[row],
            semaphore=self.program.semaphore_name(semaphore),
            seen=self._semaphores[semaphore].seen,
            awaited=self._semaphores[semaphore].awaited,
        )
