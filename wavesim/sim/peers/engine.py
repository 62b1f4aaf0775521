"""The engine for several GPUs: a block dispatcher each, the links between them, and blocks that wait for
both.

Example: a block of GPU 0's GEMM ends a tile, its epilogue begins to store it to GPU 1 and the block goes on;
3 us later the tile is there, 1.3 us after that its semaphore is seen, and a block of GPU 1 that waited adds
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from simpy import Environment, Event

from wavesim.errors import DeadlockError, Waiter
from wavesim.model.device import Device
from wavesim.model.kernel import Grid
from wavesim.sim.events import NORMAL, Process, Timer
from wavesim.sim.peers.program import PeerItem, PeerKernel, PeerProgram, Send
from wavesim.sim.peers.traffic import Traffic
from wavesim.sim.sms import Sms
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
    left: int
    next: int = 0
    is_launched: bool = False
    spinning: dict[int, int] = field(default_factory=dict)  # row -> semaphore

    @property
    def device(self) -> int:
        """Whose SMs it is for."""
        return self.kernel.stage.device

    def take(self) -> tuple[PeerItem, int] | None:
        """The next item that nobody has, and its row; None when all are taken."""
        if self.next == len(self.kernel.items):
            return None
        self.next += 1
        return self.kernel.items[self.next - 1], self.first_row + self.next - 1

    def end_item(self) -> None:
        """One item fewer is left."""
        self.left -= 1
        if not self.left:
            self.ended.succeed()


class PeerEngine:
    """One run of a program: built, run once, read. `never`: ranks that do not begin.

    A kernel may come after one that is launched later, as a GEMM after the all-gather of its chunk, so that
    turns are the program's own and not `StreamOrder`'s.
    """

    def __init__(
        self,
        program: PeerProgram,
        device: Device,
        latencies: Latencies,
        never: Sequence[int],
        limit_ns: int,
    ) -> None:
        host, self.env = program.host, Environment()
        self.device, self.link, self.latencies = device, host.link, latencies
        self._program, self._limit_ns = program, limit_ns
        self._late_ns = [None if rank in never else late for rank, late in enumerate(host.late_ns)]
        self._sms = [Sms(self.env, device) for _ in host.late_ns]
        self.traffic = Traffic(self.env, host.link, host.gpus)
        self._semaphores = [Semaphore(self.env, semaphore.awaited) for semaphore in program.semaphores]
        self._running: list[_Running] = []
        row = 0
        for kernel in program.kernels:
            self._running.append(_Running(kernel, row, Event(self.env), len(kernel.items)))
            row += len(kernel.items)
        self.rows = Rows.of(row)

    def run(self) -> None:
        """Simulates to the end. Raises `DeadlockError`, naming rank, tile and semaphore, where none comes."""
        before: dict[tuple[int, int], Event] = {}
        for rank, running in enumerate(self._running):
            begin = self._late_ns[running.device]
            place = (running.device, running.kernel.stream)
            turns = [self._running[index].ended for index in running.kernel.after]
            turns += [before[place]] if place in before else []
            before[place] = running.ended
            if begin is not None:
                self.env.process(self._launch(running, rank, begin, turns))
        self.env.run()
        if any(running.left for running in self._running):
            raise self._error("")

    def _launch(self, running: _Running, rank: int, begin: int, turns: Sequence[Event]) -> Process:
        yield self.env.timeout(begin + self.latencies.start_ns)
        if turns:
            for turn in turns:
                if not turn.processed:
                    yield turn
            yield self.env.timeout(self.latencies.boundary_ns)
        running.is_launched = True
        kernel, stage = running.kernel, running.kernel.stage
        if kernel.sender == "copy-engine":
            # Drawn beside the last SM of its device, in a slot that no block of ours has.
            sm, slot = self.device.sm_count - 1, self.device.max_blocks_per_sm - 1
            self.env.process(_PeerBlock(self, running, sm, slot).life())
            return
        grid = replace(stage.kernel, name=stage.name, grid=Grid(kernel.blocks))
        self._sms[running.device].launch(grid, rank, partial(self._block, running))

    def _block(self, running: _Running, _position: int, sm: int, slot: int) -> Process:
        return _PeerBlock(self, running, sm, slot).life()

    # --- what blocks and copy engines share ---

    def wait(self, running: _Running, numbers: Sequence[int], row: int) -> Process:
        """Until the semaphores are ready, one after the other."""
        for number in numbers:
            semaphore = self._semaphores[number]
            if semaphore.is_ready:
                continue
            since = int(self.env.now)
            running.spinning[row] = number
            limit = self._time_limit(running)
            yield semaphore.ready
            if limit is not None:
                limit.cancel()
            del running.spinning[row]
            self.rows.waits.append((row, number, since, int(self.env.now)))

    def post(self, numbers: Sequence[int], delay_ns: int) -> None:
        """Posts that are seen so much later."""
        for number in numbers:
            Timer(self.env, partial(self._arrive, number), NORMAL, delay_ns)

    def _arrive(self, number: int, _: Event) -> None:
        self._semaphores[number].post(0)

    def post_after(self, arrived: Event, send: Send) -> None:
        """Posts the receiver's semaphores once all has arrived there."""
        assert arrived.callbacks is not None
        arrived.callbacks.append(lambda _: self.post(send.posts, self.link.flag_ns))

    # --- what can go wrong ---

    def _time_limit(self, running: _Running) -> Timer | None:
        """What ends a wait that takes too long; none where all devices begin together, as they then go on."""
        if not any(self._late_ns):
            return None

        def give_up(_: Event) -> None:
            raise self._error(f"{running.kernel.stage.name} gave up")

        return Timer(self.env, give_up, NORMAL, self._limit_ns)

    def _error(self, why: str) -> DeadlockError:
        """Which block waits for what, which kernels have not begun, and which GPUs never did."""
        waiters = [
            self._waiter(running, row, number)
            for running in self._running
            for row, number in running.spinning.items()
        ]
        starved = [
            f"{running.kernel.stage.name}: {self._reason(running)}"
            for running in self._running
            if not running.next
        ]
        limit = f"the time limit is {self._limit_ns / 1e3:,.0f} us"
        return DeadlockError(tuple(waiters), tuple(starved), f"{why}; {limit}" if why else "")

    def _waiter(self, running: _Running, row: int, number: int) -> Waiter:
        semaphore = self._program.semaphores[number]
        return Waiter(
            running.kernel.stage.name,
            (*running.kernel.items[row - running.first_row].tile, 0),
            self.rows.sm[row],
            self.rows.slot[row],
            f"{semaphore.name} on rank {running.device}",
            self._semaphores[number].seen,
            semaphore.awaited,
        )

    def _reason(self, running: _Running) -> str:
        device = running.device
        if self._late_ns[device] is None:
            return f"rank {device} never began"
        if running.is_launched:
            return f"all {len(running.kernel.items)} tiles, because waiting blocks hold rank {device}'s SMs"
        return f"rank {device} has not come to it"


class _PeerBlock:
    """A block of a kernel in its slot, or a copy engine: it takes item after item, and sends what it made.

    Its tiles take flat times: no other block shares its SM, and a block has no costs of its own, as the times
    were measured with them. That is why it is no `SimulatedBlock` of the one-GPU engine.
    """

    def __init__(self, run: PeerEngine, running: _Running, sm: int, slot: int) -> None:
        self._run, self._running, self._sm, self._slot = run, running, sm, slot
        self._kernel, self._sender = running.kernel, running.kernel.sender
        self._leaving: Event | None = None

    def life(self) -> Process:
        """Item after item, until nobody has left one."""
        running = self._running
        while (taken := running.take()) is not None:
            yield from self._item(*taken)
            if self._sender == "epilogue" and running.next == len(self._kernel.items):
                yield from self._until_sent()  # its last tile has left before the block ends
            running.end_item()

    def _item(self, item: PeerItem, row: int) -> Process:
        run, running, rows = self._run, self._running, self._run.rows
        posts = partial(run.post, item.posts, run.latencies.post_visibility_ns)
        now = int(run.env.now)
        rows.sm[row], rows.slot[row] = running.device * run.device.sm_count + self._sm, self._slot
        rows.issue[row] = rows.start[row] = now
        run.post(item.arrives, run.link.flag_ns)
        yield from run.wait(running, item.waits, row)
        rows.wait[row] = int(run.env.now) - now
        if self._sender == "copy-engine":
            posts()  # what it takes is complete already
            yield run.env.timeout(self._kernel.tile_ns)
        else:
            yield run.env.timeout(self._work_ns())
            yield from run.wait(running, item.adds, row)
            posts()
        yield from self._send(item.sends, row)
        yield from run.wait(running, item.until, row)
        if item.retire_ns:
            yield run.env.timeout(item.retire_ns)
        rows.end[row] = int(run.env.now)

    def _work_ns(self) -> int:
        """An item's work; longer where the link's bytes and the kernel's want more than the DRAM gives."""
        crossing = self._run.traffic.bytes_per_s(self._running.device)
        wanted = (self._kernel.bytes_per_s + crossing) / self._run.device.dram_bytes_per_s
        return round(self._kernel.tile_ns * max(1.0, wanted))

    def _send(self, sends: Sequence[Send], row: int) -> Process:
        """Stores to peers. An epilogue's buffer is free again once what it sent before has left."""
        traffic = self._run.traffic
        move = traffic.copy if self._sender == "copy-engine" else traffic.store
        if sends and self._sender == "epilogue":
            yield from self._until_sent()
        for send in sends:
            self._leaving = move(row, self._running.device, send.target, send.bytes)
            self._run.post_after(self._leaving, send)
            if self._sender != "epilogue":
                yield from self._until_sent()

    def _until_sent(self) -> Process:
        """Until what it sent last has arrived."""
        arrived, self._leaving = self._leaving, None
        if arrived is not None and not arrived.processed:
            yield arrived
