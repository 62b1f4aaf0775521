"""Two dependent products in one launch of blocks, for `Persistent(fused=True)`: what they have in common.

Example: `HOPPER_BOTH.launch(pair, device)` is the 132 persistent blocks that one product would have; they
take the tiles of the first stage and then those of the second, with no launch and no empty ring between.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim_gpu.kernels.backend import SPACES, KernelLaunch
from wavesim_gpu.kernels.sm90.gemm_sm90 import HOPPER, HOPPER_PER_TILE, shape_of


@dataclass(frozen=True)
class HopperBoth:
    """The kernel `fused_gemm_sm90` of the Hopper family: two stages, one tile shape, one element type."""

    def launch(self, pipeline: Pipeline, device: Device) -> KernelLaunch:
        """A block per SM. Raises also `DeviceError` for a GPU that is not a Hopper."""
        gemms = _two_alike(pipeline)
        one = HOPPER.launch(gemms[0], device)
        tiles = sum(HOPPER_PER_TILE.launch(gemm, device).blocks for gemm in gemms)
        stages = ", ".join(
            f"Activation::{gemm.activation or 'none'}, {space}::generated::stage"
            for gemm, space in zip(gemms, SPACES, strict=True)
        )
        is_bf16 = str(gemms[0].dtype == "bf16").lower()
        return KernelLaunch(
            f"fused_gemm_sm90<{shape_of(gemms[0]).name}, {is_bf16}, {stages}>",
            one.threads,
            one.dynamic_shared_bytes,
            min(tiles, device.sm_count // one.cluster * one.cluster),
            one.cluster,
        )


def _two_alike(pipeline: Pipeline) -> list[Gemm]:
    gemms = [stage.gemm for stage in pipeline.stages]
    start = f"pipeline {pipeline.name} in one persistent kernel"
    if len(gemms) != len(SPACES):
        raise DescriptionError(
            f"{start}: it has {len(gemms)} stages; the kernel computes {len(SPACES)}. Use SemaphoreSync()"
        )
    # The rows decide whether blocks come in clusters.
    kinds = {gemm.name: f"{gemm.m} rows in {gemm.tile_m}x{gemm.tile_n} of {gemm.dtype}" for gemm in gemms}
    if len(set(kinds.values())) > 1:
        found = ", ".join(f"{kind} ({name})" for name, kind in kinds.items())
        raise DescriptionError(
            f"{start}: the tiles are {found}; its stages share one ring of tiles in shared memory. Give both "
            "as many rows, the same tile and element type, or use SemaphoreSync()"
        )
    return gemms


HOPPER_BOTH = HopperBoth()
