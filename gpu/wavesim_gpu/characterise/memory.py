"""Memory: a copy, panels read as GEMMs read them, what the L2 holds of what all SMs read, near and far lines.

Example: a copy moves 4.3 TB/s and 132 SMs that each read panels of their own 4.0. Sets that all SMs read at
random outgrow the L2 at 30 MB, sets of which each SM reads a part of its own at 60: the halves keep copies.
"""

from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant

FILE, REPEATS = "memory.cu", 7
COPY_BYTES = 1 << 30
# Panels of a 128x256 tile's operands, rows of K = 12288 halves; a k-block is 128 bytes of each row.
PANEL_ROWS, K_BLOCKS, MOST_DEPTH, PANEL_THREADS = 384, 192, 4, 256
DRIFT = 24  # k-blocks by which SMs that read out of step differ at most
MB = 1 << 20
LOADS = (
    0.3,
    0.5,
    0.7,
    0.9,
    1.0,
    1.1,
    1.2,
    1.3,
    1.5,
    2.0,
)  # of the data sheet's bandwidth, asked for by paced panels
SET_SIZES_MB = (4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 80, 96, 128, 192, 256, 512)
CHUNK_BYTES, READ_THREADS, READ_ROUNDS = 2048, 1024, 300
LARGEST_SET = 4 << 30
LINES, LINES_APART, LATENCY_ROUNDS = 128, 8 * 1024 + 128, 4
FEWEST_LATENCIES = 20  # to be split in two groups
SOUGHT = (2.0, 8.0)  # sets of so many times the L2 tell its capacity


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results in bytes/s and cycles."""
    pool = bench.cupy.zeros(_pool_bytes(bench), np.uint8)
    bench.synchronize()
    return {
        "copy_bytes_per_s": _copies(bench, pool),
        "panels_bytes_per_s": _panels(bench, pool),
        "panel_depth": _depth(bench),
        "paced": _paced(bench, pool),
        "sets_bytes_per_s": {
            name: _sets(bench, pool, is_private) for name, is_private in (("shared", 0), ("private", 1))
        },
        "cycles_bytes_per_s": _cyclic(bench, pool),
        "latency_cycles": {
            name: _latencies(bench, pool, is_coherent)
            for name, is_coherent in (("coherent", 1), ("cached", 0))
        },
        "l2_bytes": bench.device.l2_bytes,
    }


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Bandwidths, how much of the L2 holds what all SMs read, and its near and far latency."""
    panels, sets, l2_bytes = raw["panels_bytes_per_s"], raw["sets_bytes_per_s"], raw["l2_bytes"]
    shared, private = (capacities(sets[name], l2_bytes) for name in ("shared", "private"))
    near, far = near_and_far(raw["latency_cycles"]["cached"]["cycles"])
    scattered = [entry / middle for entry, middle in zip(panels["scattered"], panels["drifted"], strict=True)]
    small = min(sets["shared"], key=int)
    return [
        MeasuredConstant(
            "memory.copy_bytes_per_s",
            raw["copy_bytes_per_s"],
            "device-to-device copy, bytes read and written",
        ),
        MeasuredConstant(
            "memory.dram_bytes_per_s",
            panels["drifted"],
            "every SM reads panels of its own, 128 bytes of 384 rows at a time, a few k-blocks out of step",
        ),
        MeasuredConstant(
            "memory.scattered_share",
            [min(1.0, share) for share in scattered],
            "the same from places all over K, over a few k-blocks out of step",
        ),
        MeasuredConstant(
            "memory.l2_bytes",
            [round(entry) for entry in shared],
            "all SMs read at random in sets larger than the L2: the share of reads that DRAM did not serve",
        ),
        MeasuredConstant(
            "l2.copies",
            [mine / all_ for mine, all_ in zip(private, shared, strict=True)],
            "the same where each SM reads a part of its own, over where all read all",
        ),
        MeasuredConstant(
            "l2.bytes_per_s", sets["shared"][small], f"all SMs read at random in a set of {small} MB"
        ),
        MeasuredConstant(
            "l2.near_cycles", [near], "one thread per SM reads 128 lines: the nearer half of lines, median"
        ),
        MeasuredConstant(
            "l2.far_cycles", [far], "one thread per SM reads 128 lines: the farther half of lines, median"
        ),
    ]


def capacities(by_size: dict[str, list[float]], l2_bytes: int) -> list[float]:
    """Bytes of random sets that the L2 holds, by repeat.

    Of a set of S bytes a share C / S is in the L2 and DRAM serves the rest: the rate is D / (1 - C / S). D is
    the rate of the largest set.
    """
    largest = max(by_size, key=int)
    result = []
    for repeat, dram in enumerate(by_size[largest]):
        sizes = [size for size in by_size if SOUGHT[0] <= int(size) * MB / l2_bytes <= SOUGHT[1]]
        base = dram * (1 - l2_bytes / (int(largest) * MB))  # what the largest set still found in the L2
        each = [int(size) * MB * (1 - base / by_size[size][repeat]) for size in sizes]
        result.append(float(np.median(each)))
    return result


def near_and_far(cycles: list[list[float]]) -> tuple[float, float]:
    """Medians of the nearer and the farther lines, (SMs, lines): split where two groups are tightest."""
    values = np.sort(np.asarray(cycles, float).ravel())
    values = values[(values > 0) & (values < 2 * np.median(values))] if len(values) else values
    if len(values) < FEWEST_LATENCIES:
        return (float(np.median(values)),) * 2 if len(values) else (0.0, 0.0)
    cuts = np.arange(len(values) // 10, len(values) - len(values) // 10)
    total, squares = np.cumsum(values), np.cumsum(values**2)
    left = squares[cuts - 1] - total[cuts - 1] ** 2 / cuts
    right = (squares[-1] - squares[cuts - 1]) - (total[-1] - total[cuts - 1]) ** 2 / (len(values) - cuts)
    cut = int(cuts[np.argmin(left + right)])
    return float(np.median(values[:cut])), float(np.median(values[cut:]))


def _pool_bytes(bench: MicroBench) -> int:
    """Room for the largest set and all panels; less where the GPU has less."""
    free = bench.cupy.cuda.runtime.memGetInfo()[0]
    wanted = max(LARGEST_SET, bench.sms * PANEL_ROWS * K_BLOCKS * 128, 2 * COPY_BYTES)
    return int(min(wanted, free // 2 // MB * MB))


def _copies(bench: MicroBench, pool: Any) -> list[float]:
    size = min(COPY_BYTES, pool.nbytes // 2)
    source, target = pool[:size], pool[size : 2 * size]

    def copy() -> None:
        target.data.copy_from_device_async(source.data, size, bench.stream)

    bench.warm_up(copy)
    return [2 * size / bench.elapsed_ns(copy) * 1e9 for _ in range(REPEATS)]


def _depth(bench: MicroBench) -> int:
    return max(1, min(MOST_DEPTH, bench.device.shared_bytes_per_block // (PANEL_ROWS * 128)))


def _panels(bench: MicroBench, pool: Any) -> dict[str, list[float]]:
    """Bytes per second with SMs in step, a few k-blocks apart, and all over K."""
    depth, chance = _depth(bench), np.random.default_rng(0)
    shared = depth * PANEL_ROWS * 128
    kernel, durations = bench.kernel(FILE, "panels", shared), bench.zeros((bench.sms, 2))
    firsts = {
        "in step": np.zeros(bench.sms, np.int32),
        "drifted": chance.integers(0, DRIFT, bench.sms).astype(np.int32),
        "scattered": chance.integers(0, K_BLOCKS, bench.sms).astype(np.int32),
    }
    placed = {name: bench.cupy.asarray(values) for name, values in firsts.items()}
    rows = min(PANEL_ROWS, pool.nbytes // (bench.sms * K_BLOCKS * 128))
    panels: dict[str, list[float]] = {name: [] for name in firsts}
    for repeat in range(-2, 2 * REPEATS):
        for name, first in placed.items():
            params = _panel_params(pool, first, durations, rows, depth)
            bench.launch(kernel, bench.sms, PANEL_THREADS, params, shared=shared)
            bench.synchronize()
            if repeat >= 0:
                panels[name].append(_added_up(rows * K_BLOCKS * 128, durations))
    return panels


def _paced(bench: MicroBench, pool: Any) -> list[dict[str, Any]]:
    """Nanoseconds of panels with work between k-blocks: from which cycles of work on DRAM holds it up."""
    depth, chance = _depth(bench), np.random.default_rng(0)
    shared = depth * PANEL_ROWS * 128
    kernel, durations = bench.kernel(FILE, "panels", shared), bench.zeros((bench.sms, 2))
    first = bench.cupy.asarray(chance.integers(0, DRIFT, bench.sms).astype(np.int32))
    rows = min(PANEL_ROWS, pool.nbytes // (bench.sms * K_BLOCKS * 128))
    needed = (
        bench.sms * rows * 128 / bench.device.dram_bytes_per_s * bench.device.clock_hz
    )  # cycles of a k-block
    result = []
    for load in LOADS:
        cycles = round(needed / load)
        times = []
        for _ in range(REPEATS):
            params = _panel_params(pool, first, durations, rows, depth)
            params["work_cycles"] = cycles
            bench.launch(kernel, bench.sms, PANEL_THREADS, params, shared=shared)
            bench.synchronize()
            seen = durations.get()
            times.append(float(np.median(seen[:, 1] - seen[:, 0])))
        result.append(
            {"load": load, "cycles": cycles, "bytes": bench.sms * rows * K_BLOCKS * 128, "ns": times}
        )
    return result


# memory.cu, PanelParams.
PANEL_PARAMS = np.dtype(
    {
        "names": ["base", "first", "durations", "row_bytes", "rows", "k_blocks", "depth", "work_cycles"],
        "formats": ["<u8"] * 4 + ["<i4"] * 4,
        "offsets": [0, 8, 16, 24, 32, 36, 40, 44],
        "itemsize": 48,
    }
)


def _panel_params(pool: Any, first: Any, durations: Any, rows: int, depth: int) -> Any:
    params = np.zeros(1, PANEL_PARAMS)[0]
    params["base"], params["first"], params["durations"] = pool.data.ptr, first.data.ptr, durations.data.ptr
    params["row_bytes"], params["rows"] = K_BLOCKS * 128, rows
    params["k_blocks"], params["depth"] = K_BLOCKS, depth
    return params


def _added_up(size: int, durations: Any) -> float:
    """Bytes per second of all SMs that read so much each, without the microseconds when only some do."""
    seen = durations.get()
    return float(np.sum(size / np.maximum(1, seen[:, 1] - seen[:, 0]))) * 1e9


def _span_ns(durations: Any) -> float:
    seen = durations.get()
    return float(seen[:, 1].max() - seen[:, 0].min())


def _sets(bench: MicroBench, pool: Any, is_private: int) -> dict[str, list[float]]:
    """Bytes per second by the size of the set in MB, in turns."""
    kernel, durations = bench.kernel(FILE, "random_reads"), bench.zeros((bench.sms, 2))
    sink = bench.zeros(1, np.uint32)
    sizes = [size for size in SET_SIZES_MB if size * MB < pool.nbytes] + [pool.nbytes // MB]
    moved = bench.sms * (READ_THREADS // 32) * READ_ROUNDS * CHUNK_BYTES
    sets: dict[str, list[float]] = {str(size): [] for size in sizes}
    for repeat in range(REPEATS):
        for size in sizes:
            chunks = size * MB // CHUNK_BYTES
            for turn in range(2):  # the first fills the L2
                arguments = (np.uint32(chunks), np.int32(is_private), np.int32(READ_ROUNDS))
                seed = np.uint32(2 * repeat + turn)
                bench.launch(kernel, bench.sms, READ_THREADS, pool, *arguments, seed, durations, sink)
            bench.synchronize()
            sets[str(size)].append(moved / _span_ns(durations) * 1e9)
    return sets


def _cyclic(bench: MicroBench, pool: Any) -> dict[str, list[float]]:
    """Bytes per second of sets that all SMs read round and round, by their size in MB, in turns."""
    kernel, durations = bench.kernel(FILE, "cyclic_reads"), bench.zeros((bench.sms, 2))
    sink = bench.zeros(1, np.uint32)
    sizes = [size for size in SET_SIZES_MB if size * MB < pool.nbytes]
    moved = bench.sms * (READ_THREADS // 32) * READ_ROUNDS * CHUNK_BYTES
    rates: dict[str, list[float]] = {str(size): [] for size in sizes}
    for _ in range(REPEATS):
        for size in sizes:
            chunks = np.uint32(size * MB // CHUNK_BYTES)
            for _ in range(2):  # the first fills the L2
                arguments = (pool, chunks, np.int32(READ_ROUNDS), durations, sink)
                bench.launch(kernel, bench.sms, READ_THREADS, *arguments)
            bench.synchronize()
            rates[str(size)].append(moved / _span_ns(durations) * 1e9)
    return rates


def _latencies(bench: MicroBench, pool: Any, is_coherent: int) -> dict[str, Any]:
    """Cycles of one read by SM and line."""
    kernel = bench.kernel(FILE, "latencies")
    cycles, sms = bench.zeros((bench.sms, LINES), np.uint32), bench.zeros(bench.sms, np.uint32)
    head = (pool, np.int32(LINES), np.uint32(LINES_APART // 4), np.int32(LATENCY_ROUNDS))
    for reader in range(bench.sms):
        bench.launch(kernel, bench.sms, 32, *head, np.uint32(reader), np.int32(is_coherent), cycles, sms)
    bench.synchronize()
    return {"cycles": cycles.get().tolist(), "sms": sms.get().tolist()}
