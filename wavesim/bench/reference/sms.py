"""The reference simulator's SMs: who has room, and how computing blocks share one SM.

Example: an SM is a set of taken slots, three sums (warps, registers, shared memory) and a list of
[work left, block, age]; everything is looked at anew where the engine keeps running totals.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from wavesim.costs.cost_model import RATE_UNIT, CostModel
from wavesim.model.device import Device
from wavesim.sim.placement import Footprint


class Placed(Protocol):
    """A block as far as SMs care."""

    footprint: Footprint
    sm: int
    slot: int


class SmRoom:
    """What is taken on every SM."""

    def __init__(self, device: Device) -> None:
        count = device.sm_count
        self.slots: list[set[int]] = [set() for _ in range(count)]
        self.warps, self.registers = [device.max_warps_per_sm] * count, [device.registers_per_sm] * count
        self.shared, self.carveout = [0] * count, [0] * count
        self.max_blocks = device.max_blocks_per_sm

    def has_room(self, sm: int, block: Footprint) -> bool:
        """Whether one more such block could be resident now."""
        if not self.slots[sm]:
            return True  # an idle SM changes its carve-out
        return (
            len(self.slots[sm]) < self.max_blocks
            and block.warps <= self.warps[sm]
            and block.registers <= self.registers[sm]
            and block.shared_bytes <= self.carveout[sm] - self.shared[sm]
            and block.least_carveout_bytes <= self.carveout[sm]
        )

    def fill(self, sms: Iterable[int], blocks: deque[Any]) -> Iterator[Any]:
        """Places one kernel's blocks from the left, each where fewest live and there is room; yields them."""
        if not blocks:
            return
        kind = blocks[0].footprint
        spots = [(len(self.slots[sm]), sm) for sm in sms if self.has_room(sm, kind)]
        heapify(spots)
        while blocks and spots:
            load, sm = heappop(spots)
            block = blocks.popleft()
            self._enter(block, sm)
            if self.has_room(sm, kind):
                heappush(spots, (load + 1, sm))
            yield block

    def _enter(self, block: Placed, sm: int) -> None:
        taken, kind = self.slots[sm], block.footprint
        if not taken:
            self.carveout[sm] = kind.carveout_bytes
        slot = 0
        while slot in taken:
            slot += 1
        taken.add(slot)
        self.warps[sm] -= kind.warps
        self.registers[sm] -= kind.registers
        self.shared[sm] += kind.shared_bytes
        block.sm, block.slot = sm, slot

    def leave(self, block: Placed) -> None:
        """The block has exited."""
        sm, kind = block.sm, block.footprint
        self.slots[sm].remove(block.slot)
        self.warps[sm] += kind.warps
        self.registers[sm] += kind.registers
        self.shared[sm] -= kind.shared_bytes


@dataclass(eq=False)
class ComputingBlocks:
    """Blocks that compute on one SM: [work left in ns / RATE_UNIT, then, who, age, is_stalled].

    Of n of them the oldest runs at `rates[n - 1][0]`, the next one at `rates[n - 1][1]` and so on, where
    `rates` are those beside as many blocks as spin; places and companies beyond the last are like the last.
    """

    costs: CostModel
    at: Callable[[int, Callable[[Any], None], Any], None]
    members: list[list[Any]] = field(default_factory=list)
    since: int = 0
    version: int = 0
    spinning: int = 0

    def spin(self, now: int, change: int) -> None:
        """So many more blocks of the SM spin from now on."""
        self._progress(now)
        self.spinning += change
        if self.members:
            self._plan(now)

    def join(
        self,
        now: int,
        work_ns: int,
        then: Callable[[Any], None],
        who: Any,
        age: tuple[int, ...],
        *,
        is_stalled: bool = False,
    ) -> None:
        """Calls `then(who)` once this block has had its work; what it has had too much is `who.ahead`.

        `is_stalled`: it is no work but a latency, which counts as computing for the others.
        """
        self._progress(now)
        self.members.append([work_ns * RATE_UNIT + who.ahead, then, who, age, is_stalled])
        self._plan(now)

    def _progress(self, now: int) -> None:
        for member, rate in self._rates():
            member[0] -= (now - self.since) * rate
        self.since = now

    def _rates(self) -> list[tuple[list[Any], int]]:
        """Every member with the rate it runs at."""
        if not self.members:
            return []
        by_count = self.costs.rates_beside(self.spinning)
        rates = by_count[min(len(self.members), len(by_count)) - 1]
        by_age = sorted(self.members, key=lambda member: member[3])
        return [
            (member, RATE_UNIT if member[4] else rates[min(place, len(rates) - 1)])
            for place, member in enumerate(by_age)
        ]

    def _plan(self, now: int) -> None:
        """Comes back when the first of them has had its work, unless something changes before."""
        self.version += 1
        time = now + min(max(0, (member[0] + rate - 1) // rate) for member, rate in self._rates())
        self.at(time, self._end, (time, self.version))

    def _end(self, when: tuple[int, int]) -> None:
        now, version = when
        if version != self.version:
            return
        self._progress(now)
        ended = [member for member in self.members if member[0] <= 0]
        self.members = [member for member in self.members if member[0] > 0]
        if self.members:
            self._plan(now)
        for left, then, who, *_ in ended:
            who.ahead = left
            then(who)
