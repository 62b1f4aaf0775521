"""The blocks of thread blocks: they compute, wait on semaphores, post, and take the next tile or leave.

Example: a block is issued, fetches its tile, spins until the semaphore of its first producer tile is ready,
computes up to the next wait, and so on; at its end it posts its own tile's semaphores and frees its slot. It
holds the slot all the while, spinning or not. A persistent block goes on with the next tile instead.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

from simpy import Environment, Event

from wavesim.plan.resolved import ResolvedStage
from wavesim.sim.block_costs import BlockCosts
from wavesim.sim.launches import GridLaunch, LaunchedProgram
from wavesim.sim.same_instant import SameInstant
from wavesim.sim.shared_sm import Age, SharedSm
from wavesim.sim.state import Rows, Semaphore, StageState
from wavesim.sim.task import Process, Task

Spinning = dict[int, tuple[ResolvedStage, int, int]]  # row -> stage, position, semaphore


class BlockProcesses:
    """What blocks do between issue and exit; `release(sm, slot, stage)` frees a slot.

    Items of a launch are numbered through its stages, in issue order.
    """

    def __init__(
        self,
        env: Environment,
        program: LaunchedProgram,
        costs: list[BlockCosts],
        shared: list[SharedSm] | None,
        block_ns: int,
        release: Callable[[int, int, int], None],
        stays: frozenset[str] = frozenset(),
    ) -> None:
        self.rows = Rows.of(sum(len(stage.blocks) for stage in program.stages))
        self.semaphores = [Semaphore(env, value) for value in program.semaphore_values]
        self.spinning: Spinning = {}
        self.stages: list[StageState] = []
        for stage in program.stages:
            row = sum(state.blocks_left for state in self.stages)
            size, parts = len(stage.blocks), stage.contributors
            stored_ns = [0] * len(parts)
            done = Event(env)
            ended = done if program.ahead_of(stage.index) is None else Event(env)
            self.stages.append(StageState(row, size, parts, parts.copy(), stored_ns, Event(env), done, ended))
        self._env, self._program, self._costs, self._shared = env, program, costs, shared
        self._block_ns, self._release = block_ns, release
        # The grid that has to end before a stage's blocks free their slots, by stage.
        self._stays_for = [
            program.ahead_of(one.index) if one.stage.name in stays else None for one in program.stages
        ]
        self._same_instant = SameInstant(env)
        self._launches = [program.launch_of(stage.index) for stage in program.stages]
        self._counters = {launch: count(launch.blocks) for launch in program.launches}

    def first(self, launch: GridLaunch, position: int, sm: int, slot: int) -> Process:
        """The process of a launch's block, from its issue; its number is that of its first item."""
        program, place = self._item(launch, position)
        return self._process(program, place, sm, slot, self._block_ns)

    def _item(self, launch: GridLaunch, item: int) -> tuple[ResolvedStage, int]:
        """The stage of an item and its position there."""
        for stage in launch.stages:
            size = len(self._program.stages[stage].blocks)
            if item < size:
                return self._program.stages[stage], item
            item -= size
        raise AssertionError("an item beyond the launch's last")

    def _process(self, program: ResolvedStage, position: int, sm: int, slot: int, delay_ns: int) -> Process:
        """One item, from now on; its first instruction is `delay_ns` away."""
        row = self.stages[program.index].first_row + position
        rows, now = self.rows, int(self._env.now)
        rows.sm[row], rows.slot[row], rows.issue[row], rows.start[row] = sm, slot, now, now + delay_ns
        process = self._alone if self._shared is None else self._together
        return process(program, position, row)

    def _alone(self, program: ResolvedStage, position: int, row: int) -> Process:
        """A block at full speed. It looks at each wait ahead of time: a post that comes first is no event."""
        env, rows, costs = self._env, self.rows, self._costs[program.index]
        # When the block gets to where the loop is; never before now.
        clock = rows.start[row] + costs.opening_ns
        if not self.stages[program.index].started.triggered:
            yield from self._first_instruction(program, row)
        work, waiting = costs.work_ns[position], costs.waiting
        is_free = waiting.is_free
        done = waited = 0
        for wait in program.waits(position):
            semaphore = self.semaphores[wait.semaphore]
            if semaphore.is_ready and is_free:
                continue  # most waits: when the block gets there makes no difference
            due = costs.due_ns(work, wait)
            since, done = due - done, due
            clock += since
            spun, come = 0, clock
            if not semaphore.is_ready:
                self.spinning[row] = (program, position, wait.semaphore)
                yield semaphore.ready
                spun = self._stop_spinning(row, clock)
            polling, refilling = waiting.passing(come, semaphore.ready_ns, work, since)
            clock += spun + polling + refilling
            waited += spun + polling
        rows.wait[row] = waited
        yield env.timeout(clock + work - done + waiting.test_ns + costs.closing_ns - int(env.now))
        self._end(program, position, row)

    def _together(self, program: ResolvedStage, position: int, row: int) -> Process:
        """A block at the speed that the SM's other blocks leave.

        It does not stop at waits that are over where they cost nothing: what is ready now stays so.
        """
        assert self._shared is not None
        env, rows, costs = self._env, self.rows, self._costs[program.index]
        shared, age = self._shared[rows.sm[row]], (rows.issue[row], row)
        yield from self._first_instruction(program, row)
        yield env.timeout(costs.opening_ns)
        work, waiting = costs.work_ns[position], costs.waiting
        is_free = waiting.is_free
        done = waited = ahead = 0
        for wait in program.waits(position):
            semaphore = self.semaphores[wait.semaphore]
            if semaphore.is_ready and is_free:
                continue
            due = costs.due_ns(work, wait)
            since, done = due - done, due
            if since:
                computed = shared.compute(since, age, ahead)
                yield computed
                ahead = computed.value or 0
            begin = int(env.now)
            if not semaphore.is_ready:
                self.spinning[row] = (program, position, wait.semaphore)
                shared.spin()
                yield semaphore.ready
                shared.stop_spinning()
                waited += self._stop_spinning(row, begin)
            polling, refilling = waiting.passing(begin, semaphore.ready_ns, work, since)
            if polling + refilling:
                yield self._latency(costs, polling + refilling, shared, age)
                waited += polling
            if env.now > begin:
                ahead = 0
        rows.wait[row] = waited
        if work > done:
            yield shared.compute(work - done, age, ahead)
        if waiting.test_ns:
            yield self._latency(costs, waiting.test_ns, shared, age)
        if costs.closing_ns:
            yield env.timeout(costs.closing_ns)
        self._end(program, position, row)

    def _latency(self, costs: BlockCosts, latency_ns: int, shared: SharedSm, age: Age) -> Event:
        """A latency within a block's work; others can make use of it only where a bandwidth is shared."""
        return self._env.timeout(latency_ns) if costs.leaves_share else shared.stall(latency_ns, age)

    def _first_instruction(self, program: ResolvedStage, row: int) -> Process:
        """Tells wait-kernels that the stage has started, as soon as its first block has."""
        delay_ns = self.rows.start[row] - int(self._env.now)
        if delay_ns:
            yield self._env.timeout(delay_ns)
        started = self.stages[program.index].started
        if not started.triggered:
            started.succeed()

    def _stop_spinning(self, row: int, begin: int) -> int:
        """The time since `begin`, when the block reached its wait; 0 if the post came first."""
        _, _, semaphore = self.spinning.pop(row)
        now = int(self._env.now)
        if now <= begin:
            return 0
        self.rows.waits.append((row, semaphore, begin, now))
        return now - begin

    # --- the end of an item ---

    def _end(self, program: ResolvedStage, position: int, row: int) -> None:
        """Its work is done. Of a tile in parts, who comes at one instant does so one after the other."""
        if self.stages[program.index].parts[program.output(position)] > 1:
            act = partial(self._take_ticket, program, position, row)
            self._same_instant.queue(self.rows.sm[row], self.rows.slot[row], act)
        else:
            self._exit(program, position, row, is_last=True)

    def _take_ticket(self, program: ResolvedStage, position: int, row: int) -> None:
        """All but the last store their sums; the last waits until they have, and adds them to its own."""
        state, output = self.stages[program.index], program.output(position)
        costs, now = self._costs[program.index], int(self._env.now)
        state.parts_left[output] -= 1
        is_last = not state.parts_left[output]
        if is_last:
            others_ns = costs.fixup_ns * (state.parts[output] - 1)
            delay_ns = max(0, state.stored_ns[output] - now) + others_ns
        else:
            delay_ns = costs.partial_ns
            state.stored_ns[output] = now + delay_ns
        if delay_ns:
            Task(self._sum_up(program, position, row, delay_ns, is_last=is_last))
        else:
            self._exit(program, position, row, is_last=is_last)

    def _sum_up(
        self, program: ResolvedStage, position: int, row: int, delay_ns: int, *, is_last: bool
    ) -> Process:
        yield self._env.timeout(delay_ns)
        self._exit(program, position, row, is_last=is_last)

    def _exit(self, program: ResolvedStage, position: int, row: int, *, is_last: bool) -> None:
        """The last contributor posts the output; the last block ends the stage; the slot is freed or used."""
        self.rows.end[row] = int(self._env.now)
        if is_last:
            for semaphore in program.posts[program.output(position)]:
                self.semaphores[semaphore].post(self._costs[program.index].post_visibility_ns)
        state = self.stages[program.index]
        state.blocks_left -= 1
        if not state.blocks_left:
            state.done.succeed()
            self._end_grid(program.index)
        launch, sm, slot = self._launches[program.index], self.rows.sm[row], self.rows.slot[row]
        if launch.fetches_next:
            self._same_instant.queue(sm, slot, partial(self._fetch, launch, sm, slot))
        elif (following := program.following(position)) >= 0:
            Task(self._process(program, following, sm, slot, 0))
        else:
            self._leave(program.index, sm, slot)

    def _end_grid(self, stage: int) -> None:
        """A grid that was launched early ends once the one ahead of it has."""
        ahead, ended = self._program.ahead_of(stage), self.stages[stage].ended
        if ahead is not None:
            self._once_ended(ahead, ended.succeed)

    def _leave(self, stage: int, sm: int, slot: int) -> None:
        """A block frees its slot, where its kernel stays not before the grid ahead has ended."""
        ahead = self._stays_for[stage]
        if ahead is None:
            self._release(sm, slot, stage)
        else:
            self._once_ended(ahead, partial(self._release, sm, slot, stage))

    def _once_ended(self, stage: int, act: Callable[[], object]) -> None:
        ended = self.stages[stage].ended
        if ended.triggered:
            act()
        else:
            ended.callbacks.append(partial(_without_event, act))

    def _fetch(self, launch: GridLaunch, sm: int, slot: int) -> None:
        """The block's next item from the tile counter; it leaves when there is none."""
        item = next(self._counters[launch])
        if item < sum(len(self._program.stages[stage].blocks) for stage in launch.stages):
            Task(self._process(*self._item(launch, item), sm, slot, 0))
        else:
            self._leave(launch.stages[0], sm, slot)


def _without_event(act: Callable[[], object], _: Event) -> None:
    act()
