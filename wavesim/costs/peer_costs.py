"""What several GPUs of one host cost besides their links: a library's collectives, and blocks that add.

Example: an all-reduce of 50 MB on two H200s takes 18 us and its bytes at 275 GB/s, 201 us in all, and holds
24 SMs of each. The constants and where they come from are in `peer_costs.toml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from wavesim.errors import DescriptionError
from wavesim.guard.bounds import shown
from wavesim.guard.documents import read_toml

FILE = Path(__file__).with_name("peer_costs.toml")
# Bytes that cross a link in each direction, of all bytes of a matrix over n ranks, times n / (n - 1).
SHARES = {"all-reduce": 2.0, "reduce-scatter": 1.0, "all-gather": 1.0}


@dataclass(frozen=True)
class PeerCosts:
    """Of a kind of device. `burst_ratio`: a GEMM's time in a short run over that under sustained load.

    A library's collective holds `library_sms` SMs, takes `collective_ns` and its bytes over
    `collective_bytes_per_s`, and at least `least_collective_ns`. A block alone on its SM reads and adds
    `add_bytes_per_s_per_sm`.
    """

    collective_ns: int
    collective_bytes_per_s: float
    least_collective_ns: int
    library_sms: int
    burst_ratio: float
    add_bytes_per_s_per_sm: float
    source: str
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def time_ns(self, kind: str, size: int, ranks: int, link_factor: float = 1.0) -> int:
        """A library's collective of a matrix of `size` bytes; `link_factor`: a link so much faster."""
        moved = SHARES[kind] * (ranks - 1) / ranks * size
        taken = self.collective_ns + moved / (self.collective_bytes_per_s * link_factor) * 1e9
        return round(max(self.least_collective_ns, taken))


@cache
def peer_costs_of(device: str) -> PeerCosts:
    """Of a device by name. Raises `DescriptionError` where nobody measured any."""
    known = read_toml(FILE)
    if device not in known:
        raise DescriptionError(
            f"no collective was measured on {shown(device)}; known are {', '.join(known)}. Choose one of them"
        )
    return PeerCosts(**known[device])
