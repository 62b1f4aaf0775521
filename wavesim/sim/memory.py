"""How much longer tiles take because the blocks running now ask more of DRAM than it gives.

Picture: 132 blocks in step, row after row, read 2.0 TB/s of DRAM and lose nothing. Out of step each fetches
for itself what the L2 would have held for all: 3.9 TB/s of the 4.3 there are, and tiles take a fifth longer,
some more and some less, which takes them further out of step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.sim.l2_reads import FloatArray, dram_bytes, reads_of, working_span
from wavesim.trace import IntArray, Trace

# The bend between compute- and DRAM-bound, with one block per SM and with more: while one of several waits
# for memory another computes. The first fitted to the development halves of sketch and Hopper; the second
# because our recordings with two show no slowdown below the whole bandwidth.
SHARPNESS, SHARPNESS_SHARED = 7, 64
BINS_PER_TILE = 8  # of a typical tile, in which traffic is added up
MOST_OF_DRAM = 0.97  # of its bandwidth, that a measured run can have used


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Memory:
    """What is behind the SMs.

    - `l2_bytes`: of the L2, what holds operands: where each of two halves keeps a copy, about half of it.
    - `dram_bytes_per_s`: the most that GEMMs out of step read.

    A tile that takes c ns at an idle DRAM and asks for d times the bandwidth takes c * (1 + d^7)^(1/7), with
    one block per SM: 1 % longer at seven tenths of it, 10 % at all of it.
    """

    l2_bytes: int
    dram_bytes_per_s: float

    def __post_init__(self) -> None:
        for name in ("l2_bytes", "dram_bytes_per_s"):
            if getattr(self, name) <= 0:
                raise DescriptionError(f"Memory: {name} is {getattr(self, name)}; it must be above 0")


def slowdowns(
    trace: Trace, pipeline: Pipeline, memory: Memory, before: FloatArray | None = None
) -> FloatArray:
    """By how much each block of a trace is slowed down by DRAM, (blocks,), 1 or more.

    `before` is what a simulated trace was already slowed down by, and the result is what it should have been;
    what a block loses to a busy DRAM differs, as a sum of several waiting times does. Without `before` the
    trace is as measured, and a block's own share in the loss unknown.
    """
    reads = reads_of(trace, pipeline)
    if not reads.row.size:
        return np.ones(len(trace))
    missed = dram_bytes(reads, memory.l2_bytes)
    work = trace.end_ns - trace.start_ns - trace.wait_ns
    bin_ns = max(1.0, float(np.median(work)) / BINS_PER_TILE)
    bins = (reads.at_ns / bin_ns).astype(np.int64)
    weight = missed if before is None else missed * before[reads.row]
    rate = np.bincount(bins, weight, int(trace.end_ns.max() / bin_ns) + 1) / (bin_ns * 1e-9)
    load = rate / memory.dram_bytes_per_s
    found = np.ones(len(trace))
    for index, info in enumerate(trace.header.stages):
        sharpness = SHARPNESS if info.blocks_per_sm == 1 else SHARPNESS_SHARED
        by_bin = _reached(load, sharpness) if before is None else (1.0 + load**sharpness) ** (1.0 / sharpness)
        rows = trace.stage == index
        found[rows] = _mean_over(trace, rows, by_bin, bin_ns)
    if before is None or trace.k_first is not None:  # parts of Stream-K are out of step to begin with
        return found
    return 1.0 + (found - 1.0) * _unevenness(len(trace))


def _reached(load: FloatArray, sharpness: int) -> FloatArray:
    """The same slowdown by the bandwidth that was reached in spite of it."""
    return np.asarray((1.0 - np.minimum(load, MOST_OF_DRAM) ** sharpness) ** (-1.0 / sharpness))


def _mean_over(trace: Trace, rows: BoolArray, by_bin: FloatArray, bin_ns: float) -> FloatArray:
    """The mean of a value by bin over the work of each of these blocks."""
    edges = np.arange(by_bin.size + 1) * bin_ns
    total = np.concatenate([[0.0], np.cumsum(by_bin)]) * bin_ns
    begin, end = (times[rows] for times in working_span(trace))
    span = np.interp(end, edges, total) - np.interp(begin, edges, total)
    return np.asarray(np.where(end > begin, span / np.maximum(1, end - begin), 1.0))


def _unevenness(blocks: int) -> FloatArray:
    """With mean 1 and spread 0.7, the same every time: who waits at a busy DRAM is chance."""
    return np.random.default_rng(blocks).gamma(2.0, 0.5, blocks)


def by_block(trace: Trace, stage: int, values: FloatArray) -> FloatArray:
    """A stage's values in the grid's row-major order, slice after slice; parts of a tile by their time."""
    rows = np.flatnonzero(trace.stage == stage)
    work = np.maximum(1, (trace.end_ns - trace.start_ns - trace.wait_ns)[rows])
    block, size = _blocks(trace, stage), int(np.prod(trace.header.stages[stage].grid))
    return np.bincount(block, values[rows] * work, size) / np.bincount(block, work, size)


def by_row(trace: Trace, values: Sequence[FloatArray]) -> FloatArray:
    """The same the other way round: for every row of the trace its block's value."""
    result = np.ones(len(trace))
    for stage, of_blocks in enumerate(values):
        result[trace.stage == stage] = of_blocks[_blocks(trace, stage)]
    return result


def _blocks(trace: Trace, stage: int) -> IntArray:
    """Each of a stage's rows as an index into its grid's blocks; a tile's parts under Stream-K are one."""
    x_count, y_count, _ = trace.header.stages[stage].grid
    rows = np.flatnonzero(trace.stage == stage)
    slices = trace.z[rows] if trace.k_first is None else 0
    return np.asarray((slices * y_count + trace.y[rows]) * x_count + trace.x[rows])
