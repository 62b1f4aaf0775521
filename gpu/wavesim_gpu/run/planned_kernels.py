"""Which kernels compute a pipeline under a plan, and with which generated header each is compiled.

Example: under row semaphores GPT-3's MLP is two kernels with a header each; under
`Persistent(fused=True)` it is one, whose header has both stages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import resolve
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.functions import KernelSpec, compile_all
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.backends import DEFAULT, backends_of, require_runs
from wavesim_gpu.kernels.gemm.gemm_backend import SPACES, GemmBackend
from wavesim_gpu.kernels.stage_backend import StageBackend

REGISTER_UNIT = 8  # registers of a thread are allocated in steps of


@dataclass(frozen=True)
class PlannedKernel:
    """One launch, the names of the stages that it computes, and the backend whose kernel it is."""

    stages: tuple[str, ...]
    backend: StageBackend
    launch: KernelLaunch

    @property
    def source(self) -> Path:
        """The file that is compiled."""
        return self.launch.source or self.backend.source

    def header(self, texts: Mapping[str, str]) -> str:
        """The text of <generated.cuh>, from those of all stages: the only stage's, or each in a namespace."""
        if len(self.stages) == 1:
            return texts[self.stages[0]]
        spaces = zip(SPACES, self.stages, strict=True)
        return "".join(f"namespace {space} {{\n{texts[name]}}}\n" for space, name in spaces)


def kernels_of(
    pipeline: Pipeline, plan: Plan, device: Device, default: str = DEFAULT
) -> tuple[PlannedKernel, ...]:
    """In the order of their launches; `default` is the backend of stages that name none.

    Raises `DescriptionError`, with the fix, for what the backends cannot do.
    """
    require_runs(pipeline, plan, default)
    backends = backends_of(pipeline, default)
    if plan.schedule.is_fused:
        names = tuple(backends)
        backend = backends[names[0]]
        launch = cast("GemmBackend", backend).fused_launch(pipeline, plan, device)  # others refuse the plan
        return (PlannedKernel(names, backend, launch),)
    kernels = []
    # The first stage starts only after all that the caller did before.
    for stage, turn in zip(pipeline.stages, resolve(pipeline, plan).turns, strict=True):
        backend = backends[stage.name]
        launch = replace(backend.launch(stage.work, plan, device), is_dependent=turn.is_early)
        kernels.append(PlannedKernel((stage.name,), backend, launch))
    return tuple(kernels)


def launched_safety(pipeline: Pipeline, plan: Plan, device: Device, default: str = DEFAULT) -> SafetyVerdict:
    """The verdict on a plan by the blocks and clusters that its kernels launch. Raises as `kernels_of`."""
    kernels = kernels_of(pipeline, plan, device, default)
    clusters = {name: kernel.launch.cluster for kernel in kernels for name in kernel.stages}
    blocks = _launched_blocks(kernels, pipeline, device)
    # `load_function` asks for it.
    return safety_of(pipeline, plan, device, blocks, clusters, carveout="full")


def _launched_blocks(
    kernels: Sequence[PlannedKernel], pipeline: Pipeline, device: Device
) -> dict[str, Block]:
    """What each stage's blocks occupy at least, as the backends launch them and the pipeline describes them.

    Their registers are known only once they are compiled: those described, as far as the block then fits.
    """
    blocks = {}
    for kernel in kernels:
        launch = kernel.launch
        for name in kernel.stages:
            described = pipeline.stage(name).kernel.block
            threads = max(launch.threads, described.threads)
            most = device.registers_per_sm // (threads * REGISTER_UNIT) * REGISTER_UNIT
            shared = max(launch.dynamic_shared_bytes, described.shared_bytes)
            blocks[name] = Block(threads, min(described.registers, most), 0, shared)
    return blocks


def wanted_kernels(pipeline: Pipeline, plan: Plan, build: Build, default: str = DEFAULT) -> set[KernelSpec]:
    """Those of a pipeline under a plan; `default` is the backend of stages that name none."""
    texts = {stage.name: stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages}
    kernels = kernels_of(pipeline, plan, query(), default)
    return {
        KernelSpec(kernel.source, kernel.launch.expression, build, kernel.header(texts)) for kernel in kernels
    }


def compile_ahead(
    pipeline: Pipeline, plans: Iterable[Plan], builds: Iterable[Build], default: str = DEFAULT
) -> None:
    """The kernels of several plans of one pipeline, in several builds."""
    plans = list(plans)
    compile_all(
        wanted
        for build in builds
        for plan in plans
        for wanted in wanted_kernels(pipeline, plan, build, default)
    )
