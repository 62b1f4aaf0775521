"""The roofline, and where tiled matrix products stand on it.

Example: with tiles of 16 x 16 each float that is loaded serves 16 multiply-adds, 4 flops per byte; at 150
GB/s that is 600 GFLOP/s, of 1000 that the GPU could do. Tiles of 32 x 32 could use 1200.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Roofline:
    """A peak rate of computing, in flop/s, under a memory of so many bytes/s."""

    flops_per_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        for name in ("flops_per_s", "bytes_per_s"):
            if not getattr(self, name) > 0:
                raise DescriptionError(f"{name} is {getattr(self, name)!r}; it must be above 0")

    def attainable(self, intensity: float) -> float:
        """Flop/s that a kernel of `intensity` flops per byte reaches at most."""
        return min(self.flops_per_s, intensity * self.bytes_per_s)


@dataclass(frozen=True)
class TiledProduct:
    """An fp32 product whose block loads a `tile` x `tile` piece of each operand into shared memory per step.

    One thread per element of the tile, so `tile` is at most 32.
    """

    tile: int

    def __post_init__(self) -> None:
        if not 1 <= self.tile <= 32:
            raise DescriptionError(f"tile is {self.tile!r}; a block has a thread per element, so 1 to 32")

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.tile * self.tile

    @property
    def shared_bytes(self) -> int:
        """Of a block: a piece of each operand."""
        return 2 * self.threads * FLOAT_BYTES

    @property
    def intensity(self) -> float:
        """Flops per byte of global memory: 2 x tile for the two floats that each thread loads."""
        return 2 * self.tile / (2 * FLOAT_BYTES)

    def blocks_per_sm(self, shared_bytes: int, threads: int) -> int:
        """Resident blocks where an SM has so much shared memory and so many threads."""
        return min(shared_bytes // self.shared_bytes, threads // self.threads)

    def pending_loads(self, shared_bytes: int, threads: int) -> int:
        """Loads of threads in flight on an SM when all its blocks load: two for each thread."""
        return 2 * self.threads * self.blocks_per_sm(shared_bytes, threads)
