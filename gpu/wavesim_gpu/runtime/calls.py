"""Which library calls are under way, and which of them failed: every call by its number, place and stream.

Example: `mlp` begins a call in the log and gets a slot of pinned memory for it. The call's last kernel
(kernels/close_call.cu) writes there that the call is over and, if a wait gave up, what its waiters saw; it
also rings a bell. So the host learns of a failure by reading one word of its own memory, with no question to
the GPU: the next call, or `check()`, raises a `FailedCallsError` that names the failed calls, each once.
"""

import atexit
import inspect
import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DeadlockError
from wavesim.guard.escaping import whole_line
from wavesim_gpu.cusync.layout import ERROR_BUFFER
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.tensors import allowed_while_capturing

# kernels/close_call.cu, CallSlot.
CALL_SLOT = np.dtype([("finished", "<u4"), ("failures", "<u4"), ("errors", ERROR_BUFFER)])
FIRST_SLOTS = 256  # more than CUDA queues on one stream
NAMED = 8  # calls that one message names
# Beginnings of the names of modules that a call's place lies outside of.
OURS = ("wavesim_gpu.tuned_mlp", "wavesim_gpu.runtime", "wavesim_gpu.layers", "wavesim_gpu.torch", "torch.")
CALLS_KEPT = 2048  # of one state: more than CUDA queues on one stream
REPORTS_KEPT = 16  # what the waiters of the latest failed calls saw

_making = threading.Lock()

Allocate = Callable[
    [int], tuple[int, NDArray[np.uint8]]
]  # bytes to their address on the device, and the host's view


@dataclass(frozen=True)
class Slot:
    """Where the device reports of one call: its address there, and the host's record of `CALL_SLOT`."""

    address: int
    record: Any


@dataclass(frozen=True)
class Call:
    """One call: its number in this process, what it computes, its stream, file and line where it was made.

    `explain` turns a record of `ERROR_BUFFER` into the error. `is_captured`: what runs is a graph's replays.
    """

    number: int
    what: str
    stream: int
    where: str
    is_captured: bool
    explain: Callable[[Any], DeadlockError] | None = field(default=None, repr=False)
    slot: Slot | None = field(default=None, repr=False)

    def __str__(self) -> str:
        kind = "graph captured" if self.is_captured else "made"
        return f"call {self.number}, {self.what} on stream {self.stream:#x}, {kind} at {self.where}"


@dataclass(frozen=True)
class FailedCall:
    """A call whose result is NaN, and why. Of a captured call, `replays` failed since the last report."""

    call: Call
    replays: int
    cause: DeadlockError

    def __str__(self) -> str:
        replays = f", {self.replays} of its replays" if self.call.is_captured else ""
        waiter = f": {self.cause.waiters[0]}" if self.cause.waiters else ""
        return f"{self.call}{replays} ({self.cause.detail}{waiter})"


class FailedCallsError(DeadlockError):
    """Earlier calls ran out of their time; their results are NaN. `failures` are all of them.

    The call that raises it was not made: make it again.
    """

    def __init__(self, failures: Sequence[FailedCall]) -> None:
        self.failures = tuple(failures)
        first = failures[0].cause
        super().__init__(first.waiters, first.starved, first.detail)

    def _message(self) -> str:
        return described(self.failures)


def described(failures: Sequence[FailedCall]) -> str:
    """Failures in one line."""
    named = "; ".join(map(str, failures[:NAMED]))
    more = f"; and {len(failures) - NAMED} more" if len(failures) > NAMED else ""
    count = "1 call" if len(failures) == 1 else f"{len(failures)} calls"
    return whole_line(
        f"{count} failed and gave NaN: {named}{more}. Later calls are not affected; where other programs "
        "hold the GPU for long, give a longer limit_s"
    )


class Described(Protocol):
    """Whose calls they are: what one computes, in words, and what an `ERROR_BUFFER` says of it."""

    what: str

    def explain(self, found: Any, limit_ns: int) -> DeadlockError:
        """The error that the record of a failed call stands for, whose waits were bounded by `limit_ns`."""


# A call's number in this process, its stream, the code that made it and where in it, limit_ns, whose it is.
_Begun = tuple[int, int, CodeType | None, int, int, Described]


def slot_type(numbers: int, reports: int) -> np.dtype[np.void]:
    """cusync/call.cuh, CallSlot and what follows it: room for so many calls' numbers and error buffers."""
    counts = [(name, "<u4") for name in ("failures", "number_capacity", "error_capacity", "reserved")]
    return np.dtype([*counts, ("numbers", "<u4", (numbers,)), ("errors", ERROR_BUFFER, (reports,))])


class CallSlot:
    """Where the device reports of the calls over one state: of a stream's one by one, or a graph's replays.

    One thread at a time begins calls, and they reach the device in that order.
    """

    def __init__(self, log: "CallLog", stream: int, is_captured: bool) -> None:
        kind = slot_type(1, 1) if is_captured else slot_type(CALLS_KEPT, REPORTS_KEPT)
        self.address, memory = log.allocate(kind.itemsize)
        self._record = memory.view(kind)[0]
        self._record["failures"] = 0
        self._record["number_capacity"] = self._record["numbers"].size
        self._record["error_capacity"] = self._record["errors"].size
        self.stream, self._is_captured = stream, is_captured
        self._numbers, self._latest = log.numbers, log.latest_of_thread
        self._begun: dict[int, _Begun] = {}
        self._reported = 0
        self.count = 0

    def begin(self, owner: Described, limit_ns: int) -> int:
        """A new call, made where the code outside this package is. Returns its number over the state."""
        frame: Any = sys._getframe(1)  # noqa: SLF001  # the only way that takes no microseconds
        while frame is not None and frame.f_globals.get("__name__", "").startswith(OURS):
            frame = frame.f_back
        code, at = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        self._latest.number = number = next(self._numbers)
        self.count = own = self.count + 1
        self._begun[own % CALLS_KEPT] = number, self.stream, code, at, limit_ns, owner
        return own

    def new_failures(self) -> list[FailedCall]:
        """What failed since the last time. Of more than `CALLS_KEPT` at once, the latest."""
        record, seen = self._record, int(self._record["failures"])
        new = range(max(self._reported, seen - record["numbers"].size), seen)
        self._reported, replays = seen, seen - self._reported
        if not new:
            return []
        if self._is_captured:
            return [self._failed(int(record["numbers"][0]), replays, record["errors"][0].copy())]
        capacity = record["errors"].size
        reports = [record["errors"][i % capacity].copy() for i in new[-capacity:]]
        # What the device wrote meanwhile may be of a later call.
        reports = reports[max(0, int(record["failures"]) + 1 - seen - (capacity - len(reports))) :]
        known = [None] * (len(new) - len(reports)) + reports
        return [
            self._failed(int(record["numbers"][i % record["numbers"].size]), 1, report)
            for i, report in zip(new, known, strict=True)
        ]

    def _failed(self, own: int, replays: int, report: Any) -> FailedCall:
        number, stream, code, at, limit_ns, owner = self._begun[own % CALLS_KEPT]
        call = Call(number, owner.what, stream, _place(code, at), self._is_captured)
        if report is None:
            detail = (
                f"a wait ran out of its time limit of {limit_ns / 1e9:g} s; {REPORTS_KEPT} or more followed"
            )
            return FailedCall(call, replays, DeadlockError((), (), detail))
        return FailedCall(call, replays, owner.explain(report, limit_ns))


def _place(code: CodeType | None, at: int) -> str:
    """File and line of an instruction."""
    if code is None:
        return "an unknown place"
    lines = (line for first, end, line in code.co_lines() if first <= at < end and line)
    return f"{code.co_filename}:{next(lines, code.co_firstlineno)}"


class CallLog:
    """The calls of a process that are under way or were captured in a graph. Any thread may use it.

    A call that an exception ends between its launches keeps its slot, some 3 KB: a launch that did get out
    may still write there. So do captured calls, as nobody tells when their graph is gone.
    """

    def __init__(self, allocate: Allocate) -> None:
        self.allocate = allocate
        self._lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.latest_of_thread = threading.local()
        self._slots: list[CallSlot] = []
        self._running: dict[int, Call] = {}
        self._reported: dict[int, int] = {}  # failures of captured calls, by number
        self._failed: list[FailedCall] = []  # seen, and not yet reported
        self._free: list[Slot] = []
        self._slot_count = 0
        self.devices: set[int] = set()  # numbers of the GPUs that had calls
        self.bell, bell = allocate(4)
        self._bell = bell.view(np.uint32)
        self._bell[0] = 0
        self._grow(FIRST_SLOTS)

    @property
    def latest(self) -> int:
        """The number of this thread's latest call, to find its failure by; 0 before the first."""
        return getattr(self.latest_of_thread, "number", 0)

    def begin(
        self,
        what: str,
        device: int,
        stream: int,
        explain: Callable[[Any], DeadlockError],
        *,
        is_captured: bool = False,
    ) -> Call:
        """A new call, made where the code outside this package is, with a slot that nobody else writes to."""
        where = _caller()
        with self._lock:
            if not self._free:
                self._collect()
                if len(self._free) < self._slot_count // 2:
                    self._grow(self._slot_count)
            slot = self._free.pop()
            slot.record["finished"] = slot.record["failures"] = 0
            call = Call(next(self.numbers), what, stream, where, is_captured, explain, slot)
            self._running[call.number] = call
            self.devices.add(device)
        self.latest_of_thread.number = call.number
        return call

    def open_slot(self, device: int, stream: int, *, is_captured: bool = False) -> CallSlot:
        """A slot for the calls over a new state on a stream, or for a call that a graph will replay."""
        slot = CallSlot(self, stream, is_captured)
        with self._lock:
            self._slots.append(slot)
            self.devices.add(device)
        return slot

    def raise_failures(self) -> None:
        """Raises `FailedCallsError` if calls are known to have failed since the last time. Does not wait."""
        if failures := self.take_failures():
            raise FailedCallsError(failures)

    def take_failures(self) -> list[FailedCall]:
        """What failed since the last time, as far as the device has said; each failure is returned once."""
        if not self._bell[0] and not self._failed:
            return []
        with self._lock:
            self._bell[0] = 0  # first: whoever rings from now on is looked for again
            self._collect()
            failed, self._failed = self._failed, []
        return failed

    def _collect(self) -> None:
        """Notes new failures and frees the slots of calls that are over."""
        over = [call for call in self._running.values() if call.slot.record["finished"]]
        for open_slot in self._slots:
            self._failed += open_slot.new_failures()
        for call in over:
            seen = int(call.slot.record["failures"])
            if new := seen - self._reported.get(call.number, 0):
                cause = call.explain(call.slot.record["errors"].copy())
                self._failed.append(FailedCall(call, new, cause))
            if call.is_captured:
                self._reported[call.number] = seen
            else:
                self._free.append(self._running.pop(call.number).slot)

    def _grow(self, count: int) -> None:
        address, memory = self.allocate(count * CALL_SLOT.itemsize)
        records = memory.view(CALL_SLOT)
        self._free += [Slot(address + i * CALL_SLOT.itemsize, records[i]) for i in range(count)]
        self._slot_count += count


def _caller() -> str:
    """File and line of the innermost code that is not ours."""
    for frame in _frames():
        if not frame.f_globals.get("__name__", "").startswith(OURS):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return "an unknown place"


def _frames() -> Iterator[Any]:
    frame: Any = inspect.currentframe()  # inspect.stack() reads source files, and takes milliseconds
    while frame is not None:
        yield frame
        frame = frame.f_back


def process_log() -> CallLog:
    """The log of this process, made at the first call."""
    with _making:
        return _process_log()


@cache
def _process_log() -> CallLog:
    log = CallLog(_pinned)
    atexit.register(warn_of_failures, log)
    return log


def warn_of_failures(log: CallLog) -> None:
    """Warns of failures that nobody has been told of."""
    if failures := log.take_failures():
        warnings.warn(described(failures), RuntimeWarning, stacklevel=2)


def check() -> None:
    """Waits for the GPUs that had calls and raises `FailedCallsError` if some, or replays of graphs, failed.

    Each failure is raised once, by this or by the next call.
    """
    if not _process_log.cache_info().currsize:
        return  # no call yet
    log = process_log()
    for device in sorted(log.devices):
        with require_cupy().cuda.Device(device):
            require_cupy().cuda.Device().synchronize()
    log.raise_failures()


def _pinned(count: int) -> tuple[int, NDArray[np.uint8]]:
    """Pinned memory, which every GPU of the process sees at the host's own address."""
    with allowed_while_capturing():
        memory = require_cupy().cuda.alloc_pinned_memory(count)
    return int(memory.ptr), np.frombuffer(memory, np.uint8, count)
