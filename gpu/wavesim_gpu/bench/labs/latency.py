"""Bandwidth by warps and loads in flight, beside the simulation that has only a latency and a bandwidth.

Example: `python -m wavesim_gpu.bench.labs.latency --out latency.json` on a GPU. One warp alone on the
GPU, with one load in flight, gives the latency: what it loads tells it where to load next. Then 4 to 64 warps
on every SM have 1 to 4 loads each in flight; dynamic shared memory keeps further blocks away. No point is
used to predict another one. A line for each says what was measured, simulated, and how far off that is.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.costs.constants import MEASURED, read_device_file
from wavesim.model.device import Device, catalogue_name
from wavesim.sm.loads import LoadLoop
from wavesim_gpu.bench.libraries.limits import COPIED_BYTES, copying
from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.run.timing import interleaved_ns

SOURCE = Path(__file__).with_suffix(".cu")
THREADS, WARP_THREADS, WORD_BYTES = 128, 32, 16
BLOCKS, LOADS = (1, 2, 4, 8, 16), (1, 2, 4)  # of eight loads some would wait for registers
REPEATS = 7
POOL_BYTES = 4 << 30  # beyond any L2
# One warp's next load is so far away that no DRAM page and no line fetched ahead serves it; less than the
# pages that translations are kept for.
CHASE_STEP_BYTES, CHASE_ROUNDS = (64 << 10) + 512, 4096
PEAK = "memory.dram_bytes_per_s"
SHARED_STEP = 128


def loops(device: Device) -> Iterator[tuple[LoadLoop, int]]:
    """The points, with the dynamic shared memory that lets no further block on an SM."""
    for blocks in BLOCKS:
        if blocks <= min(device.max_blocks_per_sm, device.max_threads_per_sm // THREADS):
            for loads in LOADS:
                yield LoadLoop(blocks * THREADS // WARP_THREADS, loads), shared_bytes(device, blocks)


def shared_bytes(device: Device, blocks: int) -> int:
    """The most dynamic shared memory of which so many blocks fit on an SM."""
    each = device.shared_bytes_per_sm // blocks - device.reserved_shared_bytes_per_block
    return min(each, device.shared_bytes_per_block) // SHARED_STEP * SHARED_STEP


def rounds_of(loop: LoadLoop, sms: int, pool_bytes: int) -> int:
    """As many rounds as read the pool once."""
    return max(1, pool_bytes // (sms * loop.in_flight_bytes))


def measure(bench: MicroBench) -> dict[str, Any]:
    """Every point in turns, and the latency, in nanoseconds."""
    free = bench.cupy.cuda.runtime.memGetInfo()[0]
    pool = bench.cupy.zeros(min(POOL_BYTES, free // 2) // 512 * 512, np.uint8)
    sink, points = bench.zeros(1, np.uint32), list(loops(bench.device))
    bench.warm_up(lambda: _launch(bench, pool, sink, LoadLoop(32, 4), shared_bytes(bench.device, 8)), 0.2)
    times: list[list[float]] = [[] for _ in points]
    latencies = []
    for _ in range(REPEATS):
        latencies.append(_latency_ns(bench, pool, sink))
        for result, (loop, shared) in zip(times, points, strict=True):
            if _fits(bench, loop, shared):
                result.append(
                    bench.elapsed_ns(
                        lambda loop=loop, shared=shared: _launch(bench, pool, sink, loop, shared)
                    )
                )
    if int(sink.get()[0]):
        raise ArithmeticError("a load returned what is not in memory: all of it is zeros")
    return {
        "latency_ns": latencies,
        "points": [
            {**asdict(loop), "bytes": _moved(bench, pool, loop), "rounds_ns": result}
            for result, (loop, _) in zip(times, points, strict=True)
            if result
        ],
    }


def _fits(bench: MicroBench, loop: LoadLoop, shared: int) -> bool:
    """Whether exactly the loop's blocks are resident: registers may allow fewer."""
    kernel = bench.kernel(SOURCE.as_posix(), _name(loop), shared)
    return kernel.blocks_per_sm(THREADS, shared) == loop.warps * WARP_THREADS // THREADS


def _name(loop: LoadLoop) -> str:
    return f"load_loop<{loop.loads}>"


def _moved(bench: MicroBench, pool: Any, loop: LoadLoop) -> int:
    return bench.sms * loop.in_flight_bytes * rounds_of(loop, bench.sms, pool.nbytes)


def _launch(bench: MicroBench, pool: Any, sink: Any, loop: LoadLoop, shared: int) -> None:
    kernel = bench.kernel(SOURCE.as_posix(), _name(loop), shared)
    step = np.uint32(bench.sms * loop.in_flight_bytes // WORD_BYTES)
    rounds = np.int32(rounds_of(loop, bench.sms, pool.nbytes))
    blocks = bench.sms * loop.warps * WARP_THREADS // THREADS
    bench.launch(kernel, blocks, THREADS, pool, step, rounds, sink, shared=shared)


def _latency_ns(bench: MicroBench, pool: Any, sink: Any) -> float:
    """Of one warp's dependent loads, with the GPU to itself and none of its lines in the L2."""
    kernel = bench.kernel(SOURCE.as_posix(), _name(LoadLoop(1, 1)))
    rounds = min(CHASE_ROUNDS, pool.nbytes // 2 // CHASE_STEP_BYTES)
    rest = pool[pool.nbytes // 2 :]
    rest.data.memset_async(0, rest.nbytes, bench.stream)  # the L2 then holds this
    arguments = (pool, np.uint32(CHASE_STEP_BYTES // WORD_BYTES), np.int32(rounds), sink)
    return bench.elapsed_ns(lambda: bench.launch(kernel, 1, WARP_THREADS, *arguments)) / rounds


def peak_of(device: Device) -> tuple[float, str]:
    """Bytes/s that the memory gives, measured otherwise: the device file's, else a copy's of this run."""
    path = MEASURED / f"{catalogue_name(device.name)}.toml"
    known = read_device_file(path).constants.get(PEAK) if path.is_file() else None
    if known is not None:
        return float(known.value), f"{known.source}, {known.date}"
    times = interleaved_ns([copying()], REPEATS)[0]
    return 2 * COPIED_BYTES / float(np.median(times)) * 1e9, "device-to-device copy of this run"


def document(_rounds: int) -> dict[str, Any]:
    """The latency, the peak and every point."""
    bench = MicroBench()
    peak, source = peak_of(bench.device)
    return {
        "kernel_sources": source_hash(SOURCE),
        "bus_bits": int(bench.cupy.cuda.Device().attributes["GlobalMemoryBusWidth"]),
        "peak_bytes_per_s": peak,
        "peak_source": source,
        **measure(bench),
    }
