"""What tile-level synchronisation costs where it can gain nothing: copy pairs, and each primitive on its own.

Example: two copies one after the other take 41.7 us on an H200, with semaphores between them 44.4: 6.5 %
more, between 6.1 and 7.1 by resampling the rounds. An already satisfied wait alone takes some hundred ns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavesim.bench.gpu_results import GpuResults, TimedCandidate

PLAIN = "stream"
# How the copies are launched with semaphores between them; the rest of the rows have none.
CUSYNC_WAYS = ("ready", "tile", "tile on one stream")
RESAMPLES, BLOCK_ROUNDS = 2_000, 10
EMPTY_LOOP = "empty loop"


@dataclass(frozen=True)
class RatioInterval:
    """A ratio's estimate and its 95 % interval."""

    value: float
    low: float
    high: float


def ratio_of_medians(ours: Sequence[float], theirs: Sequence[float]) -> RatioInterval:
    """The median of `ours` over that of `theirs`, whose rounds were taken in turns.

    95 % percentile interval of a bootstrap that draws blocks of neighbouring rounds, both contenders' at
    once: rounds share clocks and caches with their neighbours, and a few slow ones must not move it.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 8.6 (moving blocks).
    """
    count = min(len(ours), len(theirs))
    first, second = np.asarray(ours[:count], float), np.asarray(theirs[:count], float)
    block = max(1, min(BLOCK_ROUNDS, count // 10))
    starts = np.random.default_rng(0).integers(0, count, (RESAMPLES, -(-count // block)))
    drawn = ((starts[:, :, None] + np.arange(block)) % count).reshape(RESAMPLES, -1)[:, :count]
    ratios = np.median(first[drawn], axis=1) / np.median(second[drawn], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return RatioInterval(float(np.median(first) / np.median(second)), float(low), float(high))


@dataclass(frozen=True)
class CopyOverhead:
    """What one way to launch a pair of copies adds to stream order, in percent, with its 95 % interval."""

    case: TimedCandidate
    threads: int
    percent: float
    low95: float
    upper95: float


def copy_overheads(results: GpuResults) -> dict[str, list[CopyOverhead]]:
    """By the name of the way, smallest blocks first."""
    cases = results.of("copy-pair")
    plain = {case.threads: case for case in cases if case.name == PLAIN}
    overheads: dict[str, list[CopyOverhead]] = {}
    for case in sorted(cases, key=lambda entry: entry.threads or 0):
        if case.name != PLAIN and case.threads is not None and case.threads in plain:
            overheads.setdefault(case.name, []).append(_overhead(case, case.threads, plain[case.threads]))
    return overheads


def best_ways(overheads: dict[str, list[CopyOverhead]]) -> dict[int, CopyOverhead]:
    """{threads per block: the cheapest way with semaphores}."""
    ways: dict[int, CopyOverhead] = {}
    for way in CUSYNC_WAYS:
        for entry in overheads.get(way, ()):
            best = ways.get(entry.threads, entry)
            ways[entry.threads] = min(best, entry, key=lambda each: each.percent)
    return dict(sorted(ways.items()))


def _overhead(case: TimedCandidate, threads: int, plain: TimedCandidate) -> CopyOverhead:
    result = ratio_of_medians(case.rounds_ns, plain.rounds_ns)
    percent, low, high = (100 * (ratio - 1) for ratio in (result.value, result.low, result.high))
    return CopyOverhead(case, threads, percent, low, high)


@dataclass(frozen=True)
class PrimitiveCost:
    """One primitive on its own: nanoseconds and SM cycles of one use, the empty loop's share taken off.

    `blocks` used it at once, each with one thread; quartiles are over rounds.
    """

    name: str
    blocks: int
    ns: float
    low_ns: float
    high_ns: float
    cycles: float


def primitive_costs(results: GpuResults) -> list[PrimitiveCost]:
    """In the order of the file."""
    cases = [case for case in results.of("primitive") if case.operations and case.blocks]
    loops = {case.blocks: case for case in cases if case.name == EMPTY_LOOP}
    return [
        _primitive_cost(case, loops[case.blocks])
        for case in cases
        if case.name != EMPTY_LOOP and case.blocks in loops
    ]


def ready_costs(results: GpuResults) -> dict[str, RatioInterval]:
    """{policy: time over stream sync's} of a GEMM pair in stream order, whose semaphores are always there."""
    cases = {case.name: case for case in results.of("ready-pair")}
    plain = cases.pop(PLAIN, None)
    if plain is None:
        return {}
    return {name: ratio_of_medians(case.rounds_ns, plain.rounds_ns) for name, case in cases.items()}


def _primitive_cost(case: TimedCandidate, loop: TimedCandidate) -> PrimitiveCost:
    def each(total: float, empty: float) -> float:
        return (total - empty) / (case.operations or 1)

    low, high = case.quartiles_ns
    cycles = each(float(np.median(case.cycles)), float(np.median(loop.cycles))) if case.cycles else 0.0
    return PrimitiveCost(
        case.name,
        case.blocks or 0,
        each(case.median_ns, loop.median_ns),
        each(low, loop.median_ns),
        each(high, loop.median_ns),
        cycles,
    )
