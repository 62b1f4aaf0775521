"""Predictions made up for tests: what was predicted and measured, all else plain."""

from wavesim.bench.scored_case import ScoredPrediction
from wavesim.predict.prediction import Measured
from wavesim.recordings.split import split_of


def made_up(case: str, plan: str, predicted: float, measured: float, **more) -> ScoredPrediction:
    known = {"source": "own", "kind": "some", "ceil_formula": 0.0, "time_error_percent": 0.0}
    quartiles = Measured(measured, measured - 0.1, measured + 0.1)
    return ScoredPrediction(
        case=case, plan=plan, group=case, predicted=predicted, measured=quartiles, **(known | more)
    )


def named(half: str, count: int) -> list[str]:
    names = (f"case {i}" for i in range(1_000))
    return [name for name in names if split_of(name) == half][:count]
