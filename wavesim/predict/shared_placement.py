"""A warning where blocks of later kernels, issued early, land beside working ones: chains in small blocks.

Example: four convolutions of which three blocks fit on an SM. Under semaphores blocks of the second and third
take the slots that the first leaves, on the SMs that they happen to be on: these compute with others beside
them while SMs elsewhere idle. As published, such a chain lost 12.6 points; 12.5 were predicted.
"""

from wavesim.trace.trace import Trace

LEAST_STAGES = 3  # of two the second's blocks fill all slots alike
LOST_POINTS, OFF_POINTS = 13, 9  # of published chains of four (cuSync, V100), at most


def placement_caveat(trace: Trace) -> tuple[str, ...]:
    """One line for a simulated chain whose stages overlap on shared SMs; none for others."""
    stages = trace.header.stages
    blocks = max(stage.blocks_per_sm for stage in stages)
    if len(stages) < LEAST_STAGES or blocks == 1 or not trace.header.dependencies:
        return ()
    words = (
        f"placement: up to {blocks} blocks share an SM, and those of later kernels, issued early, land "
        f"beside working ones; published chains of four lost up to {LOST_POINTS} points by it, and such "
        f"predictions were off by up to {OFF_POINTS}"
    )
    return (words,)
