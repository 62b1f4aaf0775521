"""The engine: streams, wait-kernels and launches on SimPy; what blocks do is in `block.py`.

Example: the first kernel's blocks are queued at once; the second's when its wait-kernel has seen the first
one start, or when the first is done. A launch hands its blocks to the dispatcher, which issues them.
Source: the paper's section III; scheduling rules as observed on an NVIDIA H200.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

from simpy import Environment, Event

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DeadlockError, Waiter
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedStage
from wavesim.sim.block import SimulatedBlocks
from wavesim.sim.block_costs import block_costs_of
from wavesim.sim.dispatcher import QueuedGrid
from wavesim.sim.events import Process
from wavesim.sim.launches import GridLaunch, LaunchedProgram, launched
from wavesim.sim.placement import footprint
from wavesim.sim.shared_sm import SharedSm
from wavesim.sim.sms import Sms
from wavesim.sim.state import StageState


class Engine:
    """One run of a pipeline under a plan on a device: built, run once, read. `program`: where worked out."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: Plan,
        device: Device,
        costs: CostModel,
        program: LaunchedProgram | None = None,
    ) -> None:
        self.program = program or launched(pipeline, plan, device, costs.main_loops)
        self._costs = costs
        self._head_start = plan.launch.head_start
        self._between_ns = costs.between_launches_ns(plan)
        self._env = Environment()
        self._sms = Sms(self._env, device)
        self._wait_kernels: dict[int, Waiter] = {}  # those that spin, by the stage they stand before
        self._blocks = SimulatedBlocks(
            self._env, self.program, self._sms, costs, self._states(plan, device), self._shared_sms(device)
        )
        self.rows = self._blocks.rows

    def _states(self, plan: Plan, device: Device) -> list[StageState]:
        states: list[StageState] = []
        row = 0
        for stage in self.program.stages:
            ahead, parts, done = self.program.ahead_of(stage.index), stage.contributors, Event(self._env)
            launch = self.program.launch_of(stage.index)
            state = StageState(
                program=stage,
                launch=launch,
                costs=block_costs_of(self._costs, plan, stage),
                footprint=footprint(device, launch.kernel),
                stays_for=ahead if stage.stage.name in self._costs.stays else None,
                first_row=row,
                blocks_left=len(stage.blocks),
                parts=parts,
                parts_left=parts.copy(),
                stored_ns=[0] * len(parts),
                started=Event(self._env),
                done=done,
                ended=done if ahead is None else Event(self._env),
            )
            states.append(state)
            row += state.blocks_left
        return states

    def _shared_sms(self, device: Device) -> list[SharedSm] | None:
        """How blocks share each SM; None where nothing slows any of them down."""
        costs = self._costs
        if not costs.is_shared:
            return None
        most_spinning = device.max_blocks_per_sm if costs.spin_share else 0
        beside = [costs.rates_beside(spinning) for spinning in range(most_spinning + 1)]
        return [SharedSm(self._env, beside) for _ in range(device.sm_count)]

    def run(self) -> None:
        """Simulates until nothing is left to happen. Raises `DeadlockError` if blocks have not run."""
        if self._head_start:
            self._give_head_start()
        at_ns = 0
        before: GridLaunch | None = None
        issued = Event(self._env)
        for launch in self.program.launches:
            turn: Event | None = None
            if launch.has_wait_kernel:
                turn = Event(self._env)
                program = self.program.stages[launch.stages[0]]
                self._env.process(self._launch_wait_kernel(program, at_ns, turn))
                at_ns += self._between_ns
            elif before is not None and not launch.turn.is_at_once:
                turn = issued if launch.turn.is_early else self._blocks.stages[before.stages[-1]].ended
            before, issued = launch, Event(self._env)
            self._env.process(self._launch_kernel(launch, at_ns, turn, issued))
            at_ns += self._between_ns
        self._env.run()
        if any(state.blocks_left for state in self._blocks.stages):
            raise self._deadlock()

    # --- streams: when a kernel reaches the dispatcher ---

    def _launch_kernel(self, launch: GridLaunch, at_ns: int, turn: Event | None, issued: Event) -> Process:
        """Enqueues the kernel once it is launched and its turn in its stream has come."""
        if at_ns:
            yield self._env.timeout(at_ns)
        if turn is not None:
            issued_ns = yield turn
            begin = int(self._env.now)
            is_early = launch.turn.is_early
            stage = self.program.stages[launch.stages[0]].stage.name
            costs = self._costs.of_stage(stage)
            delay_ns = issued_ns + costs.block_ns - begin if is_early else costs.boundary_ns
            if delay_ns > 0:
                yield self._env.timeout(delay_ns)
            name = "dependent launch" if is_early else "kernel boundary"
            self.rows.events.append((name, stage, begin, int(self._env.now)))
        for stage_number in launch.stages:
            self._blocks.stages[stage_number].is_launched = True
        program = self.program.stages[launch.stages[0]]
        first = min(self._head_start, launch.blocks) if program.arrays else 0
        if first < launch.blocks:
            self._enqueue(launch, first, launch.blocks, rank=2 * program.index + 1, issued=issued)

    def _enqueue(
        self, launch: GridLaunch, first: int, upto: int, rank: int, issued: Event | None = None
    ) -> None:
        process = partial(self._blocks.first, launch)
        block = self._blocks.stages[launch.stages[0]].footprint
        is_fetching = launch.is_fetching and self._costs.fetches_by_sm
        self._sms.enqueue(
            QueuedGrid(launch.kernel.name, rank, block, process, first, upto, issued, is_fetching)
        )

    def _give_head_start(self) -> None:
        """Puts the first blocks of every consumer before any producer: a race between streams, lost."""
        count = len(self.program.launches)
        for index, launch in enumerate(self.program.launches):
            if self.program.stages[index].arrays:
                self._enqueue(launch, 0, min(self._head_start, launch.blocks), rank=index - count)

    def _launch_wait_kernel(self, program: ResolvedStage, at_ns: int, done: Event) -> Process:
        """One block that spins until every producer has started, ahead of the consumer in its stream."""
        if at_ns:
            yield self._env.timeout(at_ns)
        name = f"wait-kernel of {program.stage.name}"
        work = partial(self._wait_kernel, name, program)
        self._sms.launch(replace(WAIT_KERNEL, name=name), 2 * program.index, work, done.succeed)

    def _wait_kernel(self, name: str, program: ResolvedStage, _position: int, sm: int, slot: int) -> Process:
        begin = int(self._env.now)
        for producer in self.program.stages:
            started = self._blocks.stages[producer.index].started
            if producer.stage.name in program.arrays and not started.triggered:
                fact = f"start of {producer.stage.name}"
                self._wait_kernels[program.index] = Waiter(name, (0, 0, 0), sm, slot, fact, seen=0, awaited=1)
                yield started
                del self._wait_kernels[program.index]
        costs = self._costs
        yield self._env.timeout(costs.post_visibility_ns + costs.wait_ns + costs.wait_kernel_ns)
        self.rows.events.append(("wait-kernel", program.stage.name, begin, int(self._env.now)))

    def _deadlock(self) -> DeadlockError:
        """Who waits for what, and who was never issued, in a run in which nothing can happen any more."""
        waiters = (*self._blocks.waiters(), *self._wait_kernels.values())
        slots = ", ".join(f"SM {w.sm} slot {w.slot}" for w in waiters[:8]) + ", ..." * (len(waiters) > 8)
        queued = Counter[str]()
        for launch in self._sms.queue:
            queued[launch.name] += launch.upto - launch.next
        starved = [
            f"{name}: {count} of its blocks, because waiting blocks hold {slots}"
            for name, count in queued.items()
        ]
        starved += [
            f"{state.program.stage.name}: all {state.blocks_left} blocks, "
            "because its wait-kernel has not ended"
            for state in self._blocks.stages
            if not state.is_launched
        ]
        return DeadlockError(waiters, tuple(starved))
