"""Which library calls failed: every call by its number, its stream and the line that made it.

Example: the calls on a stream share a slot of pinned memory. `slot.begin(...)` notes who made the next one
and gives it a number, which its kernels are told. Where a wait gave up, the call's last block
(cusync/call.cuh) writes that number and what its waiters saw into the slot, and rings a bell. So the host
learns of a failure by reading one word of its own memory, with no question to the GPU: the next call, or
`check()`, raises a `FailedCallsError` that names the failed calls, each once.
"""

import atexit
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from ctypes import c_uint32
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DeadlockError
from wavesim.safe_io.escaping import whole_line
from wavesim.safety.hang.mirror import ERRORS
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.tensors import allowed_while_capturing

# Beginnings of the names of modules that a call's place lies outside of.
OURS = ("wavesim_gpu.run", "wavesim_gpu.driver", "wavesim_gpu.layers", "wavesim_gpu.torch", "torch.")
CALLS_KEPT = 2048  # of one state: more than CUDA queues on one stream
NAMED = 8  # calls that one message names
REPORTS_KEPT = 16  # what the waiters of the latest failed calls saw

_making = threading.Lock()

# Bytes to their address, the device's and the host's own, and the host's view.
Allocate = Callable[[int], tuple[int, NDArray[np.uint8]]]


@dataclass(frozen=True)
class Call:
    """One call: its number in this process, what it computes, its stream, file and line where it was made.

    `is_captured`: what runs is a graph's replays.
    """

    number: int
    what: str
    stream: int
    where: str
    is_captured: bool

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
    """Whose calls they are: what one computes, in words, and what an `ERRORS` says of it."""

    what: str

    def explain(self, result: Any, limit_ns: int) -> DeadlockError:
        """The error that the record of a failed call stands for, whose waits were bounded by `limit_ns`."""


# A call's number in this process, its stream, the code that made it and where in it, limit_ns, whose it is.
_Begun = tuple[int, int, CodeType | None, int, int, Described]


def slot_type(numbers: int, reports: int) -> np.dtype[np.void]:
    """cusync/call.cuh, CallSlot and what follows it: room for so many calls' numbers and error buffers."""
    counts = [(name, "<u4") for name in ("failures", "number_capacity", "error_capacity", "reserved")]
    return np.dtype([*counts, ("numbers", "<u4", (numbers,)), ("errors", ERRORS, (reports,))])


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
            limit = f"a wait ran out of its time limit of {limit_ns / 1e9:g} s"
            return FailedCall(call, replays, DeadlockError((), (), f"{limit}, as did later calls'"))
        return FailedCall(call, replays, owner.explain(report, limit_ns))


def _place(code: CodeType | None, at: int) -> str:
    """File and line of an instruction."""
    if code is None:
        return "an unknown place"
    lines = (line for first, end, line in code.co_lines() if first <= at < end and line)
    return f"{code.co_filename}:{next(lines, code.co_firstlineno)}"


class CallLog:
    """The slots of a process, and what failed. Any thread may use it.

    A slot stays as long as the process: nobody tells when a graph is gone, or a stream's last call over.
    """

    def __init__(self, allocate: Allocate) -> None:
        self.allocate = allocate
        self.numbers = itertools.count(1)
        self.latest_of_thread = threading.local()
        self.devices: set[int] = set()  # numbers of the GPUs that had calls
        self._lock = threading.Lock()
        self._slots: list[CallSlot] = []
        self.bell, self._kept = allocate(4)
        self._bell = c_uint32.from_address(self.bell)
        self._bell.value = 0

    @property
    def latest(self) -> int:
        """The number of this thread's latest call, to find its failure by; 0 before the first."""
        return getattr(self.latest_of_thread, "number", 0)

    def open_slot(self, device: int, stream: int, *, is_captured: bool = False) -> CallSlot:
        """A slot for the calls over a new state on a stream, or for a call that a graph will replay."""
        slot = CallSlot(self, stream, is_captured)
        with self._lock:
            self._slots.append(slot)
            self.devices.add(device)
        return slot

    def raise_failures(self) -> None:
        """Raises `FailedCallsError` if calls are known to have failed since the last time. Does not wait."""
        if self._bell.value and (failures := self.take_failures()):
            raise FailedCallsError(failures)

    def forget(self) -> None:
        """Of a process that was forked: the calls are its parent's, and pinned memory is not its own."""
        self._bell, self._slots, self._lock = c_uint32(0), [], threading.Lock()

    def take_failures(self) -> list[FailedCall]:
        """What failed since the last time, as far as the device has said; each failure is returned once."""
        if not self._bell.value:
            return []
        with self._lock:
            self._bell.value = 0  # first: whoever rings from now on is looked for again
            return [failed for slot in self._slots for failed in slot.new_failures()]


def process_log() -> CallLog:
    """The log of this process, made at the first call."""
    with _making:
        return _process_log()


@cache
def _process_log() -> CallLog:
    log = CallLog(_pinned)
    atexit.register(warn_of_failures, log)
    return log


def _forget_parents_calls() -> None:
    if _process_log.cache_info().currsize:
        _process_log().forget()


os.register_at_fork(after_in_child=_forget_parents_calls)


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
