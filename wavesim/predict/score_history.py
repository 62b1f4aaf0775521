"""How far predictions have been off: the scores committed with the package, and what they say in words.

Example: "own-1-block": 36 recorded runs with one block per SM, a median error of 0.5 points, 90 % within 2.5.
`wavesim validate` recomputes the scores; whatever else quotes them reads the committed ones here.
"""

import json
from dataclasses import dataclass

from wavesim.recordings.shipped import FOLDER

SCORES = FOLDER / "scores.json"


@dataclass(frozen=True)
class SetScore:
    """The test split of one set; the names are those of `wavesim validate --json`.

    Errors are absolute, in points of improvement (replay: of the stream-sync makespan); `..._percent` are
    those of the plan's time, `..._cycles_points` those against the improvement in SM cycles.
    `noise_points` is the median half-width between the quartiles of what was measured. `sign_agreement` is
    over cases that gained or lost 2 points or more. `coverage` is the share of cases inside their 80 %
    interval, cases named as outliers included, `median_half_width_points` half of its median width.
    `repeat_noise_points`: by how much the improvement differed when the whole comparison was made again,
    median; `before_...` are the errors of what was predicted on the device before the plans ran, and
    `coverage_before` counts the intervals that were registered then. `device` names where it was measured.
    None where there is nothing of the kind.
    """

    name: str
    cases: int
    median_abs_error_points: float
    p90_abs_error_points: float
    sign_agreement: float | None = None
    noise_points: float | None = None
    no_gain_median_points: float | None = None
    ceil_formula_median_points: float | None = None
    median_time_error_percent: float | None = None
    p90_time_error_percent: float | None = None
    median_abs_error_cycles_points: float | None = None
    p90_abs_error_cycles_points: float | None = None
    coverage: float | None = None
    median_half_width_points: float | None = None
    repeat_noise_points: float | None = None
    before_median_abs_error_points: float | None = None
    before_p90_abs_error_points: float | None = None
    coverage_before: float | None = None
    device: str = ""


def committed_scores() -> dict[str, SetScore]:
    """The scores as last committed with the package, by set name; empty if there are none."""
    if not SCORES.exists():
        return {}
    return {entry["name"]: SetScore(**entry) for entry in json.loads(SCORES.read_text())["sets"]}
