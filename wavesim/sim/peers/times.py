"""What the kernels of several GPUs take, and what a program says of them.

Example: a tile of a GEMM 40 us alone on its SM; the library's GEMM 200 us on all 132.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wavesim.costs.peer_costs import PeerCosts
from wavesim.model.host import Host
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline


@dataclass(frozen=True)
class PeerTimes:
    """What the kernels take: `tile_ns` of our persistent kernels by stage, `library` (ns, SMs in use) of the
    library's GEMMs, of one chunk each, by stage. `link_factor`: of a what-if link, over the
    one that the collectives ran on.
    """

    tile_ns: Mapping[str, int]
    library: Mapping[str, tuple[int, int]]
    costs: PeerCosts
    link_factor: float = 1.0


def dram_bytes_per_s(gemm: Gemm, taken_ns: float) -> float:
    """What a GEMM that takes so long wants of the DRAM: every matrix once."""
    moved = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.columns
    return 2 * moved / max(1.0, taken_ns) * 1e9


def parameters_of(one: Pipeline, host: Host) -> dict[str, int | str]:
    """The pipeline's, with GPUs and link."""
    return {**one.parameters, "gpus": host.gpus, "link": host.link.name}
