"""The engine for several GPUs: a block dispatcher each, the links between them, and blocks that wait for
both.

Example: a block of GPU 0's GEMM ends a tile, its epilogue begins to store it to GPU 1 and the block goes on;
3 us later the tile is there, 1.3 us after that its semaphore is seen, and a block of GPU 1 that waited adds
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from simpy import Environment, Event

from wavesim.errors import DeadlockError, Waiter
from wavesim.model.device import Device
from wavesim.model.link import Link
from wavesim.sim.dispatcher import Dispatcher, QueuedGrid
from wavesim.sim.events import NORMAL, Process, Timer
from wavesim.sim.peers.program import PeerItem, PeerKernel, PeerProgram, Send
from wavesim.sim.peers.traffic import Traffic
from wavesim.sim.placement import Footprint, footprint
from wavesim.sim.state import Rows, Semaphore


@dataclass(frozen=True)
class Latencies:
    """Of one device, in ns: a kernel's start, between two kernels of a stream, a post within a device."""

    start_ns: int
    boundary_ns: int
    post_visibility_ns: int


@dataclass
class _Running:
    """A kernel while it runs: `first_row` of its items in the trace, the next item to be fetched."""

    kernel: PeerKernel
    first_row: int
    ended: Event
    footprint: Footprint
    next: int = 0
    left: int = 0
    is_launched: bool = False
    spinning: dict[int, int] = field(default_factory=dict)  # row -> semaphore


class PeerEngine:
    """One run of a program: built, run once, read. `late_ns`: when each device begins, None: never."""

    def __init__(
        self,
        program: PeerProgram,
        device: Device,
        link: Link,
        latencies: Latencies,
        late_ns: Sequence[int | None],
        limit_ns: int,
    ) -> None:
        self._env = Environment()
        self._program, self._device, self._link, self._latencies = program, device, link, latencies
        self._late_ns, self._limit_ns = late_ns, limit_ns
        self._dispatchers = [Dispatcher(self._env, device) for _ in late_ns]
        self.traffic = Traffic(self._env, link, len(late_ns))
        self.rows = Rows.of(sum(len(kernel.items) for kernel in program.kernels))
        self._semaphores = [Semaphore(self._env, one.awaited) for one in program.semaphores]
        self._running: list[_Running] = []
        row = 0
        for kernel in program.kernels:
            size = len(kernel.items)
            self._running.append(
                _Running(kernel, row, Event(self._env), footprint(device, kernel.stage.kernel), left=size)
            )
            row += size
        self._leaving: dict[tuple[int, int, int], Event] = {}

    def run(self) -> None:
        """Simulates to the end. Raises `DeadlockError`, naming rank, tile and semaphore, where none comes."""
        before: dict[tuple[int, int], Event] = {}
        for rank, one in enumerate(self._running):
            begin = self._late_ns[one.kernel.stage.device]
            place = (one.kernel.stage.device, one.kernel.stream)
            turns = [self._running[index].ended for index in one.kernel.after]
            turns += [before[place]] if place in before else []
            before[place] = one.ended
            if begin is not None:
                self._env.process(self._launch(one, rank, begin, turns))
        self._env.run()
        if any(one.left for one in self._running):
            raise self._error("")

    # --- kernels ---

    def _launch(self, one: _Running, rank: int, begin: int, turns: Sequence[Event]) -> Process:
        yield self._env.timeout(begin + self._latencies.start_ns)
        waiting = [turn for turn in turns if not turn.processed]
        if turns:
            for turn in waiting:
                if not turn.processed:
                    yield turn
            yield self._env.timeout(self._latencies.boundary_ns)
        one.is_launched = True
        if one.kernel.sender == "copy-engine":
            self._env.process(self._copy(one))
            return
        start = partial(self._first, one)
        queued = QueuedGrid(one.kernel.stage.name, rank, one.footprint, start, 0, one.kernel.blocks)
        self._dispatchers[one.kernel.stage.device].enqueue(queued)

    def _first(self, one: _Running, _position: int, sm: int, slot: int) -> Process:
        """A block from its issue on: its first item is the next that nobody has."""
        return self._block(one, sm, slot)

    def _block(self, one: _Running, sm: int, slot: int) -> Process:
        """A block's life: item after item, until nobody has left one."""
        kernel = one.kernel
        place = (kernel.stage.device, sm, slot)
        while one.next < len(kernel.items):
            item, row = kernel.items[one.next], one.first_row + one.next
            one.next += 1
            yield from self._item(one, item, row, place)
            if kernel.sender != "epilogue" or one.next < len(kernel.items):
                self._end_item(one)
                continue
            # Its last tile has left before the block ends.
            yield from self._until_sent(place)
            self._end_item(one)
        self._dispatchers[kernel.stage.device].release(sm, slot, one.footprint)

    def _item(self, one: _Running, item: PeerItem, row: int, place: tuple[int, int, int]) -> Process:
        rows, kernel, now = self.rows, one.kernel, int(self._env.now)
        rows.sm[row], rows.slot[row] = place[0] * self._device.sm_count + place[1], place[2]
        rows.issue[row] = rows.start[row] = now
        self._post(item.arrives, self._link.flag_ns)
        yield from self._wait(one, item.waits, row)
        rows.wait[row] = int(self._env.now) - now
        yield self._env.timeout(self._work_ns(kernel))
        yield from self._wait(one, item.adds, row)
        self._post(item.posts, self._latencies.post_visibility_ns)
        if item.sends:
            yield from self._send(kernel, item.sends, row, place)
        yield from self._wait(one, item.until, row)
        if item.retire_ns:
            yield self._env.timeout(item.retire_ns)
        rows.end[row] = int(self._env.now)

    def _wait(self, one: _Running, numbers: Sequence[int], row: int) -> Process:
        for number in numbers:
            semaphore = self._semaphores[number]
            if semaphore.is_ready:
                continue
            since = int(self._env.now)
            one.spinning[row] = number
            limit = self._time_limit(one)
            yield semaphore.ready
            if limit is not None:
                limit.cancel()
            now = int(self._env.now)
            del one.spinning[row]
            self.rows.waits.append((row, number, since, now))

    def _time_limit(self, one: _Running) -> Timer | None:
        """What ends a wait that takes too long; none where all devices begin together, as they then go on."""
        if not any(self._late_ns):
            return None

        def give_up(_: Event) -> None:
            raise self._error(f"{one.kernel.stage.name} gave up")

        return Timer(self._env, give_up, NORMAL, self._limit_ns)

    def _work_ns(self, kernel: PeerKernel) -> int:
        """An item's work; longer where the link's bytes and the kernel's want more than the DRAM gives."""
        crossing = self.traffic.bytes_per_s(kernel.stage.device)
        wanted = (kernel.bytes_per_s + crossing) / self._device.dram_bytes_per_s
        return round(kernel.tile_ns * max(1.0, wanted))

    def _end_item(self, one: _Running) -> None:
        one.left -= 1
        if not one.left:
            one.ended.succeed()

    # --- what leaves a device ---

    def _send(
        self, kernel: PeerKernel, sends: Sequence[Send], row: int, place: tuple[int, int, int]
    ) -> Process:
        """Stores to peers. An epilogue's buffer is free again once what it sent before has left."""
        source = kernel.stage.device
        if kernel.sender == "epilogue":
            yield from self._until_sent(place)
        for send in sends:
            arrived = self.traffic.store(row, source, send.target, send.bytes)
            self._post_after(arrived, send)
            self._leaving[place] = arrived
            if kernel.sender != "epilogue":
                yield from self._until_sent(place)

    def _until_sent(self, place: tuple[int, int, int]) -> Process:
        """Until what a block sent last has arrived."""
        arrived = self._leaving.pop(place, None)
        if arrived is not None and not arrived.processed:
            yield arrived

    def _post_after(self, arrived: Event, send: Send) -> None:
        assert arrived.callbacks is not None
        arrived.callbacks.append(lambda _: self._post(send.posts, self._link.flag_ns))

    def _copy(self, one: _Running) -> Process:
        """The copy engine takes item after item, once its semaphores are ready."""
        source = one.kernel.stage.device
        for number, item in enumerate(one.kernel.items):
            row = one.first_row + number
            # Drawn beside the last SM of its device, in a slot that no block of ours has.
            sm = source * self._device.sm_count + self._device.sm_count - 1
            self.rows.sm[row], self.rows.slot[row] = sm, self._device.max_blocks_per_sm - 1
            begin = self.rows.issue[row] = self.rows.start[row] = int(self._env.now)
            yield from self._wait(one, item.waits, row)
            self.rows.wait[row] = int(self._env.now) - begin
            self._post(item.posts, self._latencies.post_visibility_ns)
            yield self._env.timeout(one.kernel.tile_ns)
            for send in item.sends:
                arrived = self.traffic.copy(row, source, send.target, send.bytes)
                self._post_after(arrived, send)
                yield arrived
            self.rows.end[row] = int(self._env.now)
            self._end_item(one)

    def _post(self, numbers: Sequence[int], delay_ns: int) -> None:
        for number in numbers:
            Timer(self._env, partial(self._arrive, number), NORMAL, delay_ns)

    def _arrive(self, number: int, _: Event) -> None:
        self._semaphores[number].post(0)

    # --- what can go wrong ---

    def _error(self, why: str) -> DeadlockError:
        """Who waits for what, rank by rank, which kernels have not begun, and which GPUs never did."""
        waiters = [
            Waiter(
                one.kernel.stage.name,
                (*one.kernel.items[row - one.first_row].tile, 0),
                self.rows.sm[row],
                self.rows.slot[row],
                f"{self._program.semaphores[number].name} on rank {one.kernel.stage.device}",
                self._semaphores[number].seen,
                self._program.semaphores[number].awaited,
            )
            for one in self._running
            for row, number in one.spinning.items()
        ]
        starved = [f"{one.kernel.stage.name}: {self._reason(one)}" for one in self._running if not one.next]
        limit = f"the time limit is {self._limit_ns / 1e3:,.0f} us"
        return DeadlockError(tuple(waiters), tuple(starved), f"{why}; {limit}" if why else "")

    def _reason(self, one: _Running) -> str:
        device = one.kernel.stage.device
        if self._late_ns[device] is None:
            return f"rank {device} never began"
        if one.is_launched:
            return f"all {len(one.kernel.items)} tiles, because waiting blocks hold rank {device}'s SMs"
        return f"rank {device} has not come to it"
