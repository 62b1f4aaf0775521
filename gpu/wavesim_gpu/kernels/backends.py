"""The kernel backends there are, by name, and which of them computes a stage.

Example: `backend_named("portable")` is the tensor-core GEMM for every GPU from sm_80 on,
`backend_named("hopper")` the one that uses all that an sm_90 has. To add one, add a line to `BACKENDS`.
"""

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.backend import Backend
from wavesim_gpu.kernels.sm80.gemm import Portable
from wavesim_gpu.kernels.sm90.gemm_sm90 import Hopper

BACKENDS: dict[str, Backend] = {
    Portable.name: Portable(),
    Hopper.name: Hopper(),
}
DEFAULT = Portable.name  # runs on every GPU


def backend_named(name: str) -> Backend:
    """The backend of that name. Raises `DescriptionError` that lists them."""
    if name not in BACKENDS:
        raise DescriptionError(f"backend is {name!r}; there are {', '.join(BACKENDS)}")
    return BACKENDS[name]


def backends_of(pipeline: Pipeline, default: str = DEFAULT) -> dict[str, Backend]:
    """Each stage's backend, by stage: the one that it names, or else the default."""
    return {stage.name: backend_named(stage.backend or default) for stage in pipeline.stages}


def require_runs(pipeline: Pipeline, plan: Plan, default: str = DEFAULT) -> None:
    """Raises `DescriptionError` unless the stages' backends run the plan and can compute every GEMM.

    The error names the plan's part, the backend, the reason and a fix: another part, or another backend.
    """
    chosen = backends_of(pipeline, default)
    for backend in dict.fromkeys(chosen.values()):
        reason = backend.refusal(plan)
        if reason:
            others = [name for name, other in BACKENDS.items() if not other.refusal(plan)]
            fix = f", or backend={' or '.join(map(repr, others))}" if others else ""
            raise DescriptionError(f"{reason}{fix}")
    if plan.schedule.is_fused and len(set(chosen.values())) > 1:
        found = ", ".join(f"{backend.name} ({stage})" for stage, backend in chosen.items())
        raise DescriptionError(
            f"{plan.label}: one kernel computes all stages, which name the backends {found}. Name one"
        )
    require_computes(pipeline, default, plan)


def require_computes(pipeline: Pipeline, default: str = DEFAULT, plan: Plan | None = None) -> None:
    """Raises `DescriptionError` unless all stages are GEMMs that their backends compute (under a plan)."""
    chosen = backends_of(pipeline, default)
    for stage in pipeline.stages:
        try:
            chosen[stage.name].check(stage.gemm, plan)
        except DescriptionError as error:
            raise DescriptionError(f"pipeline {pipeline.name} cannot run on the GPU: {error}") from None
