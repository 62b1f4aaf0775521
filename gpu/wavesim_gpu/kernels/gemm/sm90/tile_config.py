"""Tile configurations of the Hopper GEMM, as `tile_config.cuh` has them: which tiles there are.

Example: `config_of(gemm)` of a 128x256 tile is two MMA warpgroups, a pipeline of four slots and two epilogue
buffers per warpgroup.
"""

from dataclasses import dataclass, replace

from wavesim.work.gemm import Gemm
from wavesim_gpu.kernels.gemm.sm90.tensor_map import ELEMENT_BYTES, PANEL

TILE_K = 64
CONTROL_BYTES = 1024  # sm90/shared_memory.cuh, Control: barriers and work tiles, after all buffers


@dataclass(frozen=True)
class WgmmaTile:
    """One tile: `warpgroups` x `fragments` x 64 rows, by `tile_n` columns.

    `depth` is that of the pipeline, `buffers` are epilogue buffers per warpgroup. `can_pair_rows`: where
    there are two rows of tiles, blocks come in clusters of two that load B once for both. Measured: 8 to 12 %
    at 128 tokens; with more rows, and for the other tiles, clusters lose 1 to 4 %.
    """

    warpgroups: int
    fragments: int
    tile_n: int
    depth: int
    buffers: int
    cluster: int = 1
    is_stream_k: bool = False
    can_pair_rows: bool = False

    @property
    def tile_m(self) -> int:
        """Rows of the tile."""
        return 64 * self.warpgroups * self.fragments

    @property
    def loaded_columns(self) -> int:
        """Columns of B that a slot of the pipeline has room for: whole panels."""
        return -(-self.tile_n // PANEL) * PANEL

    @property
    def threads(self) -> int:
        """MMA warpgroups, and one with the producer and epilogue warps."""
        return 128 * (1 + self.warpgroups)

    @property
    def dynamic_shared_bytes(self) -> int:
        """The pipeline, the epilogue buffers, barriers."""
        pipeline = self.depth * (self.tile_m + self.loaded_columns) * ELEMENT_BYTES * TILE_K
        return pipeline + self.warpgroups * self.buffers * PANEL * 128 + CONTROL_BYTES

    @property
    def name(self) -> str:
        """The C++ type."""
        sizes = (self.warpgroups, self.fragments, self.tile_n, self.depth, self.buffers, self.cluster)
        return f"TileConfig<{', '.join(map(str, sizes))}{', true' if self.is_stream_k else ''}>"


TILE_CONFIGS = {
    (entry.tile_m, entry.tile_n): entry
    for entry in (
        WgmmaTile(2, 1, 256, depth=4, buffers=2),
        WgmmaTile(2, 1, 240, depth=4, buffers=2),
        WgmmaTile(2, 1, 224, depth=4, buffers=2),
        WgmmaTile(2, 1, 208, depth=4, buffers=2),
        WgmmaTile(2, 1, 176, depth=5, buffers=1),
        WgmmaTile(2, 2, 128, depth=4, buffers=2),
        WgmmaTile(3, 1, 192, depth=4, buffers=1),
        WgmmaTile(2, 1, 192, depth=5, buffers=1),
        WgmmaTile(3, 1, 128, depth=5, buffers=1),
        WgmmaTile(2, 1, 128, depth=6, buffers=2),
        WgmmaTile(1, 1, 256, depth=5, buffers=2),
        WgmmaTile(1, 1, 192, depth=6, buffers=2, can_pair_rows=True),
        WgmmaTile(1, 1, 128, depth=6, buffers=2),
        WgmmaTile(1, 1, 64, depth=8, buffers=2),
    )
}


def config_of(gemm: Gemm) -> WgmmaTile:
    """The configuration of a GEMM's tile, which is one of `TILE_CONFIGS`; in clusters where that pays."""
    config = TILE_CONFIGS[gemm.tile_m, gemm.tile_n]
    has_two_rows = config.tile_m < gemm.m <= 2 * config.tile_m
    return replace(config, cluster=2) if config.can_pair_rows and has_two_rows else config
