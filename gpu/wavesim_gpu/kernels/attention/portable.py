"""What the portable attention kernels have in common: the plans that they run, and on which GPUs.

Example: dependent launch needs compute capability 9.0, though the same source runs from sm_80 on.
"""

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.stage_backend import SEMAPHORES, Combination

DEPENDENT_LAUNCH = (9, 0)  # the first compute capability that has griddepcontrol
PORTABLE_RUNS = (
    Combination(("tile",), ("one-stream", "graph", "pdl"), ("boundary",)),
    Combination(("tile",), ("streams", "streams:no-wait-kernel", "pdl"), (SEMAPHORES,)),
)
PORTABLE_REASONS = {
    "persistent": "its blocks compute one tile each",
    "fused": "its kernels compute one stage each",
    "stream-k": "it has no sum over K to split",
    "stream-k-in-order": "it has no sum over K to split",
    "host": "the runner queues launches ahead of the GPU; simulate() takes this one",
}


def require_launchable(plan: Plan, device: Device) -> None:
    """Raises `DescriptionError` for dependent launch on a GPU that lacks it."""
    if plan.launch.is_dependent and device.compute_capability < DEPENDENT_LAUNCH:
        major, minor = device.compute_capability
        raise DescriptionError(
            f"{plan.label}: {device.name} has compute capability {major}.{minor}; dependent launch needs 9.0 "
            "(griddepcontrol). Use launch one-stream"
        )
