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
from wavesim.model.link import Link
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_toml
from wavesim.work.collective import Shots

FILE = Path(__file__).with_name("peer_costs.toml")
# How often a matrix goes round a ring of n ranks, n - 1 steps each time.
ROUNDS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}


@dataclass(frozen=True)
class RingProtocol:
    """How a library sends over a ring: `begin_ns` and `step_ns` besides the bytes, which go at `rate_share`
    of the link's rate and at `most_bytes_per_s` at most. Behind a GEMM, `in_a_row_ns` more.
    """

    begin_ns: int
    in_a_row_ns: int
    step_ns: int
    rate_share: float
    most_bytes_per_s: float = inf

    def time_ns(self, steps: int, moved: float, bytes_per_s: float) -> float:
        """Of bytes that each rank sends in so many steps over a ring that carries `bytes_per_s`."""
        rate = min(self.rate_share * bytes_per_s, self.most_bytes_per_s)
        return self.begin_ns + steps * self.step_ns + moved / rate * 1e9


@dataclass(frozen=True)
class DirectKernel:
    """An all-reduce by one kernel per rank, of which so many `blocks` of 512 threads read peers' memory.

    In one shot a rank reads all others' outputs and adds them; in two it does so with its share, and then
    reads the others' sums.
    """

    shots: Shots
    begin_ns: int
    blocks: int

    def time_ns(self, size: int, ranks: int, link: Link) -> float:
        """Of a matrix of `size` bytes."""
        moved = (ranks - 1.0) * size if self.shots == "one-shot" else 2 * (ranks - 1) / ranks * size
        rate = min(link.most("read"), self.blocks * link.bytes_per_s("read", 1))
        return self.begin_ns + moved / rate * 1e9


@dataclass(frozen=True)
class PeerCosts:
    """Of a kind of device. `burst_ratio`: a GEMM's time in a short run over that under sustained load.

    A library's collective holds `library_sms` SMs and goes by the protocol that is fastest for its size;
    `collective_bytes_per_s` is what its ring carries. `direct`: all-reduces over peer memory, PyTorch's by
    their shots. A tile that is added up takes an SM `add_begin_ns` and its bytes at `add_bytes_per_s`.
    `call_ns`: what a call of ours takes besides its tiles, by way: the launches behind the GEMM, the last
    fences over the link, and until all blocks have retired. `copy_begin_ns`: of each copy by the copy engine.
    Matrices of `resident_bytes` together stay in the L2 from one call to the next and come at
    `resident_bytes_per_s`; tiles of ours take `evicted_ratio` times as long where the weights are larger,
    and `exchange_ratio` times where their own epilogue adds. An all-reduce by exchange ends with a copy of
    the other's sums, which `copied_bytes_per_s` of all outputs bound.
    """

    collective_bytes_per_s: float
    library_sms: int
    burst_ratio: float
    direct: Mapping[str, DirectKernel]
    add_begin_ns: int
    add_bytes_per_s: float
    resident_bytes: int
    resident_bytes_per_s: float
    evicted_ratio: float
    exchange_ratio: float
    copied_bytes_per_s: float
    copy_begin_ns: int
    call_ns: Mapping[str, int]
    protocols: Mapping[str, RingProtocol]
    source: str
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def words(self) -> str:
        """What a collective is taken to cost, for people."""
        rate = f"{self.collective_bytes_per_s / 1e9:.0f} GB/s"
        return f"{rate} round a ring, NCCL's own latency per step; {self.source}, more GPUs at that rate"

    def time_ns(self, kind: str, size: int, ranks: int, link_factor: float = 1.0) -> int:
        """A library's collective of a matrix of `size` bytes behind a GEMM; `link_factor`: a link so fast.

        0 on one rank.
        """
        if ranks == 1:
            return 0
        return round(
            min(
                protocol.in_a_row_ns + self._ns(protocol, kind, size, ranks, link_factor)
                for protocol in self.protocols.values()
            )
        )

    def alone_ns(self, kind: str, size: int, ranks: int) -> int:
        """The same with nothing before it, by the protocol that is then fastest."""
        return round(min(self._ns(protocol, kind, size, ranks, 1.0) for protocol in self.protocols.values()))

    def add_ns(self, moved: int) -> int:
        """A tile's parts read, added and the sum written, `moved` bytes in all, on one SM."""
        return round(self.add_begin_ns + moved / self.add_bytes_per_s * 1e9)

    def direct_ns(self, name: str, size: int, ranks: int, link: Link) -> int:
        """An all-reduce of `size` bytes by a kernel of that name.

        The barrier at its begin, in which ranks meet, is not counted.
        """
        return round(self.direct[name].time_ns(size, ranks, link) - link.flag_ns)

    def _ns(self, ring_protocol: RingProtocol, kind: str, size: int, ranks: int, link_factor: float) -> float:
        steps = ROUNDS[kind] * (ranks - 1)
        rate = self.collective_bytes_per_s * link_factor
        return ring_protocol.time_ns(steps, steps / ranks * size, rate)


@cache
def peer_costs_of(device: str) -> PeerCosts:
    """Of a device by name. Raises `DescriptionError` where nobody measured any."""
    known = read_toml(FILE)
    if device not in known:
        raise DescriptionError(
            f"no collective was measured on {shown(device)}; known are {', '.join(known)}. Choose one of "
            "them, or one GPU"
        )
    costs = dict(known[device])
    protocols = {name: RingProtocol(**values) for name, values in costs.pop("protocols").items()}
    direct = {name: DirectKernel(**values) for name, values in costs.pop("direct").items()}
    return PeerCosts(protocols=protocols, direct=direct, **costs)
