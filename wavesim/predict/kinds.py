"""Kinds of predictions: the cases that share one interval, by what was known and what shared an SM.

Example: "stream-sync trace, 1 block per SM" and "kernel times, published" are two kinds; each has its own
half-width in `recordings/intervals.json`.
"""

from collections.abc import Sequence

from wavesim.costs.device_costs import costs_of
from wavesim.costs.weight_prefetch import is_memory_bound
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.trace.header import StageInfo

STREAM_TRACE = "stream-sync trace"  # what was known of the kinds predicted from one
BY_BLOCKS = "blocks per SM"  # in a device file: more blocks on an SM than were recorded are apart
MOST_SCORED_BLOCKS = 2  # per SM, in our recordings


def kernel_times_kind(pipeline: Pipeline, device: Device, blocks_per_sm: int) -> str:
    """The kind of a prediction from kernel times; a device that was never scored has its own."""
    scored = costs_of(device.name).scored
    if scored is None:
        return f"kernel times, {device.name}"
    if scored.kernel_times_apart == BY_BLOCKS:
        return kind_of(scored.kernel_times, blocks_per_sm)
    gemms = [stage.work for stage in pipeline.stages]
    is_slow = all(isinstance(gemm, Gemm) and is_memory_bound(gemm, device) for gemm in gemms)
    return f"{scored.kernel_times}, memory-bound" if is_slow else scored.kernel_times


def kind_of(known: str, blocks_per_sm: int) -> str:
    """Cases that share an interval: by what was known; more blocks on an SM than were recorded are apart."""
    return known if blocks_per_sm <= MOST_SCORED_BLOCKS else f"{known}, {blocks_per_sm} blocks per SM"


def trace_kind(known: str, stages: Sequence[StageInfo]) -> str:
    """Cases predicted from a trace that share an interval: split K, others by whether blocks share an SM."""
    if any(info.grid[2] > 1 for info in stages):
        return f"{known}, split-K"
    is_alone = all(info.blocks_per_sm == 1 for info in stages)
    return f"{known}, 1 block per SM" if is_alone else f"{known}, several blocks per SM"
