"""Every way a plan can go on a small device: who arrives when, who is placed where, who ends when.

A state is which blocks have been issued and what each SM holds; what has ended follows. From it, any
waiting launch may be the next that the device takes up, its next block may land on any SM with room, and any
resident block that has all it needs may end. SMs are interchangeable, so states are kept sorted;
so are blocks of one launch that await and post the same semaphores: they are one *kind* of block.
A deadlock is a state in which no block can end and the next block of some launch fits nowhere:
that launch may be the one at the head of the queue, and nothing passes it.

Nothing here knows the safety rule or the simulator's dispatcher. It shares with them only the
description: what a block takes from an SM, and which semaphores it awaits and posts.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_

from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.sim.placement import Footprint, footprint
from wavesim.sim.program import PlanProgram, build_program

Sm = tuple[int, tuple[int, ...]]  # carve-out, kinds of the blocks on it
State = tuple[tuple[int, ...], tuple[Sm, ...]]  # blocks issued per launch, SMs


class TooLargeError(Exception):
    """More states than the caller wants to look at."""


@dataclass(frozen=True)
class Rules:
    """What the device may do. The defaults are the most that any hardware could.

    `has_head_starts`: blocks of several launches may be issued in any mixture; else a launch that
    has begun is issued to its end. `places_anywhere`: a block lands on any SM with room; else on one with
    the fewest blocks. `ends_at_any_time`: a block that can end may stay; else all end at once.
    """

    has_head_starts: bool = True
    places_anywhere: bool = True
    ends_at_any_time: bool = True


@dataclass(frozen=True)
class Launch:
    """One kernel: the kind of each of its blocks, in the order of issue.

    It arrives when the launch `after` (its wait-kernel) has ended and all of `behind` is issued; as a
    wait-kernel it ends when each of `starts_of` has a block issued.
    """

    kinds: tuple[int, ...]
    footprint: Footprint
    after: int | None = None
    behind: tuple[int, ...] = ()
    starts_of: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return len(self.kinds)

    def fully_issued(self) -> list[int]:
        """For each number of blocks issued: the kinds, as bits, of which none is left."""
        return [
            sum(1 << kind for kind in set(self.kinds) - set(self.kinds[n:])) for n in range(self.size + 1)
        ]


class Search:
    """All states of one plan on one device. `guarded`: consumers with a wait-kernel, if not all or none."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: Plan,
        device: Device,
        rules: Rules | None = None,
        guarded: Collection[str] | None = None,
    ) -> None:
        self.device, self.rules = device, rules or Rules()
        program = build_program(pipeline, plan)
        consumers = {stage.stage.name: stage.index for stage in program.stages if stage.arrays}
        names = (consumers if plan.launch.wait_kernel else ()) if guarded is None else guarded
        behind = {consumers[name] for name in names}
        self.needs: list[int] = []  # per kind: the kinds of which every block must have ended, as bits
        self.launches = list(launches(program, behind, device, self.needs))
        self.launch_of = {kind: i for i, launch in enumerate(self.launches) for kind in launch.kinds}
        self.fully_issued = [launch.fully_issued() for launch in self.launches]
        self.fits = cache(self.fits_afresh)
        self.states = 0

    def finds_deadlock(self, most_states: int = 10**9) -> bool:
        """Whether any state is a deadlock. Raises `TooLargeError`."""
        idle: Sm = (0, ())
        start: State = ((0,) * len(self.launches), (idle,) * self.device.sm_count)
        seen, stack = {start}, [start]
        while stack:
            state = stack.pop()
            if self.is_deadlock(state):
                return True
            for following in self.moves(state):
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
            self.states = len(seen)
            if self.states > most_states:
                raise TooLargeError
        return False

    def is_deadlock(self, state: State) -> bool:
        if self.ready(state):
            return False
        heads, is_busy = self.heads(state), any(kinds for _, kinds in state[1])
        return any(not self.places(state, launch) for launch in heads) or (is_busy and not heads)

    def moves(self, state: State) -> Iterator[State]:
        issued, sms = state
        ready = self.ready(state)
        if ready and not self.rules.ends_at_any_time:
            yield (
                issued,
                idle_if_empty(
                    (carveout, tuple(k for k in kinds if k not in ready)) for carveout, kinds in sms
                ),
            )
            return
        for i, (carveout, kinds) in enumerate(sms):
            for kind in ready.intersection(kinds):
                place = kinds.index(kind)
                left = (carveout, kinds[:place] + kinds[place + 1 :])
                yield issued, idle_if_empty((*sms[:i], left, *sms[i + 1 :]))
        for launch in self.heads(state):
            kernel, counts = self.launches[launch], list(issued)
            counts[launch] += 1
            for i in self.places(state, launch):
                carveout, kinds = sms[i]
                taken = carveout if kinds else kernel.footprint.carveout_bytes
                more = (taken, tuple(sorted((*kinds, kernel.kinds[issued[launch]]))))
                yield tuple(counts), tuple(sorted((*sms[:i], more, *sms[i + 1 :])))

    def ready(self, state: State) -> set[int]:
        """Kinds of resident blocks that can end now."""
        issued, sms = state
        resident = {kind for _, kinds in sms for kind in kinds}
        over = 0
        for count, bits in zip(issued, self.fully_issued, strict=True):
            over |= bits[count]
        for kind in resident:
            over &= ~(1 << kind)
        return {kind for kind in resident if self.can_end(kind, over, issued)}

    def can_end(self, kind: int, over: int, issued: tuple[int, ...]) -> bool:
        launch = self.launches[self.launch_of[kind]]
        return not self.needs[kind] & ~over and all(issued[producer] for producer in launch.starts_of)

    def heads(self, state: State) -> list[int]:
        """Launches that the device may take up now: arrived, with blocks left."""
        issued, sms = state
        left = [i for i, launch in enumerate(self.launches) if issued[i] < launch.size]
        found = [i for i in left if self.has_arrived(self.launches[i], issued, sms)]
        begun = [i for i in found if issued[i]]
        return begun if begun and not self.rules.has_head_starts else found

    def has_arrived(self, launch: Launch, issued: tuple[int, ...], sms: tuple[Sm, ...]) -> bool:
        if launch.after is None:
            return True
        wait_kernel = self.launches[launch.after].kinds[0]
        is_over = issued[launch.after] == 1 and not any(wait_kernel in kinds for _, kinds in sms)
        return is_over and all(issued[i] == self.launches[i].size for i in launch.behind)

    def places(self, state: State, launch: int) -> list[int]:
        """SMs on which a launch's next block may land; of equal ones the first."""
        sms = state[1]
        found = [i for i, sm in enumerate(sms) if (not i or sm != sms[i - 1]) and self.fits(sm, launch)]
        if self.rules.places_anywhere or not found:
            return found
        fewest = min(len(sms[i][1]) for i in found)
        return [i for i in found if len(sms[i][1]) == fewest]

    def fits_afresh(self, sm: Sm, launch: int) -> bool:
        """Whether an SM has room for a block of a launch."""
        carveout, kinds = sm
        if not kinds:
            return True
        newcomer = self.launches[launch].footprint
        there = [self.launches[self.launch_of[kind]].footprint for kind in kinds] + [newcomer]
        return (
            len(there) <= self.device.max_blocks_per_sm
            and sum(block.warps for block in there) <= self.device.max_warps_per_sm
            and sum(block.registers for block in there) <= self.device.registers_per_sm
            and sum(block.shared_bytes for block in there) <= carveout
            and newcomer.least_carveout_bytes <= carveout
        )


def idle_if_empty(sms: Iterable[Sm]) -> tuple[Sm, ...]:
    """SMs in order; one without blocks has no carve-out of its own any more."""
    return tuple(sorted((carveout if kinds else 0, kinds) for carveout, kinds in sms))


def launches(program: PlanProgram, guarded: set[int], device: Device, needs: list[int]) -> Iterator[Launch]:
    """The stages' kernels in order, then the wait-kernels of the guarded stages; appends to `needs`."""
    count = len(program.stages)
    index = {stage.stage.name: stage.index for stage in program.stages}
    posters: dict[int, int] = {}  # semaphore: kinds that post it, as bits; producers come first
    for stage in program.stages:
        found: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        kinds = []
        for position, (x, y, _) in enumerate(stage.blocks):
            awaited = tuple(sorted({wait.semaphore for wait in stage.waits(position)}))
            posted = stage.posts[y * stage.stage.grid.x + x]
            if (awaited, posted) not in found:
                found[awaited, posted] = len(needs)
                needs.append(reduce(or_, (posters[semaphore] for semaphore in awaited), 0))
            kinds.append(found[awaited, posted])
            for semaphore in posted:
                posters[semaphore] = posters.get(semaphore, 0) | 1 << kinds[-1]
        after, behind = None, ()
        if stage.index in guarded:
            after = count + sorted(guarded).index(stage.index)
            behind = tuple(index[producer] for producer in stage.arrays)
        yield Launch(tuple(kinds), footprint(device, stage.stage.kernel), after, behind)
    for number in sorted(guarded):
        starts_of = tuple(index[producer] for producer in program.stages[number].arrays)
        needs.append(0)
        yield Launch((len(needs) - 1,), footprint(device, WAIT_KERNEL), starts_of=starts_of)
