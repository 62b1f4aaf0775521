"""How long an all-reduce over the GPUs of a host takes: measured on two, modelled for more.

Example: 2,048 rows of 12,288 fp16 values are 50 MB; over eight GPUs at 361 GB/s of bus bandwidth 244 us.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wavesim.guard.documents import read_toml

FILE = Path(__file__).with_name("all_reduce.toml")
ELEMENT_BYTES = 2


@dataclass(frozen=True)
class AllReduce:
    """A host's links. `measured` are times in us on two GPUs, by rows of 12,288 fp16 columns."""

    bus_bytes_per_s: float
    least_us: float
    date: str
    source: str
    measured: dict[str, int]

    def time_ns(self, rows: int, columns: int, gpus: int) -> float:
        """Of a matrix of two-byte elements; 0 on one GPU."""
        if gpus == 1:
            return 0.0
        moved = 2 * (gpus - 1) / gpus * rows * columns * ELEMENT_BYTES
        return max(self.least_us * 1e3, moved / self.bus_bytes_per_s * 1e9)


@cache
def all_reduces() -> dict[str, AllReduce]:
    """By the device's name."""
    return {name: AllReduce(**entry) for name, entry in read_toml(FILE).items()}
