"""Thresholds: what the scores have to reach, written down beforehand, and whether each one is met.

Example: published MLPs from 128 tokens on, with at most five constants: the threshold is a median error of
2.5 points and the target 1.5; 2.0 were measured, so that the threshold is met and the target is not.
`thresholds.toml` has all of them.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from wavesim.bench.interval_fit import LeftOut
from wavesim.bench.order_choice import OrderChoice
from wavesim.bench.policy_choice import PolicyChoice
from wavesim.predict.score_history import SetScore

FILE = Path(__file__).with_suffix(".toml")
FEWEST_RIVALLED = 20  # cases of a set that has to beat "no gain" and the ceil formula
Standing = Literal["target", "threshold", "missed", "not scored"]
# As `wavesim validate --json` calls what was reached.
JSON_STANDING: Mapping[Standing, str] = {"target": "aim", "threshold": "must"}


@dataclass(frozen=True)
class Bound:
    """What a figure of a score, an attribute of it, must be at most, or with `is_least` at least.

    `target`: what it should be; None where that is no more than the threshold.
    """

    figure: str
    threshold: float
    target: float | None = None
    is_least: bool = False

    def standing(self, value: float | None) -> Standing:
        """What a value reaches."""
        if value is None:
            return "not scored"
        if self.target is not None and self._is_met(value, self.target):
            return "target"
        return "threshold" if self._is_met(value, self.threshold) else "missed"

    def _is_met(self, value: float, bound: float) -> bool:
        return value >= bound if self.is_least else value <= bound


@dataclass(frozen=True)
class Threshold:
    """One figure of one set held against its bound."""

    what: str
    name: str
    bound: Bound
    value: float | None

    @property
    def standing(self) -> Standing:
        """What the value reaches."""
        return self.bound.standing(self.value)

    @property
    def json_object(self) -> dict[str, object]:
        """As `wavesim validate --json` shows it."""
        return {
            "what": self.what,
            "name": self.name,
            "figure": self.bound.figure,
            "value": self.value,
            "must": self.bound.threshold,
            "aim": self.bound.target,
            "standing": JSON_STANDING.get(self.standing, self.standing),
        }


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _bounds(rows: Sequence[Sequence[Any]]) -> list[Bound]:
    return [
        Bound(figure, bound, target[0] if target else None, is_least=which == "least")
        for figure, which, bound, *target in rows
    ]


def thresholds_of(
    scores: Sequence[SetScore],
    choices: Sequence[PolicyChoice],
    orders: OrderChoice | None = None,
    apart: Sequence[LeftOut] = (),
) -> list[Threshold]:
    """Every one with what was reached, also of sets that were not scored."""
    known: dict[str, list[object]] = {}
    every: list[SetScore | PolicyChoice | OrderChoice] = [*scores, *choices, *([orders] if orders else [])]
    for score in every:
        known.setdefault(score.name, []).append(score)
    thresholds = [
        Threshold(entry["what"], name, bound, _figure(known.get(name, ()), bound.figure))
        for entry in _data()["threshold"]
        for name in entry["sets"]
        for bound in _bounds(entry["bounds"])
    ]
    (left_out,) = _bounds(_data()["every"]["left_out"])
    thresholds += _intervals(scores)
    thresholds += [Threshold("left out", entry.what, left_out, entry.coverage) for entry in apart]
    return [*thresholds, *_rivals(scores)]


def _figure(scores: Sequence[object], figure: str) -> float | None:
    """Of whichever has it; None where none has."""
    return next((value for score in scores if (value := getattr(score, figure, None)) is not None), None)


def _intervals(scores: Sequence[SetScore]) -> Iterator[Threshold]:
    """Intervals of larger sets hold 8 times in 10, now and, of blind runs, before measuring."""
    for score in scores:
        for figure in ("coverage", "coverage_before"):
            value = getattr(score, figure)
            if value is not None and score.cases >= FEWEST_RIVALLED:
                for bound in _bounds(_data()["every"]["intervals"]):
                    yield Threshold("intervals", score.name, replace(bound, figure=figure), value)


def _rivals(scores: Sequence[SetScore]) -> Iterator[Threshold]:
    """Every larger set's median error is below that of "no gain" and of counting whole waves."""
    for score in scores:
        rivals = [r for r in (score.no_gain_median_points, score.ceil_formula_median_points) if r is not None]
        if score.cases >= FEWEST_RIVALLED and rivals:
            bound = Bound("median_abs_error_points", min(rivals))
            yield Threshold("rivals", score.name, bound, score.median_abs_error_points)


def threshold_lines(thresholds: Sequence[Threshold]) -> list[str]:
    """The thresholds as a table, and how many of them are met."""
    rows = [("what", "set", "figure", "found", "threshold", "target", "reached")]
    for threshold in thresholds:
        bound = threshold.bound
        numbers = (threshold.value, bound.threshold, bound.target)
        value, least, target = ("-" if number is None else f"{number:.2f}" for number in numbers)
        rows.append((threshold.what, threshold.name, bound.figure, value, least, target, threshold.standing))
    scored = [threshold for threshold in thresholds if threshold.value is not None]
    with_target = [entry for entry in scored if entry.bound.target is not None]
    reached = sum(entry.standing != "missed" for entry in scored)
    aimed = sum(entry.standing == "target" for entry in with_target)
    lines = ["{:<22}{:<28}{:<28}{:>7}{:>11}{:>8}  {}".format(*row) for row in rows]
    met, hit = f"{reached} of {len(scored)}", f"{aimed} of {len(with_target)}"
    return [*lines, f"Thresholds met: {met}; targets met: {hit}."]
