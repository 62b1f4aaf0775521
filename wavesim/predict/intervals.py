"""Intervals: how far predictions of a kind were off on the development split, by how hard each was.

Example: at 2560 tokens 8 us are half a percent of the run and SMs stand idle for 3 % of it: a spread of 0.8
points. At 768 tokens in groups of eight rows 8 us are a whole percent, and SMs wait or stand idle for 36 %,
so that a few blocks decide when all ends: 2.7. Of the development split the worst case of 8 in 10 sizes was
off by no more than its spread, times what `recordings/intervals.json` says of the kind; that is more where
constants were fitted to these very cases. `wavesim validate` counts how many cases of the test split lie in
their intervals.
"""

import json
from functools import lru_cache

from wavesim.analysis.metrics import metrics_of
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace

INTERVALS = FOLDER / "intervals.json"
UNSCORED_POINTS = 8.0  # half-width where nothing of the kind was measured; a guess

# The spread of a prediction, in points: what no run is free of; a start-up that takes so much longer or
# shorter from run to run (a cold TLB, a clock that is still moving); so much of the SM time that is not spent
# computing; so much of what a busy DRAM adds to the tiles, where being in step or not is chance.
LEAST_POINTS, START_NS, IDLE_SHARE, DRAM_SHARE = 0.25, 8_000, 0.04, 0.4


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


def half_width(kind: str, spread: float) -> float:
    """Half of the 80 % interval of a case in points, by its kind; `UNSCORED_POINTS` if none was measured."""
    known = committed_half_widths().get(kind)
    return UNSCORED_POINTS if known is None else known * spread


@lru_cache(maxsize=1)
def committed_half_widths() -> dict[str, float]:
    """The half-widths as last committed with the package; empty if there are none."""
    if not INTERVALS.exists():
        return {}
    found: dict[str, float] = json.loads(INTERVALS.read_text())["half_width_over_spread"]
    return found
