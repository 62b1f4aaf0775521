"""What each primitive costs on its own: wait, post, tile counter, recording; by one block, and by one per SM.

Example: a thousand waits for a semaphore that is there already take one thread 600 us: 0.6 us each, less the
empty loop. On all SMs at once the tile counter, which they share, takes longer than a counter of one's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.bench.contenders import describe_case
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.record.layout import RECORD
from wavesim_gpu.run.runner import OutputCheck
from wavesim_gpu.run.timing import Rounds

SOURCE = Path(__file__).with_name("primitives.cu")
# In the order of primitives.cu.
NAMES = (
    "empty loop",
    "wait, ready",
    "wait, ready, relaxed look and fence",
    "post, own semaphore",
    "post, everybody's semaphore",
    "post after a store",
    "tile counter",
    "count of blocks that leave",
    "recording",
)
ADDING = (
    "post, everybody's semaphore",
    "tile counter",
    "count of blocks that leave",
)  # one a use, all blocks
OPERATIONS, ROUNDS, WARM_UPS = 1_000, 20, 2
WORDS_APART = 32  # between counters, as in primitives.cu

# primitives.cu, PrimitiveParams.
PARAMS = np.dtype(
    {
        "names": ["counters", "records", "durations", "operations"],
        "formats": ["<u8", "<u8", "<u8", "<i4"],
        "offsets": [0, 8, 16, 24],
        "itemsize": 32,
    }
)


@dataclass(frozen=True)
class Bench:
    """Device memory for `blocks` that use a primitive at once."""

    blocks: int
    counters: Any
    records: Any
    durations: Any

    @classmethod
    def of(cls, blocks: int) -> "Bench":
        """Counters of blocks read 1, everybody's 0."""
        cupy = require_cupy()
        counters = cupy.ones(WORDS_APART * (1 + blocks), np.uint32)
        counters[0] = 0
        records = cupy.zeros(blocks * RECORD.itemsize, np.uint8)
        return cls(blocks, counters, records, cupy.zeros((blocks, 2), np.uint64))

    def params(self, operations: int) -> Any:
        """`PrimitiveParams`."""
        record = np.zeros(1, PARAMS)[0]
        record["counters"], record["records"] = self.counters.data.ptr, self.records.data.ptr
        record["durations"], record["operations"] = self.durations.data.ptr, operations
        return record


def primitive_cases(rounds: int = ROUNDS, operations: int = OPERATIONS) -> list[dict[str, Any]]:
    """All primitives in turns, used by one block and by one on every SM."""
    cases: list[dict[str, Any]] = []
    for blocks in (1, query().sm_count):
        benches = {name: Bench.of(blocks) for name in NAMES}
        result = _rounds(benches, rounds, operations)
        tags = {"workload": "primitive", "operations": operations, "blocks": blocks}
        cases += [
            describe_case(name, tags, result[name], _verdict(name, bench, rounds, operations), None)
            for name, bench in benches.items()
        ]
    return cases


def _rounds(benches: dict[str, Bench], rounds: int, operations: int) -> dict[str, Rounds]:
    cupy = require_cupy()
    functions = {
        name: load_function(SOURCE, f"primitive<{index}>", Build(is_recording=name == "recording")).function
        for index, name in enumerate(NAMES)
    }
    result = {name: Rounds([], []) for name in NAMES}
    for turn in range(-WARM_UPS, rounds):
        for name, bench in benches.items():
            functions[name]((bench.blocks, 1, 1), (32, 1, 1), (bench.params(operations),))
            cupy.cuda.Device().synchronize()
            if turn >= 0:
                ns, clock = middle(bench.durations.get())
                result[name].times_ns.append(ns)
                result[name].clocks_ghz.append(clock)
    return result


def middle(durations: np.ndarray[Any, Any]) -> tuple[int, float]:
    """The median block's nanoseconds, and the median clock in GHz. `durations` (blocks, 2): ns, cycles.

    The clock is 0 where all ended within a step of the timer, as the empty loop does.
    """
    timed = durations[durations[:, 0] > 0]
    clock = float(np.median(timed[:, 1] / timed[:, 0])) if len(timed) else 0.0
    return round(float(np.median(durations[:, 0]))), round(clock, 4)


def _verdict(name: str, bench: Bench, rounds: int, operations: int) -> OutputCheck:
    """Whether the counters have what so many uses add up to, and everybody's own still reads 1."""
    counters = bench.counters.get()
    uses = (rounds + WARM_UPS) * operations * bench.blocks if name in ADDING else 0
    is_right = is_as_used(counters, uses)
    return OutputCheck({}, is_right, is_right)


def is_as_used(counters: Sequence[int], uses: int) -> bool:
    """Everybody's counter, the first, shows the uses; all others 1."""
    return int(counters[0]) == uses % 2**32 and all(int(value) == 1 for value in counters[WORDS_APART:])


def document(rounds: int) -> dict[str, Any]:
    """All cases."""
    return {"cases": primitive_cases(rounds=rounds or ROUNDS)}
