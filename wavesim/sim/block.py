"""A thread block's life: it waits for tiles, computes, posts its own, and takes the next tile or exits.

Think of a cook at one of a kitchen's places: he keeps the place while he waits for what another cooks, his
dish is called out when it is done, and he leaves, or takes the next order. So a block is issued to a slot of
an SM, spins until the semaphore of its first producer tile is ready, computes up to the next wait, posts its
tile's semaphores and frees the slot, which it has held all the while. A persistent block stays for more
tiles.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count

from simpy import Environment, Event

from wavesim.costs.cost_model import CostModel
from wavesim.errors import Waiter
from wavesim.sim.dispatcher import Dispatcher
from wavesim.sim.events import NORMAL, Process, SameInstant, Task, Timer
from wavesim.sim.launches import GridLaunch, LaunchedProgram
from wavesim.sim.shared_sm import SharedSm
from wavesim.sim.state import Rows, Semaphore, StageState


class SimulatedBlocks:
    """All blocks of a run and what they share.

    Items of a launch are numbered through its stages, in issue order. `shared`: the SMs, where blocks slow
    each other down; None where every block computes at full speed.
    """

    def __init__(
        self,
        env: Environment,
        program: LaunchedProgram,
        dispatcher: Dispatcher,
        costs: CostModel,
        stages: list[StageState],
        shared: list[SharedSm] | None,
    ) -> None:
        self.env, self.program, self.stages, self.shared = env, program, stages, shared
        self.rows = Rows.of(sum(len(stage.blocks) for stage in program.stages))
        self.semaphores = [Semaphore(env, value) for value in program.semaphore_values]
        self.spinning: dict[int, tuple[SimulatedBlock, int]] = {}  # row -> block, semaphore
        self.same_instant = SameInstant(env)
        self.release = dispatcher.release
        self._block_ns = costs.block_ns
        self._counters = {launch.stages: count(launch.blocks) for launch in program.launches}

    def first(self, launch: GridLaunch, position: int, sm: int, slot: int) -> Process:
        """The life of a launch's block from its issue; its number is that of its first item."""
        block = (SimulatedBlock if self.shared is None else SharingBlock)(self, sm, slot)
        return block.compute_item(*self._item(launch, position), self._block_ns)

    def next_item(self, launch: GridLaunch) -> tuple[StageState, int] | None:
        """The next item from the launch's tile counter; None when there is none."""
        item = next(self._counters[launch.stages])
        items = sum(len(self.program.stages[stage].blocks) for stage in launch.stages)
        return self._item(launch, item) if item < items else None

    def _item(self, launch: GridLaunch, item: int) -> tuple[StageState, int]:
        """The stage of an item and its row in the trace."""
        for number in launch.stages:
            state = self.stages[number]
            size = len(state.program.blocks)
            if item < size:
                return state, state.first_row + item
            item -= size
        raise AssertionError("an item beyond the launch's last")

    def waiters(self) -> Iterator[Waiter]:
        """The blocks that spin, by their rows."""
        for _, (block, number) in sorted(self.spinning.items(), key=lambda entry: entry[0]):
            program, semaphore = block.state.program, self.semaphores[number]
            yield Waiter(
                stage=program.stage.name,
                tile=program.blocks[block.position],
                sm=block.sm,
                slot=block.slot,
                semaphore=self.program.semaphore_name(number),
                seen=semaphore.seen,
                awaited=semaphore.awaited,
            )

    def end_grid(self, state: StageState) -> None:
        """Its blocks are done; a grid that was launched early ends once the one ahead of it has."""
        ahead = self.program.ahead_of(state.program.index)
        state.done.succeed()
        if ahead is not None:
            self.once_ended(ahead, state.ended.succeed)

    def once_ended(self, stage: int, act: Callable[[], object]) -> None:
        """Calls `act` when the stage's grid has ended, or now if it has."""
        ended = self.stages[stage].ended
        if ended.triggered:
            act()
        else:
            ended.callbacks.append(partial(_without_event, act))


def _without_event(act: Callable[[], object], _: Event) -> None:
    act()


class SimulatedBlock:
    """A thread block in its slot, at full speed, with the item that it computes now.

    `clock` is when it gets to where it is. It runs ahead of the simulated time: a block looks at each wait
    before it is there, so that a post that comes first is no event.
    """

    __slots__ = ("ahead", "clock", "output", "position", "row", "run", "slot", "sm", "state")

    def __init__(self, run: SimulatedBlocks, sm: int, slot: int) -> None:
        self.run, self.sm, self.slot = run, sm, slot

    def compute_item(self, state: StageState, row: int, delay_ns: int = 0) -> Process:
        """One item, from now on; its first instruction is `delay_ns` away."""
        run, program, costs = self.run, state.program, state.costs
        rows, now, semaphores = run.rows, int(run.env.now), run.semaphores
        self.position = position = row - state.first_row
        self.state, self.row, self.clock = state, row, now + delay_ns
        rows.sm[row], rows.slot[row], rows.issue[row], rows.start[row] = self.sm, self.slot, now, self.clock
        yield from self._open()
        work, waiting = costs.work_ns[position], costs.waiting
        is_free = waiting.is_free
        done = waited = 0
        for wait in program.waits(position):
            semaphore = semaphores[wait.semaphore]
            if semaphore.is_ready and is_free:
                continue  # most waits: when the block gets there makes no difference
            due = costs.due_ns(work, wait)
            since, done = due - done, due
            if since:
                yield from self._compute(since)
            reached = self.clock
            if not semaphore.is_ready:
                yield from self._spin(semaphore, wait.semaphore)
                waited += self.clock - reached
            polling, refilling = waiting.passing(reached, semaphore.ready_ns, work, since)
            if polling or refilling:
                yield from self._stall(polling + refilling)
                waited += polling
            if self.clock > reached:
                self.ahead = 0
        rows.wait[row] = waited
        self.output = program.output(position)
        yield from self._close(work - done)

    # --- how its time passes; a sharing block does these otherwise ---

    def _open(self) -> Iterable[Event]:
        first = () if self.state.started.triggered else self._first_instruction()
        self.clock += self.state.costs.opening_ns
        return first

    def _first_instruction(self) -> Process:
        """Tells wait-kernels that the stage has started, as soon as its first block has."""
        delay_ns = self.run.rows.start[self.row] - int(self.run.env.now)
        if delay_ns:
            yield self.run.env.timeout(delay_ns)
        started = self.state.started
        if not started.triggered:
            started.succeed()

    def _compute(self, work_ns: int) -> Iterable[Event]:
        self.clock += work_ns
        return ()

    _stall = _compute  # a latency, while nobody shares the SM

    def _spin(self, semaphore: Semaphore, number: int) -> Process:
        """Until the semaphore is ready; no wait of the trace if the post came before the block."""
        self.run.spinning[self.row] = (self, number)
        yield semaphore.ready
        del self.run.spinning[self.row]
        now = int(self.run.env.now)
        if now > self.clock:
            self.run.rows.waits.append((self.row, number, self.clock, now))
            self.clock = now

    def _close(self, work_ns: int) -> Iterable[Event]:
        costs, env = self.state.costs, self.run.env
        left_ns = self.clock + work_ns + costs.waiting.test_ns + costs.closing_ns - int(env.now)
        Timer(env, self._end, NORMAL, left_ns)
        return ()

    # --- the end of an item ---

    def _end(self, _: Event | None = None) -> None:
        """Its work is done. Of a tile in parts, those that end at one instant go one after the other."""
        if self.state.parts[self.output] > 1:
            self.run.same_instant.queue(self.sm, self.slot, self._take_ticket)
        else:
            self._exit(is_last=True)

    def _take_ticket(self) -> None:
        """All but the last store their sums; the last waits until they have, and adds them to its own."""
        state, output, costs = self.state, self.output, self.state.costs
        now = int(self.run.env.now)
        state.parts_left[output] -= 1
        is_last = not state.parts_left[output]
        if is_last:
            others_ns = costs.fixup_ns * (state.parts[output] - 1)
            delay_ns = max(0, state.stored_ns[output] - now) + others_ns
        else:
            delay_ns = costs.partial_ns
            state.stored_ns[output] = now + delay_ns
        if delay_ns:
            Task(self._exit_later(delay_ns, is_last=is_last))
        else:
            self._exit(is_last=is_last)

    def _exit_later(self, delay_ns: int, *, is_last: bool) -> Process:
        yield self.run.env.timeout(delay_ns)
        self._exit(is_last=is_last)

    def _exit(self, *, is_last: bool) -> None:
        """The last contributor posts the output; the last block ends the stage; the slot is freed or used."""
        run, state = self.run, self.state
        program = state.program
        run.rows.end[self.row] = int(run.env.now)
        if is_last:
            for semaphore in program.posts[self.output]:
                run.semaphores[semaphore].post(state.costs.post_visibility_ns)
        state.blocks_left -= 1
        if not state.blocks_left:
            run.end_grid(state)
        if state.launch.fetches_next:
            run.same_instant.queue(self.sm, self.slot, self._fetch)
        elif (following := program.following(self.position)) >= 0:
            Task(self.compute_item(state, state.first_row + following))
        else:
            self._leave(state)

    def _fetch(self) -> None:
        """The next item from the tile counter; the block leaves when there is none."""
        launch = self.state.launch
        item = self.run.next_item(launch)
        if item is None:
            self._leave(self.run.stages[launch.stages[0]])
        else:
            Task(self.compute_item(*item))

    def _leave(self, state: StageState) -> None:
        """Frees the slot, where its kernel stays not before the grid ahead has ended."""
        release, footprint = self.run.release, state.footprint
        if state.stays_for is None:
            release(self.sm, self.slot, footprint)
        else:
            self.run.once_ended(state.stays_for, partial(release, self.sm, self.slot, footprint))


class SharingBlock(SimulatedBlock):
    """A block at the speed that the SM's other blocks leave; its clock is the simulated time.

    `ahead`: by how much more than it asked for it has computed, so that stops on the way cost nothing. It
    does not stop at waits that are over where they cost nothing: what is ready now stays so.
    """

    __slots__ = ()

    @property
    def _shared(self) -> SharedSm:
        assert self.run.shared is not None
        return self.run.shared[self.sm]

    @property
    def _age(self) -> tuple[int, int]:
        return self.run.rows.issue[self.row], self.row

    def _open(self) -> Process:
        yield from self._first_instruction()
        yield self.run.env.timeout(self.state.costs.opening_ns)
        self.clock, self.ahead = int(self.run.env.now), 0

    def _compute(self, work_ns: int) -> Process:
        computed = self._shared.compute(work_ns, self._age, self.ahead)
        yield computed
        self.ahead = computed.value or 0
        self.clock = int(self.run.env.now)

    def _stall(self, latency_ns: int) -> Process:
        """A latency within its work; others can make use of it only where a bandwidth is shared."""
        timeout, shared = self.run.env.timeout, self._shared
        yield timeout(latency_ns) if self.state.costs.leaves_share else shared.stall(latency_ns, self._age)
        self.clock = int(self.run.env.now)

    def _spin(self, semaphore: Semaphore, number: int) -> Process:
        self._shared.spin()
        yield from super()._spin(semaphore, number)
        self._shared.stop_spinning()

    def _close(self, work_ns: int) -> Process:
        if work_ns > 0:
            yield from self._compute(work_ns)
        costs = self.state.costs
        if costs.waiting.test_ns:
            yield from self._stall(costs.waiting.test_ns)
        if costs.closing_ns:
            yield self.run.env.timeout(costs.closing_ns)
        self._end()
