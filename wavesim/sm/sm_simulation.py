"""SMs simulated warp by warp: issue slots, loads in flight, wavefronts of shared memory, barriers.

A plain event loop over whole cycles. A warp that is ready takes the next free issue slot of its scheduler;
schedulers issue one instruction a cycle, to the warp that has been ready longest. A load waits for its
memory channel, then takes the latency. Shared memory serves one wavefront a cycle.

Example: 16 warps with one load of 512 bytes in flight each have 8 KB on their way; at a latency of 600
cycles an SM gets 13.7 bytes a cycle, whatever the memory could give.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import ceil
from random import Random
from typing import NamedTuple

from wavesim.sm.machine import SmMachine
from wavesim.sm.warp_program import (
    Arithmetic,
    AwaitLoads,
    BlockBarrier,
    GlobalLoad,
    SharedAccess,
    SmKernel,
    WarpProgram,
)


class WarpSpan(NamedTuple):
    """What a warp did or waited for in [start, end), in cycles: "issue", "memory", "barrier"."""

    warp: int
    start: int
    end: int
    doing: str


@dataclass
class SmRun:
    """What a simulation found: its cycles, the bytes that were loaded, instructions issued.

    `laps`: the cycle, and all bytes until then, each time the first warp has what it awaited.
    `spans` and `served` (a channel's busy cycles, by start and end) are there only where asked for.
    """

    cycles: int = 0
    loaded_bytes: int = 0
    issued: int = 0
    laps: list[tuple[int, int]] = field(default_factory=list)
    spans: list[WarpSpan] = field(default_factory=list)
    served: list[tuple[float, float]] = field(default_factory=list)


def simulate_sm(kernel: SmKernel, machine: SmMachine, *, records: bool = False, seed: int = 0) -> SmRun:
    """Runs a kernel on each of the machine's SMs; `seed` draws the loads' channels."""
    return _Simulation(kernel, machine, records, seed).run()


@dataclass(eq=False)
class _Block:
    sm: int
    running: int
    parked: list["_Warp"] = field(default_factory=list)


@dataclass(eq=False)
class _Warp:
    index: int  # of its slot on the SM
    program: WarpProgram
    block: _Block
    at: int = 0
    left: int = 0  # arithmetic instructions still to issue
    has_slot: bool = False
    has_place: bool = False
    arrives: int = 0  # the last of its loads


class _Simulation:
    def __init__(self, kernel: SmKernel, machine: SmMachine, records: bool, seed: int) -> None:
        self.kernel, self.machine, self.records = kernel, machine, records
        self.result = SmRun()
        self.events: list[tuple[int, int, _Warp]] = []
        self.serial = count()
        self.issue_free = [0] * (machine.sms * machine.schedulers)
        self.shared_free = [0] * machine.sms
        self.channel_free = [0.0] * machine.channels
        # From when on each place for a load in flight is free; those that wait for one, and since when.
        self.places = [[0] * (machine.most_loads or 0) for _ in range(machine.sms)]
        self.without_place: list[deque[tuple[_Warp, int]]] = [deque() for _ in range(machine.sms)]
        self.queued = [kernel.blocks] * machine.sms
        self.chance = Random(seed)  # noqa: S311  # channels, no secret

    def run(self) -> SmRun:
        per_block = len(self.kernel.warps)
        for sm in range(self.machine.sms):
            for slot in range(self.kernel.resident):
                self.start_block(sm, slot * per_block, 0)
        while self.events:
            cycle, _, warp = heappop(self.events)
            self.step(warp, cycle)
        return self.result

    def start_block(self, sm: int, first_warp: int, cycle: int) -> None:
        if not self.queued[sm]:
            return
        self.queued[sm] -= 1
        block = _Block(sm, len(self.kernel.warps))
        for index, program in enumerate(self.kernel.warps):
            self.ready(_Warp(first_warp + index, program, block), cycle)

    def ready(self, warp: _Warp, cycle: int) -> None:
        heappush(self.events, (cycle, next(self.serial), warp))

    def step(self, warp: _Warp, cycle: int) -> None:
        if warp.at == len(warp.program):
            self.end(warp, cycle)
            return
        instruction = warp.program[warp.at]
        if isinstance(instruction, AwaitLoads):
            self.await_loads(warp, cycle)
            return
        if isinstance(instruction, GlobalLoad) and not self.may_load(warp, cycle):
            return
        if not warp.has_slot and not self.takes_slot(warp, cycle):
            return
        warp.has_slot = False
        self.result.issued += 1
        self.note(warp, cycle, cycle + 1, "issue")
        match instruction:
            case GlobalLoad(size_bytes):
                self.load(warp, cycle, size_bytes)
            case SharedAccess(wavefronts):
                self.access(warp, cycle, wavefronts)
            case Arithmetic(instructions):
                self.compute(warp, cycle, instructions)
            case BlockBarrier():
                self.meet(warp, cycle)

    def takes_slot(self, warp: _Warp, cycle: int) -> bool:
        """Whether the scheduler issues now; if it does not, the warp comes back when it will."""
        scheduler = warp.block.sm * self.machine.schedulers + warp.index % self.machine.schedulers
        slot = max(cycle, self.issue_free[scheduler])
        self.issue_free[scheduler] = slot + 1
        if slot == cycle:
            return True
        warp.has_slot = True
        self.ready(warp, slot)
        return False

    def may_load(self, warp: _Warp, cycle: int) -> bool:
        """Whether one of the SM's places for loads in flight is free; if not, the warp comes back then."""
        if self.machine.most_loads is None or warp.has_place:
            return True
        places = self.places[warp.block.sm]
        if not places:
            self.without_place[warp.block.sm].append((warp, cycle))
            return False
        warp.has_place, free = True, heappop(places)
        if free <= cycle:
            return True
        self.note(warp, cycle, free, "memory")
        self.ready(warp, free)
        return False

    def hand_on_place(self, warp: _Warp, arrival: int) -> None:
        """The load's place is free when it arrives, for whoever waits longest."""
        warp.has_place = False
        waiting = self.without_place[warp.block.sm]
        if not waiting:
            heappush(self.places[warp.block.sm], arrival)
            return
        other, since = waiting.popleft()
        other.has_place = True
        self.note(other, since, arrival, "memory")
        self.ready(other, arrival)

    def load(self, warp: _Warp, cycle: int, size_bytes: int) -> None:
        machine = self.machine
        channel = self.chance.randrange(machine.channels) if machine.channels > 1 else 0
        start = max(float(cycle), self.channel_free[channel])
        self.channel_free[channel] = start + machine.service_cycles(size_bytes)
        arrival = ceil(start + machine.latency_cycles)
        warp.arrives = max(warp.arrives, arrival)
        if machine.most_loads is not None:
            self.hand_on_place(warp, arrival)
        if self.records:
            self.result.served.append((start, self.channel_free[channel]))
        self.result.loaded_bytes += size_bytes
        warp.at += 1
        self.ready(warp, cycle + 1)

    def await_loads(self, warp: _Warp, cycle: int) -> None:
        if cycle < warp.arrives:
            self.note(warp, cycle, warp.arrives, "memory")
            self.ready(warp, warp.arrives)
            return
        if not warp.index and not warp.block.sm:
            self.result.laps.append((cycle, self.result.loaded_bytes))
        warp.at += 1
        self.ready(warp, cycle)

    def access(self, warp: _Warp, cycle: int, wavefronts: int) -> None:
        sm = warp.block.sm
        last = max(cycle, self.shared_free[sm]) + wavefronts
        self.shared_free[sm] = last
        warp.at += 1
        self.ready(warp, last - 1 + self.machine.shared_cycles)

    def compute(self, warp: _Warp, cycle: int, instructions: int) -> None:
        warp.left = (warp.left or instructions) - 1
        warp.at += not warp.left
        self.ready(warp, cycle + self.machine.arithmetic_cycles)

    def meet(self, warp: _Warp, cycle: int) -> None:
        block = warp.block
        warp.at += 1
        warp.arrives = max(warp.arrives, cycle)
        block.parked.append(warp)
        if len(block.parked) == block.running:
            for parked in block.parked:
                self.ready(parked, cycle + 1)
            block.parked = []

    def end(self, warp: _Warp, cycle: int) -> None:
        self.result.cycles = max(self.result.cycles, cycle)
        block = warp.block
        block.running -= 1
        if not block.running:
            per_block = len(self.kernel.warps)
            self.start_block(block.sm, warp.index // per_block * per_block, cycle)

    def note(self, warp: _Warp, start: int, end: int, doing: str) -> None:
        if self.records and end > start and warp.block.sm == 0:
            self.result.spans.append(WarpSpan(warp.index, start, end, doing))
