"""How far simulated times of two GPUs lie from the older measured tables.

Example: of the sequence GEMM then all-reduce 13 rows are scored. But for a GEMM's clock in a short run, which
every second row was used for, constants were fitted to other measurements. A GEMM's measured time is given
where the row has one, so that what is scored is the communication and what overlaps; `predicted` rows take
the GEMM's predicted time too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from wavesim.costs.peer_costs import peer_costs_of
from wavesim.model.collective import Collective
from wavesim.model.device import load
from wavesim.model.host import Host
from wavesim.model.kernel import Gemm
from wavesim.model.link import load_link
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.sim.peers.simulation import best_gemm, library_gemm, simulate_peers, times_of
from wavesim.sim.peers.two_gpu_tables import FILE, measured_tables
from wavesim.sim.peers.way import PeerWay
from wavesim.workloads.hopper import block_of

ALL_REDUCE = Collective()
DEVICE = FILE.stem.removeprefix("two_")
GPUS = 2


@dataclass(frozen=True)
class PeerScore:
    """One row under one way: simulated and measured us."""

    table: str
    way: str
    m: int
    k: int
    n: int
    simulated_us: float
    measured_us: float

    @property
    def error(self) -> float:
        """Percent of the measured time."""
        return 100 * (self.simulated_us / self.measured_us - 1)


def is_development(place: int) -> bool:
    """Whether a row, by its place in its table, is one that constants were fitted to."""
    return place % 2 == 0


def scores(*, with_measured_gemm: bool = True) -> list[PeerScore]:
    """Every row of every table."""
    return [
        *_collective_scores(),
        *_library_scores(with_measured_gemm),
        *_reduce_scatter_scores(),
        *_store_scores(),
    ]


def _collective_scores() -> Iterator[PeerScore]:
    """The all-reduces timed alone."""
    costs = peer_costs_of(DEVICE)
    for table in ("sequence", "chunks"):
        for row in measured_tables()[table]:
            taken = costs.alone_ns("all-reduce", 2 * row["m"] * row["n"], GPUS) / 1e3
            yield PeerScore(table, "all-reduce", *_shape(row), taken, row["all_reduce"])


def _library_scores(with_measured_gemm: bool) -> Iterator[PeerScore]:
    for table in ("sequence", "chunks"):
        for row in measured_tables()[table]:
            counts = (1, 2, 4, 8) if table == "chunks" else (1,)
            for count in counts:
                name = "sequence" if count == 1 else f"chunks_{count}"
                way = PeerWay("sequence") if count == 1 else PeerWay("chunks", count)
                taken = _library_us(row, way, with_measured_gemm)
                yield PeerScore(table, way.word, *_shape(row), taken, row[name])


def _reduce_scatter_scores() -> Iterator[PeerScore]:
    """The GEMM and then the library's reduce-scatter, whose times nothing was fitted to."""
    way, collective = PeerWay("sequence"), Collective("reduce-scatter")
    for row in measured_tables()["sequence"]:
        taken = _library_us(row, way, True, collective)
        measured = row["reduce_scatter_sequence"]
        yield PeerScore("sequence", "reduce-scatter", *_shape(row), taken, measured)


def _shape(row: Mapping[str, int]) -> tuple[int, int, int]:
    return row["m"], row["k"], row["n"]


def _library_us(
    row: Mapping[str, int], way: PeerWay, with_measured_gemm: bool, collective: Collective = ALL_REDUCE
) -> float:
    """A chunk's GEMM takes its predicted time, times the whole one's measured over its predicted time."""
    device = load(DEVICE)
    gemm = best_gemm(row["m"], row["n"], row["k"], device)
    one, host = _one(gemm, collective)
    times = times_of(one, host, way, device)
    if with_measured_gemm:
        ratio = 1e3 * row["gemm"] / library_gemm(gemm, device)[0]
        library = {name: (round(ns * ratio), sms) for name, (ns, sms) in times.library.items()}
        times = replace(times, library=library)
    return simulate_peers(one, host, way, device, times=times).makespan_ns / 1e3


def _one(gemm: Gemm, collective: Collective = ALL_REDUCE) -> tuple[Pipeline, Host]:
    one = Pipeline(f"{gemm.m} x {gemm.k} x {gemm.n}", [Stage("gemm", gemm)])
    return one, Host(GPUS, load_link(DEVICE), {"gemm": collective})


def _store_scores() -> Iterator[PeerScore]:
    """The plain GEMM whose epilogue stores every tile to the peer: how much longer it is, and all of it."""
    device = load(DEVICE)
    for row in measured_tables()["stores"]:
        gemm = Gemm("gemm", row["m"], row["n"], row["k"], 128, 256, 64, block=block_of((128, 256)))
        one, host = _one(gemm, Collective("all-reduce", "one-shot"))
        waves = ceil(gemm.grid.size / device.sm_count)
        times = times_of(one, host, PeerWay("plain-stores"), device)
        times = replace(times, tile_ns={"gemm": round(1e3 * row["gemm"] / waves)})
        trace = simulate_peers(one, host, PeerWay("plain-stores"), device, times=times)
        product = trace.rows_of("gemm@0")
        with_stores = (int(trace.end_ns[product].max()) - int(trace.issue_ns.min())) / 1e3
        yield PeerScore("stores", "with stores", *_shape(row), with_stores, row["with_stores"])
        yield PeerScore("stores", "and added", *_shape(row), trace.makespan_ns / 1e3, row["all"])


def summary(found: Sequence[PeerScore]) -> dict[str, Any]:
    """Median and 90th percentile of the absolute errors, in percent, and how many rows."""
    errors = np.abs([one.error for one in found])
    if not errors.size:
        return {"rows": 0}
    return {
        "rows": int(errors.size),
        "median": round(float(np.median(errors)), 1),
        "p90": round(float(np.percentile(errors, 90)), 1),
        "worst": round(float(errors.max()), 1),
    }


def fitted_burst_ratio() -> float:
    """The median of measured over predicted GEMMs of the development rows, at the sustained clock."""
    device, costs = load(DEVICE), peer_costs_of(DEVICE)
    ratios = [
        1e3 * row["gemm"] / library_gemm(best_gemm(row["m"], row["n"], row["k"], device), device)[0]
        for table in ("sequence", "chunks")
        for place, row in enumerate(measured_tables()[table])
        if is_development(place) and row["m"] > 128
    ]
    return float(np.median(ratios)) * costs.burst_ratio


def scores_text(found: Sequence[PeerScore]) -> str:
    """`wavesim/sim/peers/scores.toml`: by kind of way."""
    kinds = {
        "all_reduce": [one for one in found if one.way == "all-reduce"],
        "sequence": [one for one in found if one.way == "sequence"],
        "chunks": [one for one in found if one.way.startswith("chunks")],
        "reduce_scatter": [one for one in found if one.way == "reduce-scatter"],
        "stores": [one for one in found if one.way == "with stores"],
        "stores_and_added": [one for one in found if one.way == "and added"],
    }
    lines = ["# Written by wavesim.evaluation.peer_scores: percent of the measured time, older tables."]
    lines.append('measured_on = "two H200s of one host"')
    for name, rows in kinds.items():
        lines += ["", f"[{name}]", *(f"{key} = {value}" for key, value in summary(rows).items())]
    return "\n".join(lines) + "\n"
