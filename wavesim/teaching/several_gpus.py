"""Notebook 14: products on two GPUs and the all-reduce of their sums, as measured and as simulated.

Example: `measured()` is the table of the GEMM, of NCCL's all-reduce and of both in a row on two H200s;
`simulated("stores", 2048)` is one of wavesim's ways on the same product.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import wavesim.recordings
from wavesim.model.device import default_device
from wavesim.model.link import Link, load_link
from wavesim.predict.peer_forecast import PeerForecast, forecast_ways, one_gemm
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.documents import read_toml
from wavesim.sim.peers.simulation import simulate_peers
from wavesim.sim.peers.way import PeerWay, parse_way
from wavesim.teaching.shown import Shown
from wavesim.trace.trace import Trace
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host

COLUMNS, DEPTH = 12_288, 6_144  # of the measured product
RECORDING = Path(wavesim.recordings.__file__).parent / "two-gpus" / "calls" / "stores-2048.npz"
ROWS, SHARE, MOST_US = 2_048, 0.85, 490  # of the exercises
RECORDED_SIZE = (2048, 8192, 4096)  # m, n, k of its product
TABLES = Path(__file__).with_suffix(".toml")


def link() -> Link:
    """Between two of the usual device."""
    return load_link(default_device().name)


@cache
def _rows(name: str) -> Sequence[Mapping[str, int]]:
    """The rows of a measured table, by column, in us."""
    table = read_toml(TABLES)[name]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def measured() -> Shown:
    """The GEMM, the all-reduce, one after the other, and what hiding all of the shorter would gain."""
    cells = [
        (
            f"{row['m']:,}",
            *(f"{row[name]:,}" for name in ("gemm", "all_reduce", "sequence")),
            f"{row['sequence'] / max(row['gemm'], row['all_reduce']):.2f}",
        )
        for row in _rows("sequence")
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
        for row in _rows("chunks")
    ]
    return Shown(("M x K x N", "2 chunks, times", "4 chunks", "8 chunks"), tuple(cells))


def source() -> str:
    """Where the measured tables come from."""
    return str(read_toml(TABLES)["source"])


@typed
@cache
def simulated(way: str, m: int, gpus: int = 2, speed: float = 1.0) -> PeerForecast:
    """One after the other and a way, of M rows of the measured product. Raises `DescriptionError`."""
    device = default_device()
    carrier = link() if speed == 1.0 else link().scaled(speed)
    host = Host(gpus, carrier, {"gemm": Collective()})
    return forecast_ways(one_gemm(m, COLUMNS, DEPTH, device), host, device, (way,), both_shots=False)


@cache
def recorded() -> Trace:
    """A measured call on two H200s with 8 SMs kept for adding, on one clock."""
    return Trace.load(RECORDING)


@cache
def as_recorded() -> Trace:
    """The same product, tiles and way, simulated."""
    device = default_device()
    host = Host(2, link(), {"gemm": Collective()})
    return simulate_peers(one_gemm(*RECORDED_SIZE, device), host, PeerWay("stores", 8), device)


def ends() -> Shown:
    """When the last product and the last sum end, simulated and recorded."""
    cells = []
    for words, trace in (("simulated", as_recorded()), ("measured", recorded())):
        last = {"gemm": 0, "gemm.sum": 0}
        for number, info in enumerate(trace.header.stages):
            name = info.name.partition("@")[0]
            last[name] = max(last[name], int(trace.end_ns[trace.stage == number].max()))
        cells.append((words, *(f"{ns / 1e3:,.0f}" for ns in last.values())))
    return Shown(("", "last product ends, µs", "last sum ends, µs"), tuple(cells))


@typed
def late(us: int, limit_us: int = 10_000) -> int:
    """Time in ns of a small product where GPU 1 begins so much later; waits have a limit.

    Raises `DeadlockError` naming who waited for what where that is reached.
    """
    device = default_device()
    host = Host(2, link(), {"gemm": Collective()}, (0, 1_000 * us))
    one = one_gemm(256, 4_096, 1_024, device)
    return simulate_peers(one, host, PeerWay("stores", 8), device, limit_ns=1_000 * limit_us).makespan_ns


def _limit(_: float) -> dict[str, Any]:
    """What hiding all of the all-reduce would gain at 2,048 rows, from the measured table."""
    row = next(row for row in _rows("sequence") if row["m"] == ROWS)
    taken = row["sequence"]
    nothing = taken / (row["gemm"] + row["all_reduce"])
    return {
        "other_hidden": taken / row["all_reduce"],
        "nothing_hidden": nothing,
        "best": taken / row["gemm"],
    }


def _sent() -> dict[str, Any]:
    """MB that leave a GPU in a two-shot all-reduce over two and over eight GPUs."""
    size = 2 * ROWS * COLUMNS / 1e6
    return {"two": size, "eight": size * 7 / 4}


def _filling() -> dict[str, Any]:
    """The least measured number of blocks that write, and that read, 85 % of what the link carries."""
    rates = {"write": link().rates("write"), "read": link().rates("read")}
    return {
        access: min(count for count, rate in of_blocks.items() if rate >= SHARE * max(of_blocks.values()))
        for access, of_blocks in rates.items()
    }


def _fast_way(answer: Any) -> dict[str, Any]:
    """A way that takes 2,048 rows in 490 us at most, simulated. Raises `DescriptionError`."""
    if not isinstance(answer, str):
        return {"is_text": False}
    word = parse_way(answer.strip()).word
    found = simulated(word, ROWS)
    last = found.times[-1]
    taken, speedup = last.time_ns / 1e3, found.speedup(last)
    facts = {"is_text": True, "word": word, "taken": taken, "most": MOST_US, "is_fast": taken <= MOST_US}
    return {**facts, "speedup": speedup}


GRADERS = {"14.1": _limit, "14.2": _sent, "14.3": _filling, "14.4": _fast_way}
