"""Every way a plan can go on a small device: who arrives when, who is placed where, who ends when.

A state is which blocks have been issued and what each SM holds; what has ended follows. From it, any
waiting launch may be the next that the device takes up, its next block may land on any SM with room, and any
resident block that has all it needs may end. SMs are interchangeable, so states are kept sorted;
so are blocks of one launch that await and post the same semaphores: they are one *kind* of block.
A deadlock is a state in which no block can end and the next block of some launch fits nowhere:
that launch may be the one at the head of the queue, and nothing passes it.

Nothing here knows the safety rule or the simulator's dispatcher. It shares with them only the
description: what a block takes from an SM, which semaphores it awaits and posts, and when a launch's turn
comes in its stream.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import or_

from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedPlan, resolve
from wavesim.sim.placement import Footprint, footprint

Sm = tuple[int, tuple[int, ...]]  # carve-out, kinds of the blocks on it
State = tuple[tuple[int, ...], tuple[Sm, ...]]  # blocks issued per kind, SMs
NEVER = 1 << 512  # what no block is: what waits for it never ends


class TooLargeError(Exception):
    """More states than the caller wants to look at."""


@dataclass(frozen=True)
class Rules:
    """What the device may do. The defaults are the most that a device could that uses its room.

    `has_head_starts`: blocks of several launches may be issued in any mixture; else a launch that
    has begun is issued to its end. `places_anywhere`: a block lands on any SM with room; else on one with
    the fewest blocks. `ends_at_any_time`: a block that can end may stay; else all end at once.
    `is_oldest_first`: what stands behind a wait-kernel comes after its producers' last blocks; else after
    their first. `any_block_order`: a launch's blocks are issued in any order; else in theirs. `may_decline`:
    nothing need be issued while any block is resident, as CUDA has it. `copies`: of the plan, at once.
    """

    has_head_starts: bool = True
    places_anywhere: bool = True
    ends_at_any_time: bool = True
    is_oldest_first: bool = True
    any_block_order: bool = False
    may_decline: bool = False
    copies: int = 1


@dataclass(frozen=True)
class Launch:
    """One kernel: the kind of each of its blocks, in the order of issue.

    It arrives when the launch `after` (its wait-kernel) has ended and all of `behind` is issued; as a
    wait-kernel it ends when each of `starts_of` has a block issued. On one stream it arrives when all of
    `issued_first` has been issued and all of `ended_first` has ended. `is_fetching`: blocks fetch their
    work from a counter as they start, so that it is taken in this order whatever the order of the blocks.
    """

    kinds: tuple[int, ...]
    footprint: Footprint
    after: int | None = None
    behind: tuple[int, ...] = ()
    starts_of: tuple[int, ...] = ()
    issued_first: tuple[int, ...] = ()
    ended_first: tuple[int, ...] = ()
    is_fetching: bool = False

    @property
    def size(self) -> int:
        return len(self.kinds)


class Search:
    """All states of one plan on one device. `guarded`: consumers with a wait-kernel, if not all or none.

    `others`: what other work keeps for ever, a block on each of so many SMs.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        plan: Plan,
        device: Device,
        rules: Rules | None = None,
        guarded: Collection[str] | None = None,
        others: Collection[Footprint] = (),
    ) -> None:
        self.device, self.rules = device, rules or Rules()
        self.needs: list[int] = []  # per kind: the kinds of which every block must have ended, as bits
        self.launches: list[Launch] = []
        for _ in range(self.rules.copies):
            self.launches += planned(pipeline, plan, device, self.needs, len(self.launches), guarded)
        self.own = len(self.needs)  # kinds from here on are of other work
        for block in others:
            self.launches.append(Launch((len(self.needs),), block))
            self.needs.append(NEVER)
        self.launch_of = {kind: i for i, launch in enumerate(self.launches) for kind in launch.kinds}
        self.totals = [
            launch.kinds.count(kind) for launch in self.launches for kind in sorted(set(launch.kinds))
        ]
        self.kinds_of = [tuple(sorted(set(launch.kinds))) for launch in self.launches]
        self.fits = cache(self.fits_afresh)
        self.states = 0

    def finds_deadlock(self, most_states: int = 10**9) -> bool:
        """Whether any state is a deadlock. Raises `TooLargeError`."""
        start = self.start()
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

    def start(self) -> State:
        """Nothing issued but what other work holds."""
        held: list[Sm] = [
            (self.launches[self.launch_of[kind]].footprint.carveout_bytes, (kind,))
            for kind in range(self.own, len(self.needs))
        ]
        idle: list[Sm] = [(0, ())] * (self.device.sm_count - len(held))
        return (*([0] * self.own), *([1] * len(held))), tuple(sorted([*held, *idle]))

    def is_deadlock(self, state: State) -> bool:
        if self.ready(state):
            return False
        heads = self.heads(state)
        is_busy = any(kind < self.own for _, kinds in state[1] for kind in kinds)
        if is_busy and self.rules.may_decline:
            return True
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
            for i in self.places(state, launch):
                carveout, kinds = sms[i]
                taken = carveout if kinds else self.launches[launch].footprint.carveout_bytes
                for kind in self.next_kinds(launch, issued):
                    counts = (*issued[:kind], issued[kind] + 1, *issued[kind + 1 :])
                    more = (taken, tuple(sorted((*kinds, kind))))
                    yield counts, tuple(sorted((*sms[:i], more, *sms[i + 1 :])))

    def next_kinds(self, launch: int, issued: tuple[int, ...]) -> list[int]:
        """Kinds of the block that a launch may issue next."""
        if self.rules.any_block_order and not self.launches[launch].is_fetching:
            return [kind for kind in self.kinds_of[launch] if issued[kind] < self.totals[kind]]
        return [self.launches[launch].kinds[self.issued_of(launch, issued)]]

    def issued_of(self, launch: int, issued: tuple[int, ...]) -> int:
        return sum(issued[kind] for kind in self.kinds_of[launch])

    def ready(self, state: State) -> set[int]:
        """Kinds of resident blocks that can end now."""
        issued, sms = state
        resident = {kind for _, kinds in sms for kind in kinds}
        over = self.over(issued, resident)
        return {kind for kind in resident if self.can_end(kind, over, issued)}

    def over(self, issued: tuple[int, ...], resident: Collection[int]) -> int:
        """Kinds of which every block has ended, as bits."""
        return sum(
            1 << kind
            for kind in range(self.own)
            if issued[kind] == self.totals[kind] and kind not in resident
        )

    def can_end(self, kind: int, over: int, issued: tuple[int, ...]) -> bool:
        launch = self.launches[self.launch_of[kind]]
        has_started = all(self.issued_of(producer, issued) for producer in launch.starts_of)
        return not self.needs[kind] & ~over and has_started

    def heads(self, state: State) -> list[int]:
        """Launches that the device may take up now: arrived, with blocks left."""
        issued, sms = state
        left = [i for i, launch in enumerate(self.launches) if self.issued_of(i, issued) < launch.size]
        found = [i for i in left if self.has_arrived(self.launches[i], issued, sms)]
        begun = [i for i in found if self.issued_of(i, issued)]
        return begun if begun and not self.rules.has_head_starts else found

    def has_arrived(self, launch: Launch, issued: tuple[int, ...], sms: tuple[Sm, ...]) -> bool:
        resident = {kind for _, kinds in sms for kind in kinds}
        behind = launch.behind if self.rules.is_oldest_first else ()
        if not all(self.is_issued(i, issued) for i in (*behind, *launch.issued_first)):
            return False
        ended = (*launch.ended_first, *(() if launch.after is None else (launch.after,)))
        return all(self.is_issued(i, issued) and not resident.intersection(self.kinds_of[i]) for i in ended)

    def is_issued(self, launch: int, issued: tuple[int, ...]) -> bool:
        return self.issued_of(launch, issued) == self.launches[launch].size

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


def planned(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    needs: list[int],
    first: int,
    guarded: Collection[str] | None = None,
) -> list[Launch]:
    """The launches of a plan, numbered from `first`; appends to `needs`."""
    program = resolve(pipeline, plan)
    consumers = {stage.stage.name: stage.index for stage in program.stages if stage.arrays}
    names = (consumers if plan.launch.wait_kernel else ()) if guarded is None else guarded
    found = list(launches(program, {consumers[name] for name in names}, device, needs, first))
    if plan.schedule.is_fused:
        kinds = tuple(kind for launch in found for kind in launch.kinds)
        return [Launch(kinds, found[0].footprint, is_fetching=True)]
    if plan.launch.is_multi_stream:
        return found
    if plan.waits_for_grids:
        wait_for_grids(pipeline, plan, found, needs)
    in_turn = found[:1]
    for i, launch in enumerate(found[1:], 1):
        before = (first + i - 1,)
        is_early = plan.turn_of(pipeline, i).is_early
        in_turn.append(replace(launch, **{"issued_first" if is_early else "ended_first": before}))
    return in_turn


def wait_for_grids(pipeline: Pipeline, plan: Plan, found: list[Launch], needs: list[int]) -> None:
    """By dependent launch at boundaries a block ends after the whole grid before it."""
    for i, launch in enumerate(found):
        if plan.turn_of(pipeline, i).is_early:
            for kind in set(launch.kinds):
                needs[kind] = reduce(or_, (1 << one for one in found[i - 1].kinds), 0)


def launches(
    program: ResolvedPlan, guarded: set[int], device: Device, needs: list[int], first: int
) -> Iterator[Launch]:
    """The stages' kernels in order, then the wait-kernels of the guarded stages; appends to `needs`."""
    count = len(program.stages)
    index = {stage.stage.name: first + stage.index for stage in program.stages}
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
            after = first + count + sorted(guarded).index(stage.index)
            behind = tuple(index[producer] for producer in stage.arrays)
        yield Launch(tuple(kinds), footprint(device, stage.stage.kernel), after, behind)
    for number in sorted(guarded):
        starts_of = tuple(index[producer] for producer in program.stages[number].arrays)
        needs.append(0)
        yield Launch((len(needs) - 1,), footprint(device, WAIT_KERNEL), starts_of=starts_of)
