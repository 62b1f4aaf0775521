"""Semaphores: latency from SM to SM, what fetching, polling and posting add to a block, and partial sums.

Example: two blocks that post to each other in turns need 0.41 us one way. A block that posts after storing a
tile of 64 KB takes 0.4 us longer: the post waits until the stores are visible.
"""

from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant

FILE, THREADS, WORDS_APART = "semaphores.cu", 256, 64
TURNS, REPEATS, ROUNDS, WORK = 1_000, 9, 60, 400
TILE_QUADS, SUM_QUADS = (
    16,
    32,
)  # of 16 bytes per thread: 64 KB of halves, 128 KB of fp32 sums, a tile of 128x256
PARTS = {"none": 0, "fetch": 1, "poll": 2, "post": 4, "partial": 8, "fixup": 16}
# semaphores.cu, BlockCostParams.
PARAMS = np.dtype(
    {
        "names": [
            "counters",
            "tiles",
            "sums",
            "durations",
            *("parts", "rounds", "work", "tile_quads", "sum_quads"),
        ],
        "formats": ["<u8"] * 4 + ["<i4"] * 5,
        "offsets": [0, 8, 16, 24, 32, 36, 40, 44, 48],
        "itemsize": 56,
    }
)


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results: ns one way by partner, and ns of a block's round by part of a block's costs and repeat."""
    return {"one_way_ns": _one_way(bench), "rounds_ns": _rounds(bench)}


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Latency, and what each part adds to a block, in ns."""
    ways, rounds = raw["one_way_ns"], raw["rounds_ns"]
    whole = "blocks of 256 threads on every SM that store tiles of 64 KB"
    sources = {
        "fetch": ("overheads.tile_fetch_ns", f"{whole}: longer with a tile fetched from one counter"),
        "poll": ("overheads.poll_ns", f"{whole}: longer with one look at a semaphore that is ready"),
        "post": ("overheads.post_ns", f"{whole}: longer with a post, its release included"),
        "partial": (
            "overheads.partial_ns",
            f"{whole}: longer with fp32 sums of a 128x256 tile stored and posted",
        ),
        "fixup": ("overheads.fixup_ns", f"{whole}: longer with another block's sums loaded and added"),
    }
    result = [
        MeasuredConstant(
            "semaphore.latency_ns",
            [round(np.median(entry)) for entry in zip(*ways.values(), strict=True)],
            "blocks of two SMs that post to each other in turns, half of a turn, median over SMs",
        )
    ]
    for part, (name, source) in sources.items():
        added = [
            max(0, round(entry - none)) for entry, none in zip(rounds[part], rounds["none"], strict=True)
        ]
        result.append(MeasuredConstant(name, added, source))
    return result


def _one_way(bench: MicroBench) -> dict[str, list[float]]:
    """Nanoseconds from post to the other block's seeing it, by the partner's block and repeat."""
    kernel = bench.kernel(FILE, "ping_pong")
    medians: dict[str, list[float]] = {}
    partners = sorted({1, bench.sms // 4, bench.sms // 2, 3 * bench.sms // 4, bench.sms - 1} - {0})
    for partner in partners:
        medians[str(partner)] = []
        for _ in range(REPEATS):
            counters, duration = bench.zeros(2 * WORDS_APART, np.uint32), bench.zeros(2)
            arguments = (counters, np.uint32(partner), np.uint32(TURNS), duration)
            bench.launch(kernel, bench.sms, 32, *arguments)
            bench.synchronize()
            medians[str(partner)].append(float(duration[0]) / (TURNS - 1) / 2)
    return medians


def _rounds(bench: MicroBench) -> dict[str, list[float]]:
    """Nanoseconds of one round, the median block's, in turns."""
    kernel, blocks = bench.kernel(FILE, "block_costs"), bench.sms
    counters = bench.cupy.zeros((1 + 2 * blocks + 1) * WORDS_APART, np.uint32)
    counters[WORDS_APART :: 2 * WORDS_APART] = 1
    tiles = bench.zeros(blocks * TILE_QUADS * THREADS * 4, np.float32)
    sums = bench.zeros(blocks * SUM_QUADS * THREADS * 4, np.float32)
    durations = bench.zeros((blocks, 2))
    rounds: dict[str, list[float]] = {name: [] for name in PARTS}
    for repeat in range(-2, 2 * REPEATS):
        for name, parts in PARTS.items():
            params = np.zeros(1, PARAMS)[0]
            for key, array in (
                ("counters", counters),
                ("tiles", tiles),
                ("sums", sums),
                ("durations", durations),
            ):
                params[key] = array.data.ptr
            params["parts"], params["rounds"], params["work"] = parts, ROUNDS, WORK
            params["tile_quads"], params["sum_quads"] = TILE_QUADS, SUM_QUADS
            bench.launch(kernel, blocks, THREADS, params)
            bench.synchronize()
            if repeat >= 0:
                rounds[name].append(float(np.median(durations.get()[:, 0])) / ROUNDS)
    return rounds
