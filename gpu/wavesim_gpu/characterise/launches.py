"""Launches: kernel boundary, dependent launch, fork and join over streams, set-up, the host, the timer.

Example: twenty kernels of 3 us in a CUDA graph start 1.06 us after one another's last block. Two on two
streams take 0.9 us more than on one, beyond what their blocks take: fork and join.
"""

import time
from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant
from wavesim_gpu.kernels.backend import KernelLaunch
from wavesim_gpu.runtime.launch_attributes import launch_extended

FILE, THREADS, WORK_NS = "launches.cu", 256, 3_000
KERNELS, REPLAYS, PAIR_REPLAYS, HOST_LAUNCHES, TIMER_STEPS = 20, 15, 40, 2_000, 2_000


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results in ns: gaps between kernels, times of pairs, the host's per launch, steps of the timer."""
    kernels = ["span", *(["dependent_span"] if bench.is_hopper else [])]
    return {
        "gaps_ns": {name: _gaps(bench, name) for name in kernels},
        "pairs_ns": {
            name: _pairs(bench, streams) for name, streams in (("one stream", 1), ("two streams", 2))
        },
        "host_ns": _host_ns(bench),
        "timer_steps_ns": _timer_steps(bench),
    }


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Overheads of launches, and the timer's step."""
    gaps, pairs = raw["gaps_ns"], raw["pairs_ns"]
    setup = _median(pairs["one stream"])
    found = [
        MeasuredConstant(
            "timer.step_ns", _whole([min(raw["timer_steps_ns"])]), "least step of %globaltimer in a loop"
        ),
        MeasuredConstant(
            "overheads.boundary_ns",
            _whole(gaps["span"]),
            f"{KERNELS} kernels in a CUDA graph, a block per SM: last block's end to the next one's start",
        ),
        MeasuredConstant(
            "overheads.setup_ns",
            _whole(pairs["one stream"]),
            "a CUDA graph of a memset and two kernels: time between events less first block to last",
        ),
        MeasuredConstant(
            "overheads.multi_stream_ns",
            _whole([max(0.0, ns - setup) for ns in pairs["two streams"]]),
            "the same with the second kernel on a stream of its own, forked and joined, less set-up",
        ),
        MeasuredConstant(
            "overheads.host_ns", _whole(raw["host_ns"]), "one launch from Python through CuPy, of 2,000"
        ),
    ]
    if "dependent_span" in gaps:
        source = (
            "the same under programmatic dependent launch: last block's end to the return of the wait for it"
        )
        found.append(MeasuredConstant("overheads.dependent_ns", _whole(gaps["dependent_span"]), source))
    return found


def _gaps(bench: MicroBench, name: str) -> list[float]:
    """Per replay, the median gap between a kernel's last block and the next one's first."""
    kernel, stamps = bench.kernel(FILE, name), bench.zeros((KERNELS, bench.sms, 2))
    shape = KernelLaunch(name, THREADS, 0, bench.sms, is_dependent=True)

    def enqueue() -> None:
        for row in stamps:
            arguments = (np.uint64(row.data.ptr), np.uint64(WORK_NS))
            if name == "span":
                bench.launch(kernel, bench.sms, THREADS, *arguments)
            else:
                launch_extended(kernel.function, shape, arguments, bench.stream)

    graph, found = bench.capture(enqueue), []
    bench.warm_up(lambda: graph.launch(bench.stream))
    for _ in range(REPLAYS):
        graph.launch(bench.stream)
        bench.synchronize()
        start, end = stamps.get()[..., 0], stamps.get()[..., 1]
        found.append(float(np.median(start[1:].min(1).astype(float) - end[:-1].max(1).astype(float))))
    return found


def _pairs(bench: MicroBench, streams: int) -> list[float]:
    """Per replay, what a graph of two kernels takes beside its blocks."""
    kernel, stamps = bench.kernel(FILE, "span"), bench.zeros((2, bench.sms, 2))
    cleared = bench.zeros(1024, np.uint8)
    other = bench.cupy.cuda.Stream(non_blocking=True)

    def enqueue() -> None:
        cleared.data.memset_async(0, cleared.nbytes, bench.stream)
        if streams > 1:
            other.wait_event(bench.stream.record())
        for row, stream in zip(stamps, (bench.stream, other if streams > 1 else bench.stream), strict=True):
            arguments = (np.uint64(row.data.ptr), np.uint64(WORK_NS))
            bench.launch(kernel, bench.sms, THREADS, *arguments, stream=stream)
        if streams > 1:
            bench.stream.wait_event(other.record())

    graph, found = bench.capture(enqueue), []
    bench.warm_up(lambda: graph.launch(bench.stream))
    for _ in range(PAIR_REPLAYS):
        whole = bench.elapsed_ns(lambda: graph.launch(bench.stream))
        seen = stamps.get()
        found.append(whole - float(seen[..., 1].max() - seen[..., 0].min()))
    return found


def _host_ns(bench: MicroBench) -> list[float]:
    """Per repeat, nanoseconds of one launch among many."""
    kernel, stamps, found = bench.kernel(FILE, "span"), bench.zeros((1, 2)), []
    for _ in range(5):
        bench.synchronize()
        began = time.perf_counter_ns()
        for _ in range(HOST_LAUNCHES):
            bench.launch(kernel, 1, 32, stamps, np.uint64(0))
        found.append((time.perf_counter_ns() - began) / HOST_LAUNCHES)
        bench.synchronize()
    return found


def _timer_steps(bench: MicroBench) -> list[float]:
    values = bench.zeros(TIMER_STEPS)
    bench.launch(bench.kernel(FILE, "timer_values"), 1, 1, values, np.int32(TIMER_STEPS))
    bench.synchronize()
    return sorted({float(step) for step in np.diff(values.get())})


def _whole(values: list[float]) -> list[int]:
    return [round(value) for value in values]


def _median(values: list[float]) -> float:
    return float(np.median(values))
