"""The figures of a `StreamMachine`, measured on the GPU at hand by programs that no example is.

Example: 100 launches behind a kernel that holds the stream take the host 0.4 ms more than none: 4 us each. No
figure is fitted to the examples that are compared with the simulator afterwards.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from wavesim.sim.streams.examples import MB, ONE_WARP
from wavesim.sim.streams.program import (
    CudaStream,
    Direction,
    HostCall,
    HostThread,
    LaunchHostFunction,
    LaunchKernel,
    Memcpy,
    RecordEvent,
    StreamProgram,
    SynchronizeDevice,
    WaitEvent,
)
from wavesim_gpu.bench.labs.streams.program_run import ProgramRun
from wavesim_gpu.driver.device import require_cupy

ASYNC_ENGINES = 40  # cudaDevAttrAsyncEngineCount
CALLS, CHAIN = 100, 12
HOLD_NS, LINK_NS, PROBE_NS = 2_000_000, 20_000, 1_000_000
SMALL_BYTES, LESS_BYTES, MORE_BYTES, PROBE_BYTES = 4_096, 16 * MB, 80 * MB, 40 * MB
STREAMS = [CudaStream(name, is_blocking=False) for name in "ab"]


@dataclass(frozen=True)
class Calibrator:
    """Medians over `rounds` runs of each program."""

    rounds: int

    def figures(self) -> dict[str, float]:
        """All figures but `queues` and `has_copy_queues`: rates in bytes per second, times in whole ns."""
        result: dict[str, float] = {"copy_engines": min(3, self._engines())}
        result["launch_call_ns"] = self._call_ns([kernel(f"k{n}", 1_000) for n in range(CALLS)])
        result["copy_call_ns"] = self._call_ns([copy(f"c{n}", "h2d", SMALL_BYTES) for n in range(CALLS)])
        result["event_call_ns"] = self._call_ns([RecordEvent(f"e{n}", "a") for n in range(CALLS)])
        alone_ns = self._total_ns([kernel("k", HOLD_NS)])
        result["synchronize_ns"] = whole(alone_ns - HOLD_NS - result["launch_call_ns"])
        result |= self._rates()
        return result | self._gaps(result["h2d_bytes_per_s"])

    def has_copy_queues(self) -> bool:
        """Whether a copy to the device passes one to the host that waits for a kernel: with one queue for all
        kernels, so in a process that has one.
        """
        blocking: list[HostCall] = [kernel("k", PROBE_NS), copy("out", "d2h", SMALL_BYTES)]
        later = copy("in", "h2d", PROBE_BYTES, stream="b")
        apart_ns = self._total_ns([later])
        return self._total_ns([*blocking, later]) < PROBE_NS + apart_ns / 2

    def _engines(self) -> int:
        cupy = require_cupy()
        return int(cupy.cuda.runtime.deviceGetAttribute(ASYNC_ENGINES, cupy.cuda.Device().id))

    def _rates(self) -> dict[str, float]:
        names: tuple[Direction, ...] = ("h2d", "d2h", "d2d")
        result = {f"{name}_bytes_per_s": self._rate(name) for name in names}
        for name in names[:2]:
            result[f"pageable_{name}_bytes_per_s"] = self._rate(name, is_pinned=False)
        each_ns = [1e9 * MORE_BYTES / result[f"{name}_bytes_per_s"] for name in names[:2]]
        both = [copy("in", "h2d", MORE_BYTES), copy("out", "d2h", MORE_BYTES, stream="b")]
        less = [copy("in", "h2d", LESS_BYTES), copy("out", "d2h", LESS_BYTES, stream="b")]
        added_ns = self._total_ns(both) - self._total_ns(less)
        share = max(each_ns) * (1 - LESS_BYTES / MORE_BYTES) / added_ns
        return {**result, "duplex_share": min(1.0, max(0.1, share))}

    def _rate(self, direction: Direction, *, is_pinned: bool = True) -> float:
        """From the time that more bytes take longer."""
        less, more = (
            self._total_ns([copy("c", direction, count, is_pinned=is_pinned)])
            for count in (LESS_BYTES, MORE_BYTES)
        )
        return 1e9 * (MORE_BYTES - LESS_BYTES) / max(1.0, more - less)

    def _gaps(self, h2d_bytes_per_s: float) -> dict[str, float]:
        """What passes between the kernels of a chain, as its links differ."""
        boundary = self._gap_ns([])
        crossed = self._crossed_gap_ns()
        copied = self._gap_ns([copy("c", "h2d", SMALL_BYTES)])
        called = self._gap_ns([LaunchHostFunction("f", "a", 0)])
        return {
            "boundary_ns": whole(boundary),
            "handover_ns": whole(crossed),
            "copy_ns": whole(copied - 2 * crossed - 1e9 * SMALL_BYTES / h2d_bytes_per_s),
            "host_function_ns": whole(called - 2 * crossed),
        }

    def _gap_ns(self, link: Sequence[Memcpy | LaunchHostFunction]) -> float:
        """From one kernel's last block to the next one's first, with a link between them in their stream."""
        calls: list[HostCall] = [kernel("hold", HOLD_NS)]
        for number in range(CHAIN):
            calls += [named(entry, number) for entry in link] + [kernel(f"k{number}", LINK_NS)]
        return self._observed_gap_ns(calls)

    def _crossed_gap_ns(self) -> float:
        """The same where each kernel is on the other stream and waits for an event of the first."""
        calls: list[HostCall] = [kernel("hold", HOLD_NS)]
        for number in range(CHAIN):
            before, after = "ab"[number % 2], "ab"[(number + 1) % 2]
            calls += [RecordEvent(f"e{number}", before), WaitEvent(f"e{number}", after)]
            calls.append(kernel(f"k{number}", LINK_NS, after))
        return self._observed_gap_ns(calls)

    def _observed_gap_ns(self, calls: Sequence[HostCall]) -> float:
        run, gaps = ProgramRun(program(calls)), []
        for _ in range(self.rounds):
            run.play()
            spans = run.kernel_spans()
            inner = [spans[f"k{number}"] for number in range(CHAIN)]
            gaps += [after[0] - before[1] for before, after in pairwise(inner)]
        return statistics.median(gaps)

    def _call_ns(self, calls: Sequence[HostCall]) -> int:
        """Host time of one of these calls, made while a kernel holds the stream."""
        none, all_ = (self._played([kernel("hold", HOLD_NS), *some])[0] for some in ([], calls))
        return whole((all_ - none) / len(calls))

    def _total_ns(self, calls: Sequence[HostCall]) -> float:
        return self._played(calls)[1]

    def _played(self, calls: Sequence[HostCall]) -> tuple[float, float]:
        run = ProgramRun(program(calls))
        run.play()
        rounds = [run.play() for _ in range(self.rounds)]
        return statistics.median(issued for issued, _ in rounds), statistics.median(
            total for _, total in rounds
        )


def kernel(name: str, ns: int, stream: str = "a") -> LaunchKernel:
    """A kernel of one warp."""
    return LaunchKernel(name, stream, block_ns=ns, block=ONE_WARP)


def copy(name: str, direction: Direction, count: int, stream: str = "a", *, is_pinned: bool = True) -> Memcpy:
    """A copy with memory of its own."""
    return Memcpy(name, direction, count, stream, is_pinned=is_pinned)


def named(entry: Memcpy | LaunchHostFunction, number: int) -> HostCall:
    """The same link once more, under a name of its own."""
    if isinstance(entry, Memcpy):
        return copy(f"{entry.name}{number}", entry.direction, entry.bytes, entry.stream)
    return LaunchHostFunction(f"{entry.name}{number}", entry.stream, entry.ns)


def program(calls: Sequence[HostCall]) -> StreamProgram:
    """The calls and a wait for the device, on two non-blocking streams."""
    return StreamProgram("calibration", STREAMS, [HostThread("host", [*calls, SynchronizeDevice()])])


def whole(ns: float) -> int:
    """Not below zero: what a difference of medians can be."""
    return max(0, round(ns))
