"""What others published of several GPUs, beside what is simulated of the same sizes.

Example: of 128 x 1,536 x 7,168 and its all-reduce on eight B300s vLLM measured 54 us in a row and 70 with a
kernel that overlaps both, 0.78 times as fast; simulated, with an H200's SMs, the overlap gains over NCCL and
next to nothing over a library's two-shot all-reduce. Nothing is fitted to these rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.costs.peer_costs import peer_costs_of
from wavesim.model.collective import Collective
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import load_link
from wavesim.safe_io.documents import read_toml
from wavesim.sim.peers.prediction import product_forecast

FILE = Path(__file__).with_name("peer_published.toml")
LIBRARY_WAYS = ("one-shot", "two-shot")


@dataclass(frozen=True)
class PublishedCollective:
    """One size of a collective of a library: published and simulated us."""

    source: str
    machine: str
    kind: str
    by: str
    size: int
    published_us: float
    simulated_us: float

    @property
    def error(self) -> float:
        """Percent of the published time."""
        return 100 * (self.simulated_us / self.published_us - 1)


@dataclass(frozen=True)
class PublishedProduct:
    """One product and its collective, us: `library` is the fastest of a library's ways, simulated."""

    source: str
    machine: str
    way: str
    m: int
    k: int
    n: int
    in_a_row: float
    overlapped: float
    simulated_in_a_row: float
    simulated_library: float
    simulated_overlapped: float


@cache
def published_collectives() -> tuple[PublishedCollective, ...]:
    """Every size of every table."""
    return tuple(_collectives())


def _collectives() -> Iterator[PublishedCollective]:
    device = default_device()
    costs, link = peer_costs_of(device.name), load_link(device.name)
    for table in read_toml(FILE)["collectives"]:
        kind, by, gpus = table["kind"], table["by"], table["gpus"]
        for size, us in table["rows"]:
            taken = costs.alone_ns(kind, size, gpus)
            if by == "one-shot":
                taken = costs.direct_ns("vllm", size, gpus, link) + link.flag_ns
            yield PublishedCollective(table["source"], table["machine"], kind, by, size, us, taken / 1e3)


@cache
def published_products() -> tuple[PublishedProduct, ...]:
    """Every product of every table; takes some seconds."""
    tables = read_toml(FILE)["products"]
    return tuple(product_of(table, row) for table in tables for row in table["rows"])


def product_of(table: Mapping[str, Any], row: list[float]) -> PublishedProduct:
    """One row of a table, simulated on as many of the usual device with that machine's link."""
    device = default_device()
    m, k, n = (int(value) for value in row[:3])
    collective = Collective(table["kind"])
    host = Host(table["gpus"], load_link(device.name).scaled(table["link"]), {"gemm": collective})
    ways = (*(LIBRARY_WAYS if collective.kind == "all-reduce" else ()), table["way"])
    found = product_forecast((m, n, k), host, device, ways, both_shots=False).times
    library = min(one.time_ns for one in found if one.way.is_library)
    ours = [one.time_ns for one in found if not one.way.is_library]
    return PublishedProduct(
        table["source"],
        table["machine"],
        table["way"],
        *(m, k, n),
        *(row[3], row[4]),
        found[0].time_ns / 1e3,
        library / 1e3,
        ours[0] / 1e3,
    )
