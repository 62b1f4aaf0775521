"""How much longer tiles take because the blocks running now ask more of DRAM than it gives.

Example: 132 blocks in step, row after row, read 2.0 TB/s of DRAM and lose nothing. Out of step each fetches
for itself what the L2 would have held for all: 3.9 TB/s of the 4.3 there are, and tiles take a fifth longer,
some more and some less, which takes them further out of step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from wavesim.costs.l2_misses import FloatArray, Reads, missed_reads, reads_of, working_span
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.trace.trace import IntArray, Trace

BINS_PER_TILE = 8  # of a typical tile, in which traffic is added up
MOST_OF_DRAM = 0.97  # of its bandwidth, that a measured run can have used


@dataclass(frozen=True)
class Memory:
    """What is behind the SMs.

    - `l2_bytes`: of the L2, what holds operands: where each of two halves keeps a copy, about half of it.
    - `dram_bytes_per_s`: the most that GEMMs out of step read.
    - `sharpness`: of the bend between compute- and DRAM-bound with one block per SM. A tile that takes c ns
      at an idle DRAM and needs d times the bandwidth takes c * (1 + d^s)^(1/s): at s = 7, 1 % longer at seven
      tenths of it, 10 % at all of it.
    - `shared_sharpness`: the same with several blocks per SM, of which one computes while another waits.
    - `scattered_share`: of the bandwidth, what is left to blocks that each read at a place of their own in K,
      and so in DRAM: parts of Stream-K.
    """

    l2_bytes: int
    dram_bytes_per_s: float
    sharpness: float
    shared_sharpness: float
    scattered_share: float

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) <= 0:
                raise DescriptionError(
                    f"Memory: {item.name} is {getattr(self, item.name)}; it must be above 0"
                )


def slowdowns(
    trace: Trace, pipeline: Pipeline, memory: Memory, before: FloatArray | None = None
) -> FloatArray:
    """By how much each block of a trace is slowed down by DRAM, (blocks,), 1 or more.

    `before` is what a simulated trace was already slowed down by, and the result is what it should have been;
    what a block loses to a busy DRAM differs, as a sum of several waiting times does. Without `before` the
    trace is as measured, and a block's own share in the loss unknown.
    """
    reads, bandwidth = reads_of(trace, pipeline), memory.dram_bytes_per_s
    if not reads.row.size:
        return np.ones(len(trace))
    is_cut = trace.k_first is not None
    if is_cut and before is not None:
        reads, bandwidth = _drifted(reads, trace, before), memory.scattered_share * bandwidth
    missed = reads.chosen(missed_reads(reads, memory.l2_bytes))
    work = trace.end_ns - trace.start_ns - trace.wait_ns
    bin_ns = max(1.0, float(np.median(work)) / BINS_PER_TILE)
    load = _rate(missed, bin_ns, before) / bandwidth

    def bent(sharpness: float) -> FloatArray:
        by_bin = _reached(load, sharpness) if before is None else (1.0 + load**sharpness) ** (1.0 / sharpness)
        return _mean_over(trace, by_bin, bin_ns)

    is_alone = np.array([info.blocks_per_sm == 1 for info in trace.header.stages])[trace.stage]
    if is_alone.all() or not is_alone.any():
        places = bent(memory.sharpness if is_alone.all() else memory.shared_sharpness)
    else:
        places = np.where(is_alone, bent(memory.sharpness), bent(memory.shared_sharpness))
    if before is None or is_cut:
        return places
    return 1.0 + (places - 1.0) * _unevenness(len(trace))


def _drifted(reads: Reads, trace: Trace, before: FloatArray) -> Reads:
    """Reads of Stream-K's blocks as they come if some are slowed down more than others.

    By the end of its part a block has lost what all do, but not by any time before. Two that happen to read
    the same slab at once do not go on doing so.
    """
    uneven = (1.0 + (before - 1.0) * _unevenness(len(trace))) / before
    start = trace.start_ns[reads.row]
    at_ns = start + (reads.at_ns - start) * uneven[reads.row]
    return replace(reads, at_ns=at_ns, ns_per_k=reads.ns_per_k * uneven)


def _rate(missed: Reads, bin_ns: float, before: FloatArray | None) -> FloatArray:
    """Bytes per second of DRAM in each bin, (bins,), a read spread over its span as if not slowed down."""
    span_ns = np.maximum(missed.span_ns, bin_ns)
    asked = missed.size_bytes * (1.0 if before is None else before[missed.row])
    begin, end = ((times / bin_ns).astype(np.int64) for times in (missed.at_ns, missed.at_ns + span_ns))
    each, count = asked / (span_ns * 1e-9), int(end.max()) + 1
    rate = np.cumsum(np.bincount(begin, each, count) - np.bincount(end, each, count))
    return np.asarray(np.maximum(0.0, rate))


def _reached(load: FloatArray, sharpness: float) -> FloatArray:
    """The same slowdown by the bandwidth that was reached in spite of it."""
    return np.asarray((1.0 - np.minimum(load, MOST_OF_DRAM) ** sharpness) ** (-1.0 / sharpness))


def _mean_over(trace: Trace, by_bin: FloatArray, bin_ns: float) -> FloatArray:
    """The mean of a value by bin over the work of each block, (blocks,)."""
    edges = np.arange(by_bin.size + 1) * bin_ns
    total = np.concatenate([[0.0], np.cumsum(by_bin)]) * bin_ns
    begin, end = working_span(trace)
    span = np.interp(end, edges, total) - np.interp(begin, edges, total)
    # What runs after the last read from DRAM, a softmax behind the last product, is slowed down by nothing.
    span += np.maximum(0.0, end - np.maximum(begin, edges[-1]))
    return np.asarray(np.where(end > begin, span / np.maximum(1, end - begin), 1.0))


@lru_cache(maxsize=4)
def _unevenness(blocks: int) -> FloatArray:
    """With mean 1 and spread 0.7, the same every time: who waits at a busy DRAM is chance."""
    return np.random.default_rng(blocks).gamma(2.0, 0.5, blocks)


class GridBlocks:
    """Which rows of a trace are which blocks of the stages' grids; a tile's parts under Stream-K are one.

    Values by block are an array for each stage, in the grid's row-major order, slice after slice.
    """

    def __init__(self, trace: Trace) -> None:
        self._work = np.maximum(1, trace.end_ns - trace.start_ns - trace.wait_ns).astype(np.float64)
        self._rows = [np.flatnonzero(trace.stage == stage) for stage in range(len(trace.header.stages))]
        self._block: list[IntArray] = []
        self._in_all: list[FloatArray] = []
        for info, rows in zip(trace.header.stages, self._rows, strict=True):
            x_count, y_count, z_count = info.grid
            slices = trace.z[rows] if trace.k_first is None else 0
            block = np.asarray((slices * y_count + trace.y[rows]) * x_count + trace.x[rows])
            self._block.append(block)
            in_all = np.bincount(block, self._work[rows], x_count * y_count * z_count)
            self._in_all.append(np.asarray(in_all, dtype=np.float64))

    def by_block(self, values: FloatArray) -> list[FloatArray]:
        """Values by row (rows,) as values by block; of parts of a tile their mean, by their time."""
        weighted = values * self._work
        return [
            np.bincount(block, weighted[rows], in_all.size) / in_all
            for rows, block, in_all in zip(self._rows, self._block, self._in_all, strict=True)
        ]

    def by_row(self, values: Sequence[FloatArray]) -> FloatArray:
        """The same the other way round: for every row of the trace its block's value."""
        result = np.ones(self._work.size)
        for rows, block, of_blocks in zip(self._rows, self._block, values, strict=True):
            result[rows] = of_blocks[block]
        return result
