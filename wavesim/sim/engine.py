"""The engine: thread blocks as SimPy processes that compute, wait on semaphores and post.

Picture: a block is issued, draws its tile, spins until the semaphore of its first producer tile
is ready, computes up to the next wait, and so on; at its end it posts its own tile's semaphores
and frees its slot. It holds the slot all the while, spinning or not.
Source: the paper's section III; scheduling rules as observed on an NVIDIA H200.
"""

from collections import Counter
from functools import partial

from simpy import Environment, Event

from wavesim.errors import DeadlockError, Waiter
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync
from wavesim.sim.cost import CostModel
from wavesim.sim.dispatcher import Dispatcher, Launch
from wavesim.sim.placement import footprint
from wavesim.sim.program import StageProgram, build_program
from wavesim.sim.sharing import SharedSm
from wavesim.sim.state import Rows, Semaphore, StageState
from wavesim.sim.task import Life


class Engine:
    """One run of a pipeline under a plan on a device: built, run once, read."""

    def __init__(self, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel) -> None:
        self.program = build_program(pipeline, plan)
        self.footprints = [footprint(device, stage.kernel) for stage in pipeline.stages]
        self.rows = Rows.of(sum(stage.grid.size for stage in pipeline.stages))
        self._plan = plan
        self._costs = costs
        self._work = [costs.tile_times(stage) for stage in pipeline.stages]
        self._prologue_ns = [_prologue_ns(costs, plan, program) for program in self.program.stages]
        self._post_ns = [costs.post_ns if program.has_posts else 0 for program in self.program.stages]
        self._env = Environment()
        self._dispatcher = Dispatcher(self._env, device)
        self._wait_kernel_footprint = footprint(device, WAIT_KERNEL)
        is_shared = len(set(costs.rates)) > 1
        self._shared = (
            [SharedSm(self._env, costs.rates) for _ in range(device.sm_count)] if is_shared else None
        )
        self._semaphores = [Semaphore(self._env, value) for value in self.program.semaphore_values]
        self._spinning: dict[int, tuple[StageProgram, int, int]] = {}  # row -> stage, position, semaphore
        self._wait_kernels: dict[int, Waiter] = {}  # those that spin, by the stage they stand before
        self._stages: list[StageState] = []
        for stage in pipeline.stages:
            row = sum(state.blocks_left for state in self._stages)
            slices = [stage.grid.z] * stage.grid.tiles
            self._stages.append(StageState(row, stage.grid.size, slices, Event(self._env), Event(self._env)))

    def run(self) -> None:
        """Simulates until nothing is left to happen. Raises `DeadlockError` if blocks have not run."""
        plan, launch_ns = self._plan, self._costs.launch_ns
        head_start = plan.head_start if isinstance(plan, SemaphoreSync) else 0
        if head_start:
            self._give_head_start(head_start)
        at_ns = 0
        previous: Event | None = None
        for program in self.program.stages:
            if isinstance(plan, SemaphoreSync):
                previous = None
                if plan.wait_kernel and program.arrays:
                    previous = Event(self._env)
                    self._env.process(self._launch_wait_kernel(program, at_ns, previous))
                    at_ns += launch_ns
            self._env.process(self._launch_stage(program, at_ns, previous, head_start))
            previous, at_ns = self._stages[program.index].done, at_ns + launch_ns
        self._env.run()
        if any(state.blocks_left for state in self._stages):
            raise self._deadlock()

    # --- streams: when a kernel reaches the dispatcher ---

    def _launch_stage(
        self, program: StageProgram, at_ns: int, previous: Event | None, head_start: int
    ) -> Life:
        """Enqueues the stage once it is launched and the kernel before it in its stream is done."""
        if at_ns:
            yield self._env.timeout(at_ns)
        if previous is not None:
            yield previous
            end = int(self._env.now)
            if self._costs.boundary_ns:
                yield self._env.timeout(self._costs.boundary_ns)
            self.rows.events.append(("kernel boundary", program.stage.name, end, int(self._env.now)))
        size = program.stage.grid.size
        first = min(head_start, size) if program.arrays else 0
        self._stages[program.index].is_launched = True
        if first < size:
            self._enqueue(program, first, size, rank=2 * program.index + 1)

    def _enqueue(self, program: StageProgram, first: int, upto: int, rank: int) -> None:
        life = partial(self._alone if self._shared is None else self._together, program)
        block = self.footprints[program.index]
        self._dispatcher.enqueue(Launch(program.stage.name, rank, block, life, first, upto))

    def _give_head_start(self, blocks: int) -> None:
        """Puts the first blocks of every consumer before any producer: a race between streams, lost."""
        count = len(self.program.stages)
        for program in self.program.stages:
            if program.arrays:
                self._enqueue(program, 0, min(blocks, program.stage.grid.size), rank=program.index - count)

    def _launch_wait_kernel(self, program: StageProgram, at_ns: int, done: Event) -> Life:
        """One block that spins until every producer has started, ahead of the consumer in its stream."""
        if at_ns:
            yield self._env.timeout(at_ns)
        name = f"wait-kernel of {program.stage.name}"
        life = partial(self._wait_kernel, name, program, done)
        self._dispatcher.enqueue(Launch(name, 2 * program.index, self._wait_kernel_footprint, life, 0, 1))

    def _wait_kernel(
        self, name: str, program: StageProgram, done: Event, _position: int, sm: int, slot: int
    ) -> Life:
        begin = int(self._env.now)
        for producer in self.program.stages:
            started = self._stages[producer.index].started
            if producer.stage.name in program.arrays and not started.triggered:
                fact = f"start of {producer.stage.name}"
                self._wait_kernels[program.index] = Waiter(name, (0, 0, 0), sm, slot, fact, seen=0, awaited=1)
                yield started
                del self._wait_kernels[program.index]
        yield self._env.timeout(self._costs.signal_ns + self._costs.wait_ns)
        self.rows.events.append(("wait-kernel", program.stage.name, begin, int(self._env.now)))
        self._dispatcher.release(sm, slot, self._wait_kernel_footprint)
        done.succeed()

    # --- a block's life ---

    def _issue(self, program: StageProgram, position: int, sm: int, slot: int) -> int:
        """Notes where and when a block is issued and starts. Returns its row."""
        rows, now = self.rows, int(self._env.now)
        row = self._stages[program.index].first_row + position
        rows.sm[row], rows.slot[row], rows.issue[row] = sm, slot, now
        rows.start[row] = now + self._costs.block_ns
        return row

    def _alone(self, program: StageProgram, position: int, sm: int, slot: int) -> Life:
        """A block at full speed. It looks at each wait ahead of time: a post that comes first is no event."""
        env, costs, rows = self._env, self._costs, self.rows
        row = self._issue(program, position, sm, slot)
        # When the block gets to where the loop is; never before now.
        clock = rows.start[row] + self._prologue_ns[program.index]
        if not self._stages[program.index].started.triggered:
            yield from self._first_instruction(program)
        work = self._work_of(program, position)
        done = waited = 0
        for wait in program.waits(position):
            due = work * wait.done // wait.of
            clock, done = clock + due - done, due
            semaphore = self._semaphores[wait.semaphore]
            if not semaphore.is_ready:
                self._spinning[row] = (program, position, wait.semaphore)
                yield semaphore.ready
                spun = self._stop_spinning(row, clock)
                clock, waited = clock + spun, waited + spun
            clock += costs.wait_ns
            waited += costs.wait_ns
        rows.wait[row] = waited
        yield env.timeout(clock + work - done + self._post_ns[program.index] - int(env.now))
        self._exit(program, position, row)

    def _together(self, program: StageProgram, position: int, sm: int, slot: int) -> Life:
        """A block at the speed that the SM's other computing blocks leave; spinning takes no share."""
        assert self._shared is not None
        env, costs, rows, shared = self._env, self._costs, self.rows, self._shared[sm]
        row = self._issue(program, position, sm, slot)
        age = (rows.issue[row], row)
        if costs.block_ns:
            yield env.timeout(costs.block_ns)
        if not self._stages[program.index].started.triggered:
            self._stages[program.index].started.succeed()
        yield env.timeout(self._prologue_ns[program.index])
        work = self._work_of(program, position)
        done = waited = 0
        for wait in program.waits(position):
            due = work * wait.done // wait.of
            if due > done:
                yield shared.compute(due - done, age)
                done = due
            semaphore = self._semaphores[wait.semaphore]
            if not semaphore.is_ready:
                begin = int(env.now)
                self._spinning[row] = (program, position, wait.semaphore)
                yield semaphore.ready
                waited += self._stop_spinning(row, begin)
            if costs.wait_ns:
                yield env.timeout(costs.wait_ns)
                waited += costs.wait_ns
        rows.wait[row] = waited
        if work > done:
            yield shared.compute(work - done, age)
        yield env.timeout(self._post_ns[program.index])
        self._exit(program, position, row)

    def _first_instruction(self, program: StageProgram) -> Life:
        """Tells wait-kernels that the stage has started, as soon as its first block has."""
        if self._costs.block_ns:
            yield self._env.timeout(self._costs.block_ns)
        started = self._stages[program.index].started
        if not started.triggered:
            started.succeed()

    def _work_of(self, program: StageProgram, position: int) -> int:
        work = self._work[program.index]
        if isinstance(work, int):
            return work
        x, y, z = program.blocks[position]
        grid = program.stage.grid
        return work[(z * grid.y + y) * grid.x + x]

    def _stop_spinning(self, row: int, begin: int) -> int:
        """The time since `begin`, when the block reached its wait; 0 if the post came first."""
        _, _, semaphore = self._spinning.pop(row)
        now = int(self._env.now)
        if now <= begin:
            return 0
        self.rows.waits.append((row, semaphore, begin, now))
        return now - begin

    def _exit(self, program: StageProgram, position: int, row: int) -> None:
        """Frees the slot. The last split-K slice of a tile posts it; the last block ends the stage."""
        self.rows.end[row] = int(self._env.now)
        self._dispatcher.release(self.rows.sm[row], self.rows.slot[row], self.footprints[program.index])
        state = self._stages[program.index]
        x, y, _ = program.blocks[position]
        tile = y * program.stage.grid.x + x
        state.slices_left[tile] -= 1
        if not state.slices_left[tile]:
            for semaphore in program.posts[tile]:
                self._semaphores[semaphore].post(self._costs.signal_ns)
        state.blocks_left -= 1
        if not state.blocks_left:
            state.done.succeed()

    # --- when nothing can happen any more ---

    def _deadlock(self) -> DeadlockError:
        blocks = (self._waiter(row, *self._spinning[row]) for row in sorted(self._spinning))
        waiters = (*blocks, *self._wait_kernels.values())
        slots = ", ".join(f"SM {w.sm} slot {w.slot}" for w in waiters[:8]) + (
            ", ..." if len(waiters) > 8 else ""
        )
        queued = Counter[str]()
        for launch in self._dispatcher.queue:
            queued[launch.name] += launch.upto - launch.next
        starved = [
            f"{name}: {count} of its blocks, because waiting blocks hold {slots}"
            for name, count in queued.items()
        ]
        for program, state in zip(self.program.stages, self._stages, strict=True):
            if not state.is_launched:
                name = program.stage.name
                starved.append(
                    f"{name}: all {state.blocks_left} blocks, because its wait-kernel has not ended"
                )
        return DeadlockError(waiters, tuple(starved))

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


def _prologue_ns(costs: CostModel, plan: Plan, program: StageProgram) -> int:
    """What a block does under semaphores before its work: draw its tile, and look if it waits for any."""
    if not isinstance(plan, SemaphoreSync):
        return 0
    return costs.counter_ns + (costs.look_ns if program.arrays else 0)
