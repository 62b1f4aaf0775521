"""Which kernels of ours take part on a GPU: their tiles, and the kinds of plan that they can run.

Example: on an H200 the Hopper kernels take part, in thirteen tile shapes, under stream sync, with dependent
launch, under semaphores and as one persistent kernel; on an A100 the portable ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim_gpu.evaluation.studies.pair_configs import PlanConfig
from wavesim_gpu.evaluation.studies.tile_configs import TileConfig
from wavesim_gpu.kernels.backends import family_named
from wavesim_gpu.kernels.sm80 import gemm
from wavesim_gpu.kernels.sm90 import gemm_sm90

PORTABLE_TILE_K = 32


@dataclass(frozen=True)
class CandidateKernels:
    """A family and what it can be asked for; `kinds` may need relatives of it, launched otherwise.

    `stream_k` is its relative that splits K itself, if there is one.
    """

    kernels: str
    tiles: tuple[tuple[int, int], ...]
    tile_k: int
    kinds: tuple[PlanConfig, ...]
    stream_k: str | None = None

    @property
    def relatives(self) -> tuple[str, ...]:
        """All families that its kinds need, itself first."""
        return tuple(dict.fromkeys([self.kernels, *(kind.kernels for kind in self.kinds)]))

    def can_compute(self, products: Iterable[Gemm]) -> bool:
        """Whether some tile of it suits each product."""
        return all(any(self.suits(one, TileConfig(*tile)) for tile in self.tiles) for one in products)

    def suits(self, one: Gemm, cut: TileConfig) -> bool:
        """Whether the kernels can compute a product in this cut."""
        try:
            family_named(self.kernels).check(cut.applied(one, self.tile_k))
        except DescriptionError:
            return False
        return True


PORTABLE = CandidateKernels(
    "portable",
    tuple((m, n) for m, n, k in gemm.SHAPES if k == PORTABLE_TILE_K),
    PORTABLE_TILE_K,
    tuple(PlanConfig(plan, plan, "portable") for plan in ("stream", "row", "tile")),
)
STREAM_K = "hopper-stream-k"
HOPPER = CandidateKernels(
    "hopper",
    tuple(gemm_sm90.SHAPES),
    gemm_sm90.TILE_K,
    (
        PlanConfig("stream", "stream", "hopper"),
        PlanConfig("stream per tile", "stream", "hopper-per-tile", follows="stream"),
        PlanConfig("pdl", "stream", "hopper-dependent", follows="stream"),
        PlanConfig("stream-k", "stream", STREAM_K),
        PlanConfig("stream-k pdl", "stream", "hopper-stream-k-dependent", follows="stream-k"),
        PlanConfig("row on one stream", "row", "hopper-dependent"),
        PlanConfig("tile on one stream", "tile", "hopper-dependent", follows="row on one stream"),
        *(PlanConfig(plan, plan, "hopper", follows="row on one stream") for plan in ("row", "tile")),
        # One kernel for both stages, in tiles of one shape; the faster of the two plans stands for it.
        *(PlanConfig("persistent", plan, "hopper") for plan in ("persistent", "persistent:tile")),
    ),
    STREAM_K,
)


def entrant_for(device: Device) -> CandidateKernels:
    """The fastest of our kernels on this GPU."""
    return HOPPER if device.compute_capability == gemm_sm90.HOPPER_CAPABILITY else PORTABLE
