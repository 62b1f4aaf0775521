"""Sharing an SM: how fast one to four blocks get on beside each other, and beside blocks that wait.

Example: two blocks that keep the tensor cores busy run at half the speed of one alone, four that wait for the
L2 run at the whole; a block whose one thread polls costs its neighbour 3 %. Speeds are steps per SM cycle, so
that the clock is not in them.
"""

from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant

FILE, REPEATS, MOST = "load.cu", 5, 4
KINDS = {
    "tensor": ("tensor_work", 256),
    "light tensor": ("light_tensor_work", 128),
    "barrier tensor": ("barrier_tensor_work", 128),
    "fma": ("fma_work", 256),
    "latency": ("latency_work", 128),
}
WINDOW = 600_000  # cycles
PROGRESS = np.dtype(
    [
        ("start_ns", "<u8"),
        ("ns", "<u8"),
        ("cycles", "<u8"),
        ("steps", "<u8"),
        ("sm", "<u4"),
        ("unused", "<u4", 3),
    ]
)
LINKS, LINK_STRIDE = 1 << 19, 4_093  # a ring through 2 MB
# Threads that poll, and whether they sleep between two looks.
SPINNERS = {"polling": (1, 0), "sleeping": (1, 1), "polling all": (256, 0)}
# What stands for a GEMM: multiply-adds between barriers.
GEMM = "barrier tensor"


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results: steps per 1000 cycles of blocks by kind, blocks per SM and place in the order of issue."""
    links = bench.cupy.asarray((np.arange(LINKS, dtype=np.uint32) + LINK_STRIDE) % LINKS)
    return {
        "rates": {kind: [_rates(bench, kind, links) for _ in range(REPEATS)] for kind in KINDS},
        "light_ghz": [_light_ghz(bench, links) for _ in range(REPEATS)],
        "beside_spinning": {
            name: {kind: _beside(bench, kind, links, how) for kind in KINDS} for name, how in SPINNERS.items()
        },
    }


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Speeds of one to four blocks over that of one alone, and what a spinning neighbour takes."""
    source = "one SM's clock while its blocks wait for the L2 most of the time"
    result = [MeasuredConstant("clock.light_ghz", raw["light_ghz"], source)]
    for kind, name in ((GEMM, "tensor_speeds"), ("fma", "fma_speeds"), ("latency", "latency_speeds")):
        each = [speeds(repeat) for repeat in raw["rates"][kind]]
        middle = [round(min(1.0, float(np.median(column))), 4) for column in zip(*each, strict=True)]
        result.append(
            MeasuredConstant(f"sharing.{name}", [middle], f"1 to {MOST} blocks of {kind} work on every SM")
        )
    for spinner, name in (("polling", "spin_share"), ("sleeping", "sleeping_spin_share")):
        lost = [max(0.0, 1 - beside / alone) for alone, beside in raw["beside_spinning"][spinner][GEMM]]
        source = f"what blocks of {GEMM} lose to a block beside them of which one thread waits, {spinner}"
        result.append(MeasuredConstant(f"sharing.{name}", lost, source))
    return result


def speeds(rates: list[list[float]]) -> list[float]:
    """Mean speed of 1, 2, ... blocks on an SM over that of one."""
    return [float(np.mean(each)) / rates[0][0] for each in rates]


def _rates(bench: MicroBench, kind: str, links: Any) -> list[list[float]]:
    """Of 1 to 4 blocks per SM, the median steps per 1000 cycles of the oldest, the next, ..."""
    name, threads = KINDS[kind]
    kernel, sink, rates = bench.kernel(FILE, name), bench.zeros(1, np.float32), []
    for count in range(1, MOST + 1):
        progress = bench.zeros(count * bench.sms * PROGRESS.itemsize, np.uint8)
        arguments = (np.uint64(WINDOW), links, progress, sink)
        for _ in range(2):  # once to warm up
            bench.launch(kernel, count * bench.sms, threads, *arguments)
        bench.synchronize()
        rates.append(_by_age(progress.get().view(PROGRESS), count))
    return rates


def _light_ghz(bench: MicroBench, links: Any) -> float:
    """The clock of SMs that wait for the L2 most of the time: the highest that there is."""
    name, threads = KINDS["latency"]
    progress, sink = bench.zeros(bench.sms * PROGRESS.itemsize, np.uint8), bench.zeros(1, np.float32)
    arguments = (np.uint64(10 * WINDOW), links, progress, sink)
    bench.launch(bench.kernel(FILE, name), bench.sms, threads, *arguments)
    bench.synchronize()
    seen = progress.get().view(PROGRESS)
    return float(np.median(seen["cycles"] / np.maximum(1, seen["ns"])))


def _by_age(seen: Any, count: int) -> list[float]:
    """Medians over SMs that hold `count` blocks, the oldest block first."""
    rate = 1000 * seen["steps"] / np.maximum(1, seen["cycles"])
    by_sm: dict[int, list[int]] = {}
    for row in np.lexsort((np.arange(len(seen)), seen["start_ns"])):
        by_sm.setdefault(int(seen["sm"][row]), []).append(int(row))
    full = [rate[rows] for rows in by_sm.values() if len(rows) == count]
    return [float(entry) for entry in np.median(full, axis=0)] if full else [float("nan")] * count


def _beside(bench: MicroBench, kind: str, links: Any, how: tuple[int, int]) -> list[tuple[float, float]]:
    """Per repeat, steps per 1000 cycles without and with a waiting block on each SM."""
    name, threads = KINDS[kind]
    work, spin = bench.kernel(FILE, name), bench.kernel(FILE, "spin")
    polls, sink = bench.zeros(bench.sms, np.uint32), bench.zeros(1, np.float32)
    progress = bench.zeros(bench.sms * PROGRESS.itemsize, np.uint8)
    counter, step = bench.zeros(1, np.uint32), bench.cupy.ones(1, np.uint32)
    beside, result = bench.cupy.cuda.Stream(non_blocking=True), []
    arguments = (np.uint64(WINDOW), links, progress, sink)

    def rate() -> float:
        for _ in range(2):
            bench.launch(work, bench.sms, threads, *arguments)
        bench.stream.synchronize()
        return _by_age(progress.get().view(PROGRESS), 1)[0]

    for _ in range(REPEATS):
        alone = rate()
        bench.launch(spin, bench.sms, 256, counter, *map(np.int32, how), polls, stream=beside)
        shared = rate()
        counter.data.copy_from_device_async(step.data, step.nbytes, bench.stream)
        bench.synchronize()
        counter.fill(0)
        bench.synchronize()
        result.append((alone, shared))
    return result
