"""Which kernels of ours take part on a GPU: their tiles, and the kinds of plan that they run.

Example: on an H200 the Hopper kernels take part, in thirteen tile shapes, under stream sync, with dependent
launch, under semaphores and as one persistent kernel; on an A100 the portable ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from wavesim.bench.stored_kernels import stored_names
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.plan.parsing import SCHEDULES
from wavesim.plan.plan import Plan
from wavesim_gpu.bench.kinds.pair_configs import PlanConfig
from wavesim_gpu.bench.kinds.tile_configs import TileConfig
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import HOPPER_CAPABILITY

PORTABLE_TILE_K = 32


@dataclass(frozen=True)
class CandidateKernels:
    """A backend and what it can be asked for, in k-blocks of `tile_k`.

    `schedules` are those that a product alone is tried under, the usual one first.
    """

    backend: str
    tile_k: int
    kinds: tuple[PlanConfig, ...]
    schedules: tuple[str, ...]

    @property
    def kernels(self) -> str:
        """What results under the usual schedule are stored under."""
        return stored_names(self.backend, Plan(SCHEDULES[self.schedules[0]]("")))[0]

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the tiles."""
        return tuple((m, n) for m, n, k in backend_named(self.backend).tiles if k == self.tile_k)

    def can_compute(self, products: Iterable[Gemm]) -> bool:
        """Whether some tile of it suits each product."""
        return all(any(self.suits(one, TileConfig(*tile)) for tile in self.tiles) for one in products)

    def suits(self, one: Gemm, cut: TileConfig) -> bool:
        """Whether the kernels can compute a product in this cut."""
        try:
            backend_named(self.backend).check(cut.applied(one, self.tile_k))
        except DescriptionError:
            return False
        return True


PORTABLE = CandidateKernels(
    "portable",
    PORTABLE_TILE_K,
    tuple(PlanConfig(plan, plan, "portable") for plan in ("stream", "row", "tile")),
    ("tile",),
)
HOPPER = CandidateKernels(
    "hopper",
    64,
    (
        PlanConfig("stream", "persistent-stream", "hopper"),
        PlanConfig("stream per tile", "stream", "hopper", follows="stream"),
        PlanConfig("pdl", "persistent+pdl+boundary", "hopper", follows="stream"),
        PlanConfig("stream-k", "stream-k", "hopper"),
        PlanConfig("stream-k pdl", "stream-k+pdl+boundary", "hopper", follows="stream-k"),
        PlanConfig("row on one stream", "persistent+pdl+row", "hopper"),
        PlanConfig("tile on one stream", "persistent+pdl+tile", "hopper", follows="row on one stream"),
        PlanConfig("row", "persistent+streams+row", "hopper", follows="row on one stream"),
        PlanConfig("tile", "persistent+streams+tile", "hopper", follows="row on one stream"),
        # One kernel for both stages, in tiles of one shape; the faster of the two plans stands for it.
        *(PlanConfig("persistent", plan, "hopper") for plan in ("persistent", "persistent:tile")),
    ),
    ("persistent", "stream-k"),
)


def entrant_for(device: Device) -> CandidateKernels:
    """The fastest of our kernels on this GPU."""
    return HOPPER if device.compute_capability == HOPPER_CAPABILITY else PORTABLE
