"""Launches: kernel boundary, dependent launch, fork and join over streams, set-up, the host, the timer.

Example: twenty kernels of 3 us in a CUDA graph start 1.06 us after one another's last block. Two on two
streams take 0.9 us more than on one, beyond what their blocks take: fork and join.
"""

import time
from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended

FILE, THREADS, WORK_NS = "launches.cu", 256, 3_000
SHARED_SHARE = 0.75  # of what a block may have: GEMMs take most of it
KERNELS, REPLAYS, PAIR_REPLAYS, TIMER_STEPS = 20, 40, 100, 2_000
HOST_TURNS, HOST_LAUNCHES = 50, 500


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results in ns: gaps between kernels, times of pairs, the host's per launch, steps of the timer."""
    kernels = ["span", *(["dependent_span"] if bench.is_hopper else [])]
    return {
        "mean_gaps_ns": {name: _gaps(bench, name) for name in kernels},
        "graphs_ns": {
            name: _pairs(bench, streams) for name, streams in (("one stream", 1), ("two streams", 2))
        },
        "host_ns": _host_ns(bench),
        "timer_steps_ns": _timer_steps(bench),
    }


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Overheads of launches, and the timer's step."""
    source = "least step of %globaltimer in a loop"
    result = [MeasuredConstant("timer.step_ns", _whole([min(raw["timer_steps_ns"])]), source)]
    source = "one launch from Python through CuPy, of 500; the fastest fifth of 50 turns"
    result.append(MeasuredConstant("overheads.host_ns", _whole(raw["host_ns"]), source))
    if "mean_gaps_ns" in raw:
        result += _between_kernels(raw["mean_gaps_ns"])
    if "graphs_ns" in raw:
        result += _around_kernels(raw["graphs_ns"])
    return result


def _between_kernels(gaps: dict[str, list[float]]) -> list[MeasuredConstant]:
    whole = f"{KERNELS} kernels in a CUDA graph, a large block per SM"
    source = f"{whole}: last block's end to the next one's start"
    kernels = [MeasuredConstant("overheads.boundary_ns", _whole(gaps["span"]), source)]
    if "dependent_span" in gaps:
        source = f"{whole}, dependent launch: last block's end to the return of the wait for it"
        kernels.append(MeasuredConstant("overheads.dependent_ns", _whole(gaps["dependent_span"]), source))
    return kernels


def _around_kernels(graphs: dict[str, list[float]]) -> list[MeasuredConstant]:
    setup = float(np.median(graphs["one stream"]))
    added = [max(0.0, ns - setup) for ns in graphs["two streams"]]
    source = "a CUDA graph of two kernels: time between events less first block to last"
    other = "the same behind a memset, with a stream for each, forked and joined, less set-up"
    return [
        MeasuredConstant("overheads.setup_ns", _whole(graphs["one stream"]), source),
        MeasuredConstant("overheads.multi_stream_ns", _whole(added), other),
    ]


def _gaps(bench: MicroBench, name: str) -> list[float]:
    """Per replay, the mean gap from a kernel's last block to the next one's first: finer than the timer."""
    shared = int(SHARED_SHARE * bench.device.shared_bytes_per_block)
    kernel, stamps = bench.kernel(FILE, name, shared), bench.zeros((KERNELS, bench.sms, 2))
    shape = KernelLaunch(name, THREADS, shared, bench.sms, is_dependent=True)

    def enqueue() -> None:
        for row in stamps:
            arguments = (np.uint64(row.data.ptr), np.uint64(WORK_NS))
            if name == "span":
                bench.launch(kernel, bench.sms, THREADS, *arguments, shared=shared)
            else:
                launch_extended(kernel.function, shape, arguments, bench.stream)

    graph, gaps = bench.capture(enqueue), []
    bench.warm_up(lambda: graph.launch(bench.stream))
    for _ in range(REPLAYS):
        graph.launch(bench.stream)
        bench.synchronize()
        seen = stamps.get().astype(np.int64)
        gaps.append(float(np.mean(seen[1:, :, 0].min(1) - seen[:-1, :, 1].max(1))))
    return gaps


def _pairs(bench: MicroBench, streams: int) -> list[float]:
    """Per replay, what a graph of two kernels takes beside its blocks; on two streams behind a memset."""
    kernel, stamps = bench.kernel(FILE, "span"), bench.zeros((2, bench.sms, 2))
    cleared = bench.zeros(1024, np.uint8)
    other = bench.cupy.cuda.Stream(non_blocking=True)

    def enqueue() -> None:
        if streams > 1:  # semaphores are reset before kernels that wait for them
            cleared.data.memset_async(0, cleared.nbytes, bench.stream)
            other.wait_event(bench.stream.record())
        for row, stream in zip(stamps, (bench.stream, other if streams > 1 else bench.stream), strict=True):
            arguments = (np.uint64(row.data.ptr), np.uint64(WORK_NS))
            bench.launch(kernel, bench.sms, THREADS, *arguments, stream=stream)
        if streams > 1:
            bench.stream.wait_event(other.record())

    graph, pairs = bench.capture(enqueue), []
    bench.warm_up(lambda: graph.launch(bench.stream))
    for _ in range(PAIR_REPLAYS):
        whole = bench.elapsed_ns(lambda: graph.launch(bench.stream))
        seen = stamps.get()
        pairs.append(whole - float(seen[..., 1].max() - seen[..., 0].min()))
    return pairs


def _host_ns(bench: MicroBench) -> list[float]:
    """Nanoseconds of one launch among many, in the turns in which the host did little else."""
    kernel, stamps, times_ns = bench.kernel(FILE, "span"), bench.zeros((1, 2)), []
    for _ in range(HOST_TURNS):
        bench.synchronize()
        began = time.perf_counter_ns()
        for _ in range(HOST_LAUNCHES):
            bench.launch(kernel, 1, 32, stamps, np.uint64(0))
        times_ns.append((time.perf_counter_ns() - began) / HOST_LAUNCHES)
        bench.synchronize()
    return sorted(times_ns)[: HOST_TURNS // 5]


def _timer_steps(bench: MicroBench) -> list[float]:
    values = bench.zeros(TIMER_STEPS)
    bench.launch(bench.kernel(FILE, "timer_values"), 1, 1, values, np.int32(TIMER_STEPS))
    bench.synchronize()
    return sorted({float(step) for step in np.diff(values.get())})


def _whole(values: list[float]) -> list[int]:
    return [round(value) for value in values]
