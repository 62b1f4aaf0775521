"""What a MoE layer's kernels are launched for: sizes, the tile, and where things are in the scratch memory.

Example: `MoeShape(tokens=16, experts=128, top_k=8, hidden=2048, inner=768)` has 128 slots; however they fall
on the experts, their rows need no more than 1,024 rows of the sorted buffers, and 128 blocks of rows.
"""

from dataclasses import dataclass
from functools import cached_property

from wavesim.errors import DescriptionError
from wavesim.safety.hang.mirror import ERRORS
from wavesim_gpu.kernels.gemm.sm90.tensor_map import ELEMENT_BYTES
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS, WgmmaTile

# kernels/moe/routing.cuh
ROW_UNIT, FIRST_SEMAPHORE, MOST_EXPERTS, FEW_SLOTS, FEW_CHOICES = 8, 4, 1024, 2048, 32
UNIT = 64  # columns that hidden and inner sizes are multiples of
MOST_SLOTS = 2**20
BLOCK_BYTES, WORD, ALIGNMENT = 16, 4, 256
FEW_ROWS = 48  # rows of an expert, on average, up to which a tile has 64 rows
# Narrow tiles of few rows: their weights are read once, and by more SMs; a deeper pipeline than a GEMM's.
CONFIGS = {(64, 128): WgmmaTile(1, 1, 128, depth=8, buffers=2)}
CONFIGS |= {tile: TILE_CONFIGS[tile] for tile in ((64, 256), (128, 256), (128, 128))}
TILES = tuple(CONFIGS)


@dataclass(frozen=True)
class MoeShape:
    """One layer for so many tokens. `tile` is rows by columns of B. Raises `DescriptionError`."""

    tokens: int
    experts: int
    top_k: int
    hidden: int
    inner: int
    tile: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        for name, most in (("tokens", MOST_SLOTS), ("experts", MOST_EXPERTS), ("top_k", self.experts)):
            if not 1 <= getattr(self, name) <= most:
                raise DescriptionError(f"{name} is {getattr(self, name)}; a MoE layer takes 1 to {most}")
        if self.slots > MOST_SLOTS:
            raise DescriptionError(
                f"{self.tokens} tokens of {self.top_k} experts each are {self.slots} rows; a call takes "
                f"{MOST_SLOTS}: split the tokens"
            )
        for name in ("hidden", "inner"):
            if getattr(self, name) % UNIT or not getattr(self, name):
                raise DescriptionError(f"{name} is {getattr(self, name)}; it must be a multiple of {UNIT}")
        if self.tile == (0, 0):
            is_few = self.slots <= FEW_ROWS * self.experts
            object.__setattr__(self, "tile", (64, 128) if is_few else (128, 256))
        if self.tile not in TILES:
            known = ", ".join(f"{m}x{n}" for m, n in TILES)
            raise DescriptionError(f"tile is {self.tile}; a grouped GEMM has {known}")

    @property
    def slots(self) -> int:
        """Rows that experts compute."""
        return self.tokens * self.top_k

    @property
    def config(self) -> WgmmaTile:
        """The tile configuration."""
        return CONFIGS[self.tile]

    @property
    def is_few(self) -> bool:
        """Whether one launch routes and copies rows."""
        return self.slots <= FEW_SLOTS and self.top_k <= FEW_CHOICES

    @property
    def rows(self) -> int:
        """Of the sorted buffers, whatever the routing: each expert's rows begin at a multiple of eight."""
        touched = min(self.experts, self.slots)
        return -(-(self.slots + touched * (ROW_UNIT - 1)) // ROW_UNIT) * ROW_UNIT

    @property
    def most_blocks(self) -> int:
        """Blocks of rows, whatever the routing."""
        return self.slots // self.tile[0] + min(self.experts, self.slots)

    @property
    def gate_up_columns(self) -> int:
        """Of tiles: each has half a tile's columns of gates, and the values that belong to them."""
        return -(-self.inner // (self.tile[1] // 2))

    @property
    def down_columns(self) -> int:
        """Of tiles."""
        return -(-self.hidden // self.tile[1])

    @property
    def counter_count(self) -> int:
        """Words that a call begins with as zeros."""
        return FIRST_SEMAPHORE + self.most_blocks

    @cached_property
    def places(self) -> dict[str, int]:
        """Offsets in the scratch memory in bytes, and `bytes`, its size."""
        sizes = {
            "sorted": self.rows * self.hidden * ELEMENT_BYTES,
            "between": self.rows * self.inner * ELEMENT_BYTES,
            "made": self.rows * self.hidden * ELEMENT_BYTES,
            "rows": self.slots * WORD,
            "blocks": self.most_blocks * BLOCK_BYTES,
            "block_count": WORD,
            "counters": self.counter_count * WORD,
            "errors": ERRORS.itemsize,
            "bytes": 0,
        }
        places, at = {}, 0
        for name, size in sizes.items():
            places[name] = at
            at += -(-size // ALIGNMENT) * ALIGNMENT
        return places
