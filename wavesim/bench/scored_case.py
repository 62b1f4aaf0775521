"""A prediction beside what was measured: what every set of the score is made of.

Example: "gpt3-mlp 128x256 M=1024 row", row semaphores: predicted +14.1 points, measured +14.3 (14.1 to 14.4
in half of the rounds); no gain would err by 14.3, counting whole waves by 14.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from wavesim.predict.prediction import Measured, improvement_points
from wavesim.recordings.split import Split, split_of
from wavesim.trace.trace import Trace

LEFT_OUT = "left-out"  # the beginning of sources by which nothing was ever chosen
NO_CONSTANTS = "no constants"  # ends kinds of predictions that no user is shown: what constants are worth


@dataclass(frozen=True)
class ScoredPrediction:
    """One plan of one case: predicted, and as measured, in points of improvement over stream sync.

    - `group`: kernels and size; all orders and plans of a group are in the same split.
    - `device`: that it was measured on, by its name in the catalogue.
    - `family`: the kernels that it is of; those of a family are left out together.
    - `source`: which measurements: own, own-kernel-times, sketch, published-mlp, ...
    - `kind`: what was known and what shared an SM; cases of a kind have one interval.
    - `scenarios`: the least and the most that was predicted, where not all was known.
    - `in_cycles`: the measured improvement with the clock's changes taken out, where cycles were recorded.
    - `spread`: how hard it was to predict, in points (`intervals.spread_points`); 1 where nothing says so.
    - `time_error_percent`: of the plan's time. `replay_error_points`, `replay_error_percent`: of the makespan
      when the run's own tile times are fed in, over the stream-sync time and over its own.
    - `before`: what was predicted before the plan had run, `before_interval`: from where to where. `repeats`:
      the improvement each time that the whole comparison was made, where that was recorded. `set_name`: its
      set within the source.
    - `run`: the blind run that it is of, by its folder's name; "" for other sources.
    - `outlier`: why the case is named but not scored, in words; "" for the others. It counts for coverage,
      unless it `is_told_elsewhere`: another set has a prediction of all that was changed.
    """

    case: str
    plan: str
    group: str
    source: str
    kind: str
    predicted: float
    measured: Measured
    ceil_formula: float
    time_error_percent: float
    device: str = ""
    family: str = ""
    scenarios: tuple[float, float] | None = None
    blocks_per_sm: int = 1
    spread: float = 1.0
    in_cycles: float | None = None
    replay_error_points: float | None = None
    replay_error_percent: float | None = None
    before: float | None = None
    before_interval: tuple[float, float] | None = None
    repeats: tuple[float, ...] = ()
    set_name: str = ""
    run: str = ""
    outlier: str = ""
    is_told_elsewhere: bool = False

    @property
    def split(self) -> Split:
        """Development, where the model may have been improved while looking at it, or test."""
        return "test" if self.source.startswith(LEFT_OUT) else split_of(self.group)

    @property
    def error(self) -> float:
        """Predicted minus measured improvement."""
        return self.predicted - self.measured.median

    @property
    def outside(self) -> float:
        """By how much the measurement lies outside of what was predicted, all scenarios taken together."""
        low, high = self.scenarios or (self.predicted, self.predicted)
        return max(0.0, low - self.measured.median, self.measured.median - high)

    @property
    def name(self) -> str:
        """Case and plan, as reports name it."""
        return f"{self.case} {self.plan}"


def told_otherwise(
    scored: ScoredPrediction, source: str, kind: str, predicted: float, **changes: Any
) -> ScoredPrediction:
    """The same plan of the same case, predicted in another way: a prediction of another source and kind."""
    changes |= {"source": source, "kind": kind, "predicted": predicted}
    error = time_error_percent(predicted, scored.measured.median)
    return replace(
        scored, time_error_percent=error, replay_error_points=None, replay_error_percent=None, **changes
    )


def time_error_percent(predicted: float, measured: float) -> float:
    """Percent by which a plan's time is off if its improvement is predicted, stream sync's time known."""
    return 100.0 * ((100.0 - predicted) / (100.0 - measured) - 1.0)


def ceil_formula(stream: Trace) -> float:
    """What counting the waves of a stream-sync trace's kernels would predict, in points."""
    stages = stream.header.stages
    slots = [stream.header.sm_count * info.blocks_per_sm for info in stages]
    return by_ceil_formula([prod(info.grid) for info in stages], slots)


def by_ceil_formula(blocks: Sequence[int], slots: Sequence[int]) -> float:
    """Improvement by counting waves: 1 - ceil(sum of waves) / sum of ceil(waves), in points.

    The formula everybody uses; holds for equal tile times only. Source: paper, Table IV.
    """
    waves = [count / room for count, room in zip(blocks, slots, strict=True)]
    return improvement_points(ceil(sum(waves)), sum(ceil(count) for count in waves))
