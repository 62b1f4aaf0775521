"""Notebook 14: products on two GPUs and the all-reduce of their sums, as measured and as simulated.

Example: `measured()` is the table of the GEMM, of NCCL's all-reduce and of both in a row on two H200s;
`simulated("stores", 2048)` is one of wavesim's ways on the same product.
"""

from functools import cache

from wavesim.model.collective import Collective
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import Link, load_link
from wavesim.peers.prediction import PeerForecast, forecast, one_gemm
from wavesim.peers.simulation import simulate_peers
from wavesim.peers.two_gpu_tables import measured_on, measured_tables
from wavesim.peers.way import PeerWay
from wavesim.teaching.shown import Shown

COLUMNS, DEPTH = 12_288, 6_144  # of the measured product


def link() -> Link:
    """Between two of the usual device."""
    return load_link(default_device().name)


def measured() -> Shown:
    """The GEMM, the all-reduce, one after the other, and what hiding all of the shorter would gain."""
    cells = [
        (
            f"{row['m']:,}",
            *(f"{row[name]:,}" for name in ("gemm", "all_reduce", "sequence")),
            f"{row['sequence'] / max(row['gemm'], row['all_reduce']):.2f}",
        )
        for row in measured_tables()["sequence"]
    ]
    return Shown(("M", "GEMM, µs", "all-reduce, µs", "in a row, µs", "at best, times"), tuple(cells))


def in_chunks() -> Shown:
    """NCCL in chunks on a second stream, as measured, over one after the other."""
    names = ("chunks_2", "chunks_4", "chunks_8")
    cells = [
        (
            f"{row['m']:,} x {row['k']:,} x {row['n']:,}",
            *(f"{row['sequence'] / row[name]:.2f}" for name in names),
        )
        for row in measured_tables()["chunks"]
    ]
    return Shown(("M x K x N", "2 chunks, times", "4 chunks", "8 chunks"), tuple(cells))


def source() -> str:
    """Where the measured tables come from."""
    return measured_on()


@cache
def simulated(way: str, m: int, gpus: int = 2, speed: float = 1.0) -> PeerForecast:
    """One after the other and a way, of M rows of the measured product. Raises `DescriptionError`."""
    device = default_device()
    carrier = link() if speed == 1.0 else link().scaled(speed)
    host = Host(gpus, carrier, {"gemm": Collective()})
    return forecast(one_gemm(m, COLUMNS, DEPTH, device), host, device, (way,), both_shots=False)


def late(us: int, limit_us: int = 10_000) -> int:
    """Time in ns of a small product where GPU 1 begins so much later; waits have a limit.

    Raises `DeadlockError` naming who waited for what where that is reached.
    """
    device = default_device()
    host = Host(2, link(), {"gemm": Collective()}, (0, 1_000 * us))
    one = one_gemm(256, 4_096, 1_024, device)
    return simulate_peers(one, host, PeerWay("stores", 8), device, limit_ns=1_000 * limit_us).makespan_ns
