"""Two dependent GEMMs in one launch of persistent blocks: what they must have in common.

Example: under `Plan(Persistent(fused=True), sync=Semaphores())` 132 blocks compute the tiles of the first
stage and then those of the second, with no launch and no empty pipeline between.
"""

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.work.gemm import Gemm
from wavesim_gpu.kernels.gemm.gemm_backend import SPACES


def two_alike(pipeline: Pipeline) -> list[Gemm]:
    """Both GEMMs. Raises `DescriptionError`, with the fix, where one kernel cannot compute them."""
    gemms = [stage.gemm for stage in pipeline.stages]
    start = f"pipeline {pipeline.name} in one persistent kernel"
    if len(gemms) != len(SPACES):
        raise DescriptionError(
            f"{start}: it has {len(gemms)} stages; the kernel computes {len(SPACES)}. Use SemaphoreSync()"
        )
    # The rows decide whether blocks come in clusters.
    kinds = {gemm.name: f"{gemm.m} rows in {gemm.tile_m}x{gemm.tile_n} of {gemm.dtype}" for gemm in gemms}
    if len(set(kinds.values())) > 1:
        named = ", ".join(f"{kind} ({name})" for name, kind in kinds.items())
        raise DescriptionError(
            f"{start}: the tiles are {named}; its stages share one pipeline in shared memory. Give both as "
            "many rows, the same tile and element type, or use SemaphoreSync()"
        )
    for gemm in gemms:
        if gemm.has_residual:
            raise DescriptionError(
                f"{start}: {gemm.name} has a residual, which the stages' shared epilogue buffers have no "
                "place for. Use SemaphoreSync()"
            )
    return gemms
