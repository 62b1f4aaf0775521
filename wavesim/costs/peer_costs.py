"""What several GPUs of one host cost besides their links: the collectives of libraries.

Example: an all-reduce of 50 MB on two H200s takes NCCL 15 us and its bytes at 266 GB/s, 204 us in all, and
holds 24 SMs of each. One of 1.5 MB goes by a protocol that begins sooner and carries half as much: 19 us. The
constants and where they come from are in `peer_costs.toml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path

from wavesim.errors import DescriptionError
from wavesim.guard.bounds import shown
from wavesim.guard.documents import read_toml
from wavesim.model.collective import Shots
from wavesim.model.link import Link

FILE = Path(__file__).with_name("peer_costs.toml")
# How often a matrix goes round a ring of n ranks, n - 1 steps each time.
ROUNDS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}


@dataclass(frozen=True)
class RingProtocol:
    """How a library sends over a ring: `begin_ns` and `step_ns` besides the bytes, which go at `rate_share`
    of the link's rate and at `most_bytes_per_s` at most.
    """

    begin_ns: int
    step_ns: int
    rate_share: float
    most_bytes_per_s: float = inf

    def time_ns(self, steps: int, moved: float, bytes_per_s: float) -> float:
        """Of bytes that each rank sends in so many steps over a ring that carries `bytes_per_s`."""
        rate = min(self.rate_share * bytes_per_s, self.most_bytes_per_s)
        return self.begin_ns + steps * self.step_ns + moved / rate * 1e9


@dataclass(frozen=True)
class PeerCosts:
    """Of a kind of device. `burst_ratio`: a GEMM's time in a short run over that under sustained load.

    A library's collective holds `library_sms` SMs and goes by the protocol that is fastest for its size;
    `collective_bytes_per_s` is what its ring carries. `two_shot_begin_ns`: what PyTorch's two-shot all-reduce
    over symmetric memory takes besides its bytes.
    """

    collective_bytes_per_s: float
    library_sms: int
    burst_ratio: float
    two_shot_begin_ns: int
    protocols: Mapping[str, RingProtocol]
    source: str
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def words(self) -> str:
        """What a collective is taken to cost, for people."""
        rate = f"{self.collective_bytes_per_s / 1e9:.0f} GB/s"
        return f"{rate} round a ring, NCCL's own latency per step; {self.source}, more GPUs at that rate"

    def protocol(self, kind: str, size: int, ranks: int, link_factor: float = 1.0) -> str:
        """The name of the protocol that is fastest for a matrix of `size` bytes."""
        return min(self.protocols, key=lambda name: self._ns(name, kind, size, ranks, link_factor))

    def time_ns(self, kind: str, size: int, ranks: int, link_factor: float = 1.0) -> int:
        """A library's collective of a matrix of `size` bytes; `link_factor`: a link so much faster.

        0 on one rank.
        """
        if ranks == 1:
            return 0
        name = self.protocol(kind, size, ranks, link_factor)
        return round(self._ns(name, kind, size, ranks, link_factor))

    def direct_ns(self, shots: Shots, size: int, ranks: int, link: Link) -> int:
        """An all-reduce by one kernel per rank that reads and stores over peer memory, between barriers.

        In one shot a rank reads all others' `size` bytes and adds them; in two it does so with its share, and
        stores the sums to all. The barrier at the begin, in which ranks meet, is not counted.
        """
        if shots == "one-shot":
            moved, begin_ns = (ranks - 1.0) * size, 2 * link.flag_ns
        else:
            moved, begin_ns = 2 * (ranks - 1) / ranks * size, self.two_shot_begin_ns
        return round(begin_ns - link.flag_ns + moved / link.most("read") * 1e9)

    def _ns(self, name: str, kind: str, size: int, ranks: int, link_factor: float) -> float:
        steps = ROUNDS[kind] * (ranks - 1)
        rate = self.collective_bytes_per_s * link_factor
        return self.protocols[name].time_ns(steps, steps / ranks * size, rate)


@cache
def peer_costs_of(device: str) -> PeerCosts:
    """Of a device by name. Raises `DescriptionError` where nobody measured any."""
    known = read_toml(FILE)
    if device not in known:
        raise DescriptionError(
            f"no collective was measured on {shown(device)}; known are {', '.join(known)}. Choose one of "
            "them, or one GPU"
        )
    found = dict(known[device])
    protocols = {name: RingProtocol(**values) for name, values in found.pop("protocols").items()}
    return PeerCosts(protocols=protocols, **found)
