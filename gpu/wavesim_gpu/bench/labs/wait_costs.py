"""What a wait on a semaphore that is ready costs a GEMM's main loop, by where and how often it waits.

Example: `python -m wavesim_gpu.bench.labs.wait_costs --out FILE.json` on a GPU. A loop of k-blocks
that waits before every fourth one at a barrier of its block is compared with one that does not. Nothing here
overlaps and nobody posts: what comes out is the cost of waiting alone.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.run.timing import Contender, interleaved_ns

SOURCE = Path(__file__).with_suffix(".cu")
K_BLOCKS, COLUMNS = 192, 12
EVERY = (0, 2, 4, 8, 16, 192)  # k-blocks from wait to wait; 0: none
A_BYTES, B_BYTES, TILE_BYTES = 128 * 40 * 2, 32 * 136 * 2, 128 * 128 * 4
SHARED_BYTES = {1: 150_000, 2: 100_000}  # per block, by blocks per SM
MOST_SHARED_BYTES = 200_000
ROUNDS = 15
LOOKS = 2_000


@dataclass(frozen=True)
class Loop:
    """A main loop: the kernel, its pipeline depth, whether it drains or fences, and blocks per SM."""

    kernel: str
    depth: int
    flag: bool
    blocks_per_sm: int

    @property
    def name(self) -> str:
        """Its template instance."""
        return f"{self.kernel}<{self.depth}, {str(self.flag).lower()}>"

    @property
    def threads(self) -> int:
        """Threads of a block: eight warps compute, a ninth one loads."""
        return 288 if self.kernel == "at_producer" else 256


LOOPS = (
    *(Loop("at_barrier", depth, flag, n) for depth in (2, 3, 4) for flag in (False, True) for n in (1, 2)),
    *(Loop("at_producer", depth, flag, 1) for depth in (2, 4, 6) for flag in (False, True)),
    *(Loop("at_producer", 4, flag, 2) for flag in (False, True)),
)
LATENCIES = {"poll_ns": "latency<0>", "load_ns": "latency<1>"}


def _latencies() -> Iterator[tuple[str, float]]:
    """Means of one block on an idle GPU, loads from what the L2 holds and from what it cannot."""
    cupy = require_cupy()
    ready, data = cupy.ones(64, cupy.int32), cupy.zeros(2**30, cupy.uint8)
    for name, kernel in LATENCIES.items():
        for where, size in (("l2", 2**22), ("dram", 2**30)) if name == "load_ns" else (("", 4096),):
            out = cupy.zeros(1, cupy.float32)
            function = _function(kernel)
            times = []
            for _ in range(7):
                cupy.zeros(2**28, cupy.uint8)  # the L2 then holds this
                _launch(function, (ready, data, cupy.uint64(size), cupy.int32(LOOKS), out), 1, 32, 1024)
                times.append(float(out[0]))
            yield f"{where}_{name}".lstrip("_"), median(times)


def _loop(loop: Loop) -> dict[str, Any]:
    cupy = require_cupy()
    blocks = cupy.cuda.Device().attributes["MultiProcessorCount"] * loop.blocks_per_sm
    halves = cupy.random.default_rng(0).standard_normal(
        (blocks // COLUMNS + 1 + COLUMNS) * K_BLOCKS * (A_BYTES + B_BYTES) // 2, dtype=cupy.float32
    )
    data = (halves / 64).astype(cupy.float16)
    a, b = data, data[data.size // 2 :]
    ready = cupy.ones(64, cupy.int32)
    function = _function(loop.name)
    outs = [cupy.full(blocks * TILE_BYTES // 4, cupy.nan, cupy.float32) for _ in EVERY]
    launches = [
        partial(
            _launch,
            function,
            (a, b, out, ready, cupy.int32(K_BLOCKS), cupy.int32(every), cupy.int32(COLUMNS)),
            blocks,
            loop.threads,
            SHARED_BYTES[loop.blocks_per_sm],
        )
        for every, out in zip(EVERY, outs, strict=True)
    ]
    for launch in launches:
        launch()
    if any(not bool((out == outs[0]).all()) for out in outs[1:]):
        raise ArithmeticError(f"{loop.name}: loops that wait do not give the sums of the one that does not")
    contenders = [Contender(launch, cupy.cuda.get_current_stream()) for launch in launches]
    times = [median(rounds) for rounds in interleaved_ns(contenders, ROUNDS)]
    costs = {
        str(every): round((time - times[0]) / -(-K_BLOCKS // every), 1)
        for every, time in zip(EVERY[1:], times[1:], strict=True)
    }
    resident = function.blocks_per_sm(loop.threads, SHARED_BYTES[loop.blocks_per_sm])
    return {**asdict(loop), "resident": resident, "time_ns": times[0], "wait_ns_by_k_blocks_between": costs}


def _function(name: str) -> Function:
    return load_function(SOURCE, name, Build(), MOST_SHARED_BYTES)


def _launch(
    function: Function, arguments: tuple[Any, ...], blocks: int, threads: int, shared_bytes: int
) -> None:
    function.function((blocks,), (threads,), arguments, shared_mem=shared_bytes)


def document(_rounds: int) -> dict[str, Any]:
    """Latencies, and for every loop its time without waits and the cost of one wait by how often it waits."""
    return {"latencies": dict(_latencies()), "loops": [_loop(loop) for loop in LOOPS]}
