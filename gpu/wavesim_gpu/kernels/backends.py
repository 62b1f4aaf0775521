"""The kernel backends there are, by name, and which of them computes a stage.

Example: `backend_named("portable")` is the tensor-core GEMM for every GPU from sm_80 on,
`backend_named("hopper")` the one that uses all that an sm_90 has. To add one, add a line to `BACKENDS`.
"""

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.attention.attention_sm80 import PortableAttention
from wavesim_gpu.kernels.attention.attention_sm90 import HopperAttention
from wavesim_gpu.kernels.attention.decode import PortableDecode
from wavesim_gpu.kernels.attention.head_product import HeadProducts
from wavesim_gpu.kernels.convolution.conv_sm80 import PortableConvolution
from wavesim_gpu.kernels.convolution.conv_sm90 import ChainedHopperConvolution, HopperConvolution
from wavesim_gpu.kernels.gemm.gemm_backend import GemmBackend
from wavesim_gpu.kernels.gemm.sm80.gemm import Portable
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import ChainedHopper, Hopper
from wavesim_gpu.kernels.rows.copy_tiles import TileCopy
from wavesim_gpu.kernels.rows.norm import RowNorm
from wavesim_gpu.kernels.rows.softmax import RowSoftmax
from wavesim_gpu.kernels.stage_backend import StageBackend
from wavesim_gpu.kernels.user_kernel import UserKernelBackend

BACKENDS: dict[str, GemmBackend] = {  # of GEMMs
    Portable.name: Portable(),
    Hopper.name: Hopper(),
}
DEFAULT = Portable.name  # runs on every GPU
# Of other stages, and of GEMMs that name one. The wanted family's backend computes a work, or
# else the first that can.
OTHERS: dict[str, StageBackend] = {
    ChainedHopper.name: ChainedHopper(),
    HopperAttention.name: HopperAttention(),
    PortableAttention.name: PortableAttention(),
    PortableDecode.name: PortableDecode(),
    HeadProducts.name: HeadProducts(),
    HopperConvolution.name: HopperConvolution(),
    ChainedHopperConvolution.name: ChainedHopperConvolution(),
    PortableConvolution.name: PortableConvolution(),
    RowNorm.name: RowNorm(),
    RowSoftmax.name: RowSoftmax(),
    TileCopy.name: TileCopy(),
    UserKernelBackend.name: UserKernelBackend(),
}


def backend_named(name: str) -> GemmBackend:
    """The GEMM backend of that name. Raises `DescriptionError` that lists them."""
    if name not in BACKENDS:
        raise DescriptionError(f"backend is {name!r}; there are {', '.join(BACKENDS)}")
    return BACKENDS[name]


def register_backend(backend: StageBackend) -> None:
    """Adds kernels of a user's own: stages may name it, and those of its `works` that no other computes need
    not.

    Raises `DescriptionError` for a name that is taken.
    """
    if backend.name in BACKENDS or backend.name in OTHERS:
        raise DescriptionError(f"backend {backend.name!r} is there already; give another name")
    OTHERS[backend.name] = backend


def backend_of(stage: Stage, default: str = DEFAULT) -> StageBackend:
    """What computes a stage: the backend that it names, or the first for its work, of the default's family
    if it may.

    Raises `DescriptionError` for an unknown name, and for work that no kernel computes.
    """
    known: dict[str, StageBackend] = {**BACKENDS, **OTHERS}
    if stage.backend:
        if stage.backend not in known:
            raise DescriptionError(f"backend is {stage.backend!r}; there are {', '.join(known)}")
        return known[stage.backend]
    fitting = [entry for entry in known.values() if type(stage.work) in entry.works]
    if not fitting:
        named = ", ".join(dict.fromkeys(work.__name__ for entry in known.values() for work in entry.works))
        raise DescriptionError(
            f"stage {stage.name} is a {type(stage.work).__name__}, which no kernel computes; kernels "
            f"compute {named}. "
            "Register one of your own with register_backend"
        )
    usual = backend_named(default)
    if usual in fitting:
        return usual
    return next((entry for entry in fitting if entry.family == usual.family), fitting[0])


def backends_of(pipeline: Pipeline, default: str = DEFAULT) -> dict[str, StageBackend]:
    """Each stage's backend, by stage, as `backend_of` has it."""
    try:
        return {stage.name: backend_of(stage, default) for stage in pipeline.stages}
    except DescriptionError as error:
        raise DescriptionError(f"pipeline {pipeline.name} cannot run on the GPU: {error}") from None


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
        named = ", ".join(f"{backend.name} ({stage})" for stage, backend in chosen.items())
        raise DescriptionError(
            f"{plan.label}: one kernel computes all stages, which name the backends {named}. Name one"
        )
    require_computes(pipeline, default, plan)


def require_computes(pipeline: Pipeline, default: str = DEFAULT, plan: Plan | None = None) -> None:
    """Raises `DescriptionError` unless all stages are GEMMs that their backends compute (under a plan)."""
    chosen = backends_of(pipeline, default)
    for stage in pipeline.stages:
        try:
            chosen[stage.name].check(stage.work, plan)
            if plan is not None:
                chosen[stage.name].check_stage(pipeline, stage, plan)
        except DescriptionError as error:
            raise DescriptionError(f"pipeline {pipeline.name} cannot run on the GPU: {error}") from None
