"""The ways in which we take a product across GPUs, each in the tiles and on the SMs that are tried for it.

Example: of an all-reduce after 2,048 rows "stores" has three tiles, and so have "stores:8" and "stores:16",
where 8 and 16 SMs add; of each way the fastest is compared with the libraries, which choose theirs too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wavesim.model.collective import Collective
from wavesim_gpu.peers.choice import split_of
from wavesim_gpu.peers.options import CallOptions
from wavesim_gpu.peers.problem import SharedGemm

DTYPE = "bf16"  # PyTorch's symmetric memory does not take fp16
LIMIT_S = 5.0  # of a wait
COPIED_CHUNKS = 8
ONE_SHOT_ROWS = 1024  # above, each rank adding everything twice the traffic only loses
TWO_SHOT, ONE_SHOT = Collective("all-reduce"), Collective("all-reduce", "one-shot")
# Up to so many rows: tiles (rows, columns), those tried first that most often win.
TILES = (
    (64, ((64, 128), (64, 256))),
    (256, ((128, 128), (64, 128), (64, 256))),
    (1023, ((128, 256), (128, 128), (128, 192))),
    (1 << 30, ((128, 256), (256, 128), (128, 192))),
)


@dataclass(frozen=True)
class Variant:
    """A product in a tile, and how it is called."""

    problem: SharedGemm
    options: CallOptions

    @property
    def words(self) -> str:
        """For results: its tile, splits of K and SMs that communicate."""
        one = self.problem
        return f"{one.tile_m}x{one.tile_n}, K in {one.split_k}, {self.options.reduce_blocks} SMs add"


def problems_of(size: tuple[int, int, int], collective: Collective, ranks: int = 2) -> Iterator[SharedGemm]:
    """The product of (m, k, n) in each tile tried, K split where tiles leave SMs idle."""
    m, k, n = size
    for tile_m, tile_n in next(tiles for most, tiles in TILES if m <= most):
        if collective.kind != "all-reduce" and m % (ranks * tile_m):
            continue
        split_k = split_of((m, n, k), (tile_m, tile_n))
        yield SharedGemm(m, n, k, collective, ranks, DTYPE, tile_m, tile_n, split_k)


def problem_of(size: tuple[int, int, int], collective: Collective, ranks: int = 2) -> SharedGemm:
    """In the first of these tiles."""
    return next(problems_of(size, collective, ranks))


def variants_of(size: tuple[int, int, int], collective: Collective, ranks: int) -> dict[str, list[Variant]]:
    """By the names that the simulator gives the ways."""
    stores = {"stores": 0, "stores:8": 8, "stores:16": 16}
    if collective.kind == "all-gather":
        return {
            f"blocks:{sms}": _each(size, collective, ranks, CallOptions(send_blocks=sms, limit_s=LIMIT_S))
            for sms in (8, 16)
        }
    found = {
        name: _each(size, collective, ranks, CallOptions(reduce_blocks=sms, limit_s=LIMIT_S))
        for name, sms in stores.items()
    }
    if collective.kind != "all-reduce":
        return found
    if size[0] < ONE_SHOT_ROWS:
        for name in ("stores", "stores:8"):
            options = CallOptions(reduce_blocks=stores[name], limit_s=LIMIT_S)
            found[f"{name} one-shot"] = _each(size, ONE_SHOT, ranks, options)
    blocks = CallOptions("blocks", send_blocks=8, limit_s=LIMIT_S)
    found["blocks:16"] = _each(size, collective, ranks, blocks)[:1]
    first = problem_of(size, collective, ranks)
    chunked = replace(first, chunk_rows=-(-first.rows // COPIED_CHUNKS))
    found["copies:8"] = [Variant(chunked, CallOptions("copies", limit_s=LIMIT_S))]
    return found


def _each(
    size: tuple[int, int, int], collective: Collective, ranks: int, options: CallOptions
) -> list[Variant]:
    return [Variant(problem, options) for problem in problems_of(size, collective, ranks)]
