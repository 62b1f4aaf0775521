"""The worst-case hardware: which launch reaches the device when, and on which SM a block lands, it chooses.

Example: Figure 1 without its wait-kernel. If the consumer's launch reaches the device first, four of
its blocks take the four SMs and spin; the producer's blocks, which would end the wait, are never
issued. With five SMs and four consumer blocks one SM stays free, and the producer runs on it.

A plan is safe if, however waiting blocks are placed, they leave room for the next block of every kernel that
still has some: also of a consumer, because what stands behind a block that does not fit waits too. Tile
orders, policies and times don't matter: in the worst case not a single tile is finished.

It reads the same state model as `why-hang` (`SituationFacts`: launches, waits, room on SMs), of a plan's
kernels on one device. It is a search of its own because it counts: how many SMs can be closed, which other
work must leave alone, also beside a second copy. The searches of `hang` find whether a stuck state exists,
of anything that was launched, and their time grows with every operation; `tune` asks for hundreds of plans.
"""

from collections.abc import Iterator

from wavesim.model.kernel import WAIT_KERNEL
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.residency import Waiting, close_sms, leaves_room
from wavesim.safety.verdict import WorstCase, stage_of, wait_kernel_of
from wavesim.sim.placement import Footprint, footprint


class Adversary:
    """Counts what can wait while something is to be issued, and what room that leaves.

    Of a plan's kernels (`situation_of_plan`): blocks of a consumer behind a wait-kernel come after all of its
    producers'. `copies` of the plan run at once.
    """

    def __init__(self, facts: SituationFacts, copies: int = 1) -> None:
        self._copies, waits = copies, facts.situation.waits
        guards = {wait.waiter for wait in waits if wait.until == "start"}
        self._guarded = frozenset(map(stage_of, guards))
        stages = [(n, kernel) for n, kernel in enumerate(facts.operations) if kernel.name not in guards]
        self._device = facts.situation.devices[0].device
        self._sizes = {kernel.name: kernel.blocks for _, kernel in stages}
        self._clusters = {kernel.name: kernel.cluster for _, kernel in stages}
        self._footprints = {kernel.name: facts.pools.footprint(number) for number, kernel in stages}
        self._producers: dict[str, tuple[str, ...]] = dict.fromkeys(self._sizes, ())
        for wait in waits:
            if wait.until == "end":
                self._producers[wait.waiter] += (wait.producer,)
        self._wait_kernel = footprint(self._device, WAIT_KERNEL)
        self._follow_dependencies()

    def worst(self) -> tuple[WorstCase, bool]:
        """The case of the kernel that can be starved most, and whether it is exact; of equals the first."""
        heads = [(name, False) for name in self._sizes] + [(name, True) for name in sorted(self._guarded)]
        cases = (self._against(*head) for head in heads)
        return max(cases, key=lambda case: case[0].closed_sms - case[0].places)

    def shares_one_sm(self) -> bool:
        """Whether all blocks that ever wait, whoever comes first, leave room for any other on a single SM."""
        waiting = [kind for kind in self._all_waiting(is_ordered=False) for _ in range(self._copies)]
        is_alone = max(self._clusters.values()) == 1
        return is_alone and leaves_room(
            self._device, waiting, [*self._footprints.values(), self._wait_kernel]
        )

    def _against(self, name: str, is_wait_kernel: bool) -> tuple[WorstCase, bool]:
        """The worst case for a stage's next block, or for a stage's wait-kernel; and whether it is exact."""
        waiting = self._waiting(name, is_wait_kernel)
        head = self._wait_kernel if is_wait_kernel else self._footprints[name]
        cluster = 1 if is_wait_kernel else self._clusters[name]
        passing = self._passing(name, is_wait_kernel)
        closure = close_sms(self._device, waiting, head, passing, is_in_pairs=cluster > 1)
        starved = wait_kernel_of(name) if is_wait_kernel else name
        footprints = {starved: head} | {kind.name: kind.footprint for kind in waiting}
        case = WorstCase(
            starved=starved,
            closed_sms=closure.closed,
            sm_count=self._device.sm_count,
            residents=closure.residents,
            waits_for={kind.name: self._awaited(kind.name) for kind in waiting},
            shares={name: self._share(kind) for name, kind in footprints.items()},
            cluster=cluster,
        )
        return case, closure.is_exact

    def _share(self, block: Footprint) -> float:
        device = self._device
        return max(
            block.warps / device.max_warps_per_sm,
            block.registers / device.registers_per_sm,
            block.shared_bytes / device.shared_bytes_per_sm,
            1 / device.max_blocks_per_sm,
        )

    def _waiting(self, name: str, is_wait_kernel: bool) -> list[Waiting]:
        """All blocks that can be resident and wait while the head has not been issued."""
        started = set() if is_wait_kernel else self._issued_before[name]
        waiting = []
        for kind, size in self._sizes.items():
            is_head = kind == name and not is_wait_kernel
            count = size - is_head * self._clusters[kind]
            if count > 0 and self._can_wait[kind] and name not in self._issued_before[kind]:
                waiting.append(Waiting(kind, self._footprints[kind], count, self._clusters[kind]))
            stands_alone = kind in self._guarded and kind != name and kind not in started
            if stands_alone and not set(self._producers[kind]) <= started:
                waiting.append(Waiting(wait_kernel_of(kind), self._wait_kernel, 1))
        return [*waiting, *(kind for kind in self._all_waiting() for _ in range(self._copies - 1))]

    def _all_waiting(self, *, is_ordered: bool = True) -> Iterator[Waiting]:
        """Everything of a copy that ever waits; unless `is_ordered` also what stands behind a wait-kernel."""
        for kind, size in self._sizes.items():
            if self._can_wait[kind] if is_ordered else self._producers[kind]:
                yield Waiting(kind, self._footprints[kind], size, self._clusters[kind])
        for kind in self._guarded:
            yield Waiting(wait_kernel_of(kind), self._wait_kernel, 1)

    def _passing(self, name: str, is_wait_kernel: bool) -> list[Waiting]:
        """All blocks that can have been resident before the head is issued."""
        stages = [
            Waiting(kind, self._footprints[kind], size * self._copies)
            for kind, size in self._sizes.items()
            if is_wait_kernel or self._copies > 1 or name not in self._issued_before[kind]
        ]
        return [
            *stages,
            *(Waiting(wait_kernel_of(kind), self._wait_kernel, self._copies) for kind in self._guarded),
        ]

    def _follow_dependencies(self) -> None:
        """Once per stage, producers first: which stages' last blocks have been issued when its first one is,
        and whether its blocks can wait for tiles that are not being made.
        """
        self._issued_before: dict[str, set[str]] = {}
        self._can_wait: dict[str, bool] = {}
        for name, producers in self._producers.items():
            ahead = producers if name in self._guarded else ()
            self._issued_before[name] = {*ahead}.union(*(self._issued_before[producer] for producer in ahead))
            is_free = bool(producers) and name not in self._guarded
            self._can_wait[name] = is_free or any(self._can_wait[producer] for producer in producers)

    def _awaited(self, name: str) -> tuple[str, ...]:
        stage = stage_of(name)
        words = "start of {}" if name != stage else "tiles of {}"
        return tuple(words.format(producer) for producer in self._producers[stage])
