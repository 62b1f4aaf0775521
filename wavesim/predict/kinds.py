"""Kinds of predictions: the cases that share one interval, by what was known, whose kernels, how they run.

Example: "stream-sync trace, hopper, 1 block per SM" and "kernel times, waits not said" are two kinds; each
has its own half-width in `recordings/intervals.json`.
"""

from collections.abc import Mapping, Sequence

from wavesim.model.device import Device
from wavesim.model.kernel import WaitPlace
from wavesim.model.pipeline import Pipeline
from wavesim.trace.header import StageInfo
from wavesim.work.convolution.law import ConvolutionCosts

STREAM_TRACE = "stream-sync trace"  # what was known of the kinds predicted from one
KERNEL_TIMES = "kernel times"
LAYER_CONSTANTS = "layer, device constants"
CONVOLUTION_CONSTANTS = ConvolutionCosts.scored_as
DATA_SHEET = "data sheet"  # never scored
CHAINED_PRODUCTS = "chained products"
MOST_SCORED_BLOCKS = 2  # per SM; more are apart
SHAPED_PLANS = (
    "stream",
    "row",
    "tile",
)  # plans whose kinds go by the shape of the kernels; others have their own
WAITS: Mapping[WaitPlace | None, str] = {
    "prefetched": "prefetched waits",
    "block-barrier": "waits at a block barrier",
    "producer-warp": "waits of a producer warp",
    "before-main-loop": "waits before the main loop",
    None: "waits not said",
}


def known_text(known: str, pipeline: Pipeline) -> str:
    """What was known, and of whose kernels: those of a named backend, else by how they wait."""
    named = sorted({stage.backend for stage in pipeline.stages if stage.backend})
    waiting = [stage for stage in pipeline.stages if pipeline.dependency_of(stage.name) is not None]
    places = sorted({WAITS[stage.main_loop.wait_place] for stage in waiting})
    return ", ".join([known, *(named or places)])


def are_kernels_unnamed(kind: str) -> bool:
    """Whether a kind from kernel times goes by how kernels wait, since they are of no named backend."""
    words = kind.split(", ")
    return words[0] == KERNEL_TIMES and not set(words).isdisjoint(WAITS.values())


def kernel_times_kind(pipeline: Pipeline, device: Device, blocks_per_sm: int) -> str:
    """The kind of a prediction from kernel times."""
    known = known_text(KERNEL_TIMES, pipeline)
    if all(stage.work.is_memory_bound(device) for stage in pipeline.stages):
        return f"{known}, memory-bound"
    return known if blocks_per_sm <= MOST_SCORED_BLOCKS else f"{known}, {blocks_per_sm} blocks per SM"


def trace_kind(known: str, stages: Sequence[StageInfo], plan: str = "row") -> str:
    """The kind of a prediction from a trace: split K, others by whether blocks share an SM.

    `plan` is the plan's short word; plans other than row and tile semaphores have kinds of their own.
    """
    if plan not in SHAPED_PLANS:
        return plan_kind(known, plan)
    if any(info.grid[2] > 1 for info in stages):
        return f"{known}, split-K"
    is_alone = all(info.blocks_per_sm == 1 for info in stages)
    return f"{known}, 1 block per SM" if is_alone else f"{known}, several blocks per SM"


def plan_kind(kind: str, plan: str) -> str:
    """The kind of a plan's prediction where the shape of the kernels is in the kind already.

    Row and tile semaphores are one kind, whatever launches them: "pdl+row" and "pdl+tile" are.
    """
    launch, _, policy = plan.partition("+")
    if policy in SHAPED_PLANS:
        return f"{kind}, semaphores by {launch}"
    return kind if plan in SHAPED_PLANS else f"{kind}, {plan}"
