"""Which way of communicating pays: every way simulated, the best, what of it is hidden.

Example: of M x 6144 x 12288 and its all-reduce on two H200s at M = 2,048 one after the other takes 0.6 ms; a
GEMM whose tiles leave as they are made beside 8 SMs that add 0.5. All simulated; `NOTE` says how such times
compared with measured ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import Policy
from wavesim.safe_io.documents import read_toml
from wavesim.sim.peers.program import PeerTimes
from wavesim.sim.peers.simulation import TILES_ALONE, best_gemm, simulate_peers, times_of
from wavesim.sim.peers.way import PeerWay, parse_way
from wavesim.trace.trace import Trace
from wavesim.work.collective import ELEMENT_BYTES
from wavesim.work.collective.host import Host
from wavesim.work.gemm import Gemm
from wavesim.workloads.hopper import TILE_K, Tile, block_of
from wavesim.workloads.tried_tiles import split_of, tiles_tried

SCORES, REGISTERED = (Path(__file__).with_name(f"peer_{name}.toml") for name in ("scores", "registered"))
BASELINE = PeerWay("sequence")
TRIED = (
    *("one-shot", "two-shot", "chunks:2", "chunks:4"),
    *("stores", "stores:8", "stores:16", "blocks:16", "copies:8"),
)
ONE_SHOT = ("stores", "plain-stores")  # ways whose all-reduces can be of one shot: the GEMM sends to all
PAYS = 1.01  # times as fast: below that a way is not worth another kernel


@dataclass(frozen=True, eq=False)
class PeerTime:
    """One way, with how an all-reduce is made, and its simulated run."""

    way: PeerWay
    shots: str
    trace: Trace

    @property
    def word(self) -> str:
        """The way's word, with "one-shot" where it is one."""
        return f"{self.way.word} one-shot" if self.shots == "one-shot" else self.way.word

    @property
    def time_ns(self) -> int:
        """From the first block's issue to the last end."""
        return self.trace.makespan_ns


@dataclass(frozen=True)
class PeerForecast:
    """All ways, the baseline first. `limit_ns`: the longer of computing and communicating alone.

    `refused`: ways that cannot be, by word, and why not.
    """

    times: Sequence[PeerTime]
    limit_ns: int
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def baseline(self) -> PeerTime:
        """One after the other."""
        return self.times[0]

    @property
    def best(self) -> PeerTime:
        """The fastest; the baseline where nothing is faster by what is worth another kernel."""
        return self.best_over(self.baseline)

    def best_over(self, other: PeerTime, margin: float = PAYS) -> PeerTime:
        """The fastest; `other` where nothing is so many times as fast as that."""
        fastest = min(self.times, key=lambda time: time.time_ns)
        return fastest if other.time_ns / fastest.time_ns >= margin else other

    def speedup(self, time: PeerTime) -> float:
        """How many times as fast as one after the other."""
        return self.baseline.time_ns / time.time_ns

    def hidden(self, time: PeerTime) -> float:
        """Of the time that could be hidden, the share that is; below 0 for a way that loses."""
        hideable = self.baseline.time_ns - self.limit_ns
        return (self.baseline.time_ns - time.time_ns) / hideable if hideable > 0 else 0.0


def forecast_ways(
    pipeline: Pipeline,
    host: Host,
    device: Device,
    ways: Sequence[str] = TRIED,
    unit: Policy = TILES_ALONE,
    *,
    kernel_ns: Mapping[str, int] | None = None,
    both_shots: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> PeerForecast:
    """Simulates every way that the pipeline and the device have room for; `kernel_ns` as in `times_of`.

    `both_shots`: all-reduces are tried in one shot and in two, else as the host says.

    Raises `DescriptionError` where not even the baseline can be.
    """
    tried = [(BASELINE, host), *_tried(host, ways, both_shots)]
    times: list[PeerTime] = []
    refused: dict[str, str] = {}
    for number, (way, own) in enumerate(tried):
        if progress is not None:
            progress(number, len(tried))
        try:
            known = times_of(pipeline, own, way, device, kernel_ns)
            trace = simulate_peers(pipeline, own, way, device, unit=unit, times=known)
        except DescriptionError as error:
            if way == BASELINE:
                raise
            refused.setdefault(way.word, str(error))  # too few tiles or SMs for this one
            continue
        times.append(PeerTime(way, _shots(own) if not way.is_library else "", trace))
    limit_ns = _limit_ns(pipeline, host, times_of(pipeline, host, BASELINE, device, kernel_ns))
    made = {time.way.word for time in times}
    return PeerForecast(times, limit_ns, {word: why for word, why in refused.items() if word not in made})


def product_forecast(
    size: tuple[int, int, int],
    host: Host,
    device: Device,
    ways: Sequence[str] = TRIED,
    *,
    both_shots: bool = True,
) -> PeerForecast:
    """Of a product (m, n, k) with the host's collective "gemm", each of our ways in the fastest of its tiles.

    Raises `DescriptionError`.
    """
    ours = [word for word in ways if not parse_way(word).is_library]
    forecasts = [
        # A library chooses its tiles by itself.
        forecast_ways(
            one_gemm(*size, device, tile), host, device, ours if number else ways, both_shots=both_shots
        )
        for number, tile in enumerate(tiles_tried(size[0]))
    ]
    first, fastest = forecasts[0], dict[str, PeerTime]()
    for time in (time for other in forecasts for time in other.times):
        if time.word not in fastest or time.time_ns < fastest[time.word].time_ns:
            fastest[time.word] = time
    return PeerForecast(list(fastest.values()), first.limit_ns)


def _tried(host: Host, ways: Sequence[str], both_shots: bool) -> list[tuple[PeerWay, Host]]:
    """Ways with the host's own collectives, and tile by tile with one-shot all-reduces too."""
    one_shot = {
        name: replace(collective, shots="one-shot") if collective.kind == "all-reduce" else collective
        for name, collective in host.collectives.items()
    }
    is_alone = not both_shots or one_shot == dict(host.collectives)
    hosts = [host] if is_alone else [host, replace(host, collectives=one_shot)]
    parsed = [parse_way(word) for word in ways]
    return [(way, own) for way in parsed for own in (hosts if way.method in ONE_SHOT else hosts[:1])]


def _shots(host: Host) -> str:
    return next(
        (collective.shots for collective in host.collectives.values() if collective.kind == "all-reduce"), ""
    )


def _limit_ns(pipeline: Pipeline, host: Host, times: PeerTimes) -> int:
    """The longer of all GEMMs alone and all of the library's collectives alone."""
    collectives = 0
    for name, collective in host.collectives.items():
        gemm = pipeline.stage(name).gemm
        size = ELEMENT_BYTES * gemm.m * (gemm.k if collective.kind == "all-gather" else gemm.columns)
        collectives += times.costs.time_ns(collective.kind, size, host.gpus, times.link_factor)
    return max(collectives, sum(ns for ns, _ in times.library.values()))


def one_gemm(m: int, n: int, k: int, device: Device, tile: Tile | None = None) -> Pipeline:
    """A GEMM as a pipeline of one stage, "gemm": in a tile, its K cut where that leaves SMs idle, or uncut in
    the tile that suits our kernel alone.
    """
    gemm = best_gemm(m, n, k, device)
    if tile is not None:
        gemm = Gemm(
            "gemm", m, n, k, *tile, TILE_K, split_of((m, n, k), tile), block=block_of(tile), carveout="full"
        )
    return Pipeline(f"{m} x {k} x {n}", [Stage("gemm", gemm)])


@cache
def past_scores() -> Mapping[str, Mapping[str, Any]]:
    """How far simulated times were from measured ones, by way: rows, and percent of median, p90 and worst."""
    return read_toml(SCORES)


@cache
def past_tiles() -> Mapping[str, Any]:
    """The same of whole ways of tiles, predicted before they were measured: rows, median, p90, worst."""
    return read_toml(REGISTERED)


def history_text() -> str:
    """The same as a line of words."""
    scores = past_scores()
    known = (("sequence", "one after the other"), ("chunks", "chunks"), ("stores", "an epilogue that stores"))
    parts = [
        f"{words} {score['median']} % (median) and {score['p90']} % (90 %) of {score['rows']} rows"
        for score, words in ((scores[name], words) for name, words in known)
    ]
    head = f"measured on {scores['measured_on']} one by one: off by {'; '.join(parts)}"
    tiles = past_tiles()
    return (
        f"{head}; whole ways of tiles, predicted before they were measured, {tiles['median']} % and "
        f"{tiles['p90']} % of {tiles['rows']}"
    )
