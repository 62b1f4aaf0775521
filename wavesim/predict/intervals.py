"""Intervals: how far predictions of a kind were off on the development half, by how hard each was.

Example: at 2560 tokens 8 us are half a percent of the run and SMs stand idle for 3 % of it: a spread of 0.8
points. At 768 tokens in groups of eight rows 8 us are a whole percent, and SMs wait or stand idle for 36 %,
so that a few blocks decide when all ends: 2.7. Of the development half the worst case of 8 in 10 sizes was
off by no more than its spread, times what `recordings/intervals.json` says of the kind; that is more where
constants were fitted to these very cases. `wavesim validate` counts how many cases of the test half lie in
their intervals.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt

from wavesim.analysis.metrics import metrics_of
from wavesim.evaluation.scored_case import Prediction
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace

INTERVALS = FOLDER / "intervals.json"
LEVEL = 0.8
FEWEST_GROUPS = 4  # of a kind; fewer say nothing of the worst fifth
UNSCORED_POINTS = 8.0  # half-width where nothing of the kind was measured; a guess

# The spread of a prediction, in points: what no run is free of; a start-up that takes so much longer or
# shorter from run to run (a cold TLB, a clock that is still moving); so much of the SM time that is not spent
# computing; so much of what a busy DRAM adds to the tiles, where being in step or not is chance.
LEAST_POINTS, START_NS, IDLE_SHARE, DRAM_SHARE = 0.25, 8_000, 0.04, 0.4


# How many constants of a kind's predictions were chosen by the errors of its development half. Published
# rows: launch, wait, demand, clock. Host waits: the wait, demand. Sketches: a wait, and a share of L2,
# bandwidth and bend of the DRAM, which 36 sizes have in common. One block per SM: what builds differ by; on
# Hopper what semaphores cost a producer, a consumer, and the edges of a tile. Several: their bend. Split K:
# storing and adding sums. Hopper's split K: storing, and semaphores. Stream-K: its share of the DRAM,
# drifting, storing and adding.
FITTED = {
    "kernel times, published": 4,
    "kernel times, host waits": 2,
    "sketch trace": 2,
    "stream-sync trace of a Hopper kernel, 1 block per SM": 3,
    "stream-sync trace of a Hopper kernel, split-K": 2,
    "stream-sync trace, 1 block per SM": 1,
    "stream-sync trace, several blocks per SM": 1,
    "stream-sync trace, split-K": 2,
    "stream-sync trace, stream-k": 4,
}


def spread_points(trace: Trace, improvement: float) -> float:
    """How hard a plan is to predict, in points, from its predicted trace and improvement alone.

    For devices whose launches were microbenchmarked: elsewhere other things decide, and all cases count as 1.
    """
    if trace.header.device["name"] != "h200":
        return 1.0
    found = metrics_of(trace)
    stream_ns = trace.time_ns / max(0.01, 1.0 - improvement / 100.0)
    idle = 100.0 * (found.waiting_ns + found.tail_loss_ns) / max(1, found.makespan_ns)
    slower = float(trace.header.costs.get("memory", {}).get("slower_percent", 0.0))
    return LEAST_POINTS + 100.0 * START_NS / stream_ns + IDLE_SHARE * idle + DRAM_SHARE * slower


def half_widths(found: Sequence[Prediction]) -> dict[str, float]:
    """Half of the 80 % interval of each kind, over the spread of a case, from the development half.

    Orders and plans of one size err alike, so each of n sizes weighs the same, whatever its number of cases:
    the least error over spread that a share of LEVEL x (n + 1) / n of that weight does not exceed (conformal
    prediction with hierarchical data, Lee, Barber and Willett 2023). That holds for errors of cases that
    nothing was fitted to, so that it is times `unseen_over_seen`. Kinds of fewer than `FEWEST_GROUPS` sizes
    have none.
    """
    kinds: dict[str, dict[str, list[float]]] = {}
    for one in found:
        if one.half == "development" and not one.outlier:
            kinds.setdefault(one.kind, {}).setdefault(one.group, []).append(abs(one.error) / one.spread)
    return {
        kind: round(_quantile(list(groups.values())) * unseen_over_seen(kind, len(groups)), 2)
        for kind, groups in sorted(kinds.items())
        if len(groups) >= FEWEST_GROUPS
    }


def unseen_over_seen(kind: str, sizes: int) -> float:
    """How much larger the errors of new sizes are than those of the `sizes` that constants were fitted to.

    Where least squares fit p constants to n values, the mean square of new errors is (n + p) / (n - p) times
    that of the residuals (final prediction error, Akaike 1969). No more than half as many as sizes count.
    """
    constants = min(FITTED.get(kind, 0), sizes / 2)
    return sqrt((sizes + constants) / (sizes - constants))


def _quantile(groups: Sequence[Sequence[float]]) -> float:
    weighed = sorted((error, 1.0 / len(errors)) for errors in groups for error in errors)
    enough = LEVEL * (len(groups) + 1)
    total = 0.0
    for error, weight in weighed:
        total += weight
        if total >= enough - 1e-9:
            return error
    return weighed[-1][0]


def half_width(kind: str, spread: float) -> float:
    """Half of the 80 % interval of a case in points, by its kind; `UNSCORED_POINTS` if none was measured."""
    known = committed_half_widths().get(kind)
    return UNSCORED_POINTS if known is None else known * spread


def write_half_widths(widths: dict[str, float]) -> None:
    """Stores them beside the scores, to be committed with them."""
    INTERVALS.write_text(json.dumps({"level": LEVEL, "half_width_over_spread": widths}, indent=1) + "\n")
    committed_half_widths.cache_clear()


@lru_cache(maxsize=1)
def committed_half_widths() -> dict[str, float]:
    """The half-widths as last committed with the package; empty if there are none."""
    if not INTERVALS.exists():
        return {}
    found: dict[str, float] = json.loads(INTERVALS.read_text())["half_width_over_spread"]
    return found
