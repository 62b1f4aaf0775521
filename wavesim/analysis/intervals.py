"""Intervals: how far predictions of a kind were off on the development half.

Picture: from a stream-sync trace with two blocks per SM the worst case of 8 in 10 sizes was off by 1.1
points; a prediction of +6.5 is then said as +5.4 to +7.6. `wavesim validate` counts how many cases of the
test half lie in theirs.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from math import ceil

from wavesim.analysis.judged import Prediction
from wavesim.io.recordings import FOLDER

INTERVALS = FOLDER / "intervals.json"
LEVEL = 0.8
FEWEST_GROUPS = 4  # of a kind; fewer say nothing of the worst fifth
UNSCORED_POINTS = 8.0  # half-width where nothing of the kind was measured; a guess


def half_widths(found: Sequence[Prediction]) -> dict[str, float]:
    """Half of the 80 % interval of each kind, in points, from the development half.

    Orders and plans of one size err alike, so that sizes are what is counted: the least error that the
    worst case of LEVEL x (n + 1) of n sizes does not exceed (split conformal prediction). Kinds of fewer
    than `FEWEST_GROUPS` sizes have none.
    """
    worst: dict[str, dict[str, float]] = {}
    for one in found:
        if one.half == "development" and not one.outlier:
            groups = worst.setdefault(one.kind, {})
            groups[one.group] = max(groups.get(one.group, 0.0), abs(one.error))
    return {
        kind: round(sorted(groups.values())[min(len(groups), ceil(LEVEL * (len(groups) + 1))) - 1], 2)
        for kind, groups in sorted(worst.items())
        if len(groups) >= FEWEST_GROUPS
    }


def half_width(kind: str) -> float:
    """Half of the committed 80 % interval of a kind, in points; `UNSCORED_POINTS` if nothing was measured."""
    return committed_half_widths().get(kind, UNSCORED_POINTS)


def write_half_widths(widths: dict[str, float]) -> None:
    """Stores them beside the scores, to be committed with them."""
    INTERVALS.write_text(json.dumps({"level": LEVEL, "half_width_points": widths}, indent=1) + "\n")
    committed_half_widths.cache_clear()


@lru_cache(maxsize=1)
def committed_half_widths() -> dict[str, float]:
    """The half-widths as last committed with the package; empty if there are none."""
    if not INTERVALS.exists():
        return {}
    found: dict[str, float] = json.loads(INTERVALS.read_text())["half_width_points"]
    return found
