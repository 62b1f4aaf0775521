"""Which kernels compute a pipeline under a plan, and with which generated header each is compiled.

Example: under row semaphores GPT-3's MLP is two kernels with a header each; under
`Persistent(fused=True)` it is one, whose header has both stages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.backend import SPACES, Family, KernelLaunch
from wavesim_gpu.kernels.backends import joint_of


@dataclass(frozen=True)
class PlannedKernel:
    """One launch, and the names of the stages that it computes."""

    stages: tuple[str, ...]
    launch: KernelLaunch

    def header(self, texts: Mapping[str, str]) -> str:
        """The text of <generated.cuh>, from those of all stages: the only stage's, or each in a namespace."""
        if len(self.stages) == 1:
            return texts[self.stages[0]]
        spaces = zip(SPACES, self.stages, strict=True)
        return "".join(f"namespace {space} {{\n{texts[name]}}}\n" for space, name in spaces)


def kernels_of(pipeline: Pipeline, plan: Plan, family: Family, device: Device) -> tuple[PlannedKernel, ...]:
    """In the order of their launches. Raises `DescriptionError`, with the fix, for what it cannot do."""
    names = tuple(stage.name for stage in pipeline.stages)
    if plan.schedule.is_fused:
        return (PlannedKernel(names, joint_of(family).launch(pipeline, device)),)
    return tuple(
        PlannedKernel((stage.name,), _launch(pipeline, stage, family, device)) for stage in pipeline.stages
    )


def _launch(pipeline: Pipeline, stage: Stage, family: Family, device: Device) -> KernelLaunch:
    """The first stage starts only after all that the caller did before."""
    launch = family.launch(stage.gemm, device)
    has_producers = pipeline.dependency_of(stage.name) is not None
    return replace(launch, is_dependent=launch.is_dependent and has_producers)
