"""Dispatch: in which order two streams' blocks are issued, to which SM, and what the carve-out lets in.

Example: of two kernels of a wave and a half each, the second one's blocks start when the first one's last
has been issued. A block of 7 KB joins an SM beside one of 150 KB if that kernel asked for the full carve-out.
"""

from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant

FILE, THREADS, STAY_NS, LONG_NS, REPEATS = "dispatch.cu", 64, 20_000, 400_000, 5
STAY = np.dtype([("start_ns", "<u8"), ("end_ns", "<u8"), ("sm", "<u4"), ("unused", "<u4")])
SMALL_BYTES, DRIVERS_CHOICE, FULL = 7 * 1024, -1, 100
RESERVED_BYTES = 1024


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results: what each repeat showed, and how many small blocks fitted by carve-out."""
    large = bench.device.shared_bytes_per_block * 2 // 3
    return {
        "oldest_first": [_is_oldest_first(bench) for _ in range(REPEATS)],
        "blocks_per_sm_in_half_a_wave": [_most_on_one_sm(bench) for _ in range(REPEATS)],
        "joined": {
            name: [_joined(bench, large, SMALL_BYTES, percent) for _ in range(2)]
            for name, percent in (("default", DRIVERS_CHOICE), ("full", FULL))
        },
        "small_blocks_beside": {
            str(level): _joined(bench, 1024, SMALL_BYTES, _percent(bench, level))
            for level in bench.device.carveouts_bytes
        },
        "large_bytes": large,
        "sm_count": bench.sms,
    }


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Yes or no: each is yes only if every repeat showed it."""
    sms, joined, large = raw["sm_count"], raw["joined"], raw["large_bytes"] // 1024
    beside = f"blocks of {SMALL_BYTES // 1024} KB join SMs where a block of {large} KB is"
    return [
        MeasuredConstant(
            "dispatch.oldest_first",
            [all(raw["oldest_first"])],
            "two streams, 1.5 waves each: no block of the second starts before the first's last one",
        ),
        MeasuredConstant(
            "dispatch.breadth_first",
            [max(raw["blocks_per_sm_in_half_a_wave"]) == 1],
            "a block per SM of a kernel that fits twice: each SM gets one",
        ),
        MeasuredConstant(
            "dispatch.joins_default",
            [all(count >= sms for count in joined["default"])],
            f"{beside}, where that kernel asked for no carve-out",
        ),
        MeasuredConstant(
            "dispatch.joins_full",
            [all(count >= sms for count in joined["full"])],
            f"{beside}, where that kernel asked for the full carve-out",
        ),
    ]


def _percent(bench: MicroBench, level: int) -> int:
    return min(100, -(-100 * level // bench.device.shared_bytes_per_sm))


def _stays(bench: MicroBench, blocks: int) -> Any:
    return bench.zeros(blocks * STAY.itemsize, np.uint8)


def _read(stays: Any) -> Any:
    return stays.get().view(STAY)


def _is_oldest_first(bench: MicroBench) -> bool:
    """Two kernels of 1.5 waves, one block per SM, on two streams."""
    shared, blocks = bench.device.shared_bytes_per_block, bench.sms * 3 // 2
    other, result = bench.cupy.cuda.Stream(non_blocking=True), []
    for name, stream in (("stay_first", bench.stream), ("stay_second", other)):
        kernel, stays = bench.kernel(FILE, name, shared), _stays(bench, blocks)
        bench.prefer_carveout(kernel, FULL)
        result.append((kernel, stays, stream))
    for kernel, stays, stream in result:
        bench.launch(kernel, blocks, THREADS, stays, np.uint64(STAY_NS), shared=shared, stream=stream)
    bench.synchronize()
    first, second = (_read(stays) for _, stays, _ in result)
    return bool(second["start_ns"].min() >= first["start_ns"].max())


def _most_on_one_sm(bench: MicroBench) -> int:
    """Blocks on the fullest SM, of a kernel with as many blocks as SMs that could hold two."""
    shared = bench.device.shared_bytes_per_sm // 2 - 4 * RESERVED_BYTES
    kernel, stays = bench.kernel(FILE, "stay_first", shared), _stays(bench, bench.sms)
    bench.prefer_carveout(kernel, FULL)
    bench.launch(kernel, bench.sms, THREADS, stays, np.uint64(STAY_NS), shared=shared)
    bench.synchronize()
    return int(np.bincount(_read(stays)["sm"]).max())


def _joined(bench: MicroBench, large: int, small: int, percent: int) -> int:
    """How many small blocks of a second kernel start while one of the first is on every SM."""
    first, second = bench.kernel(FILE, "stay_first", large), bench.kernel(FILE, "stay_second", small)
    bench.prefer_carveout(first, percent)
    bench.prefer_carveout(second, DRIVERS_CHOICE)
    blocks = bench.device.max_blocks_per_sm * bench.sms
    stays, beside = _stays(bench, bench.sms), _stays(bench, blocks)
    other = bench.cupy.cuda.Stream(non_blocking=True)
    bench.launch(first, bench.sms, THREADS, stays, np.uint64(LONG_NS), shared=large)
    bench.launch(second, blocks, 32, beside, np.uint64(LONG_NS), shared=small, stream=other)
    bench.synchronize()
    ends = {int(record["sm"]): int(record["end_ns"]) for record in _read(stays)}
    return sum(int(record["start_ns"]) < ends.get(int(record["sm"]), 0) for record in _read(beside))
