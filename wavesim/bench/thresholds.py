"""Thresholds: what the scores have to reach, written down beforehand, and whether each one is met.

Example: published MLPs from 128 tokens on, with at most five constants: the threshold is a median error of
2.5 points and the target 1.5; 2.0 were found, so that the threshold is met and the target is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wavesim.bench.interval_fit import LeftOut
from wavesim.bench.order_choice import OrderChoice
from wavesim.bench.policy_choice import PolicyChoice
from wavesim.predict.score_history import SetScore

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
    figure: str
    value: float | None
    threshold: float
    target: float | None
    standing: Standing

    @property
    def json_object(self) -> dict[str, object]:
        """As `wavesim validate --json` shows it."""
        return {
            "what": self.what,
            "name": self.name,
            "figure": self.figure,
            "value": self.value,
            "must": self.threshold,
            "aim": self.target,
            "standing": JSON_STANDING.get(self.standing, self.standing),
        }


def _errors(threshold: tuple[float, float], target: tuple[float, float]) -> tuple[Bound, Bound]:
    """Median and 90th percentile of the absolute errors."""
    names = "median_abs_error_points", "p90_abs_error_points"
    return Bound(names[0], threshold[0], target[0]), Bound(names[1], threshold[1], target[1])


def _before(
    threshold: tuple[float, float], target: tuple[float, float] | tuple[None, None] = (None, None)
) -> tuple[Bound, Bound]:
    """The same of what was predicted before the plans had run."""
    names = "before_median_abs_error_points", "before_p90_abs_error_points"
    return Bound(names[0], threshold[0], target[0]), Bound(names[1], threshold[1], target[1])


ALL_OWN = (
    *_errors((1.5, 4.0), (1.0, 3.0)),
    Bound("sign_agreement", 0.95, is_least=True),
    Bound("median_time_error_percent", 1.5),
    Bound("p90_time_error_percent", 4.0),
    Bound("coverage", 0.7, is_least=True),
    Bound("coverage", 0.9),
    Bound("median_half_width_points", 2.0),
)
CONSTANTS = (*_errors((2.5, 7.0), (1.5, 5.0)), Bound("sign_agreement", 0.85, 0.95, is_least=True))
REPLAY = (Bound("median_time_error_percent", 1.0, 0.5), Bound("p90_time_error_percent", 2.0, 1.0))
CHOICE = (Bound("order_agreement", 0.8, 0.9, is_least=True), Bound("mean_regret_points", 1.0, 0.5))
ORDER = (Bound("sign_agreement", 0.95, 1.0, is_least=True), Bound("within_share", 0.9, 1.0, is_least=True))
# Of a blind run, before the plans had run: median and 90th percentile, and the sign.
SIGN = Bound("sign_agreement", 0.95, is_least=True)
HOPPER_H100, ALL_H100 = _before((1.0, 3.0), (0.6, 1.5)), (*_before((1.2, 4.0), (0.8, 2.5)), SIGN)
HOPPER_H200, ALL_H200 = _before((0.6, 1.5), (0.4, 1.2)), _before((0.8, 3.0), (0.6, 2.0))
STREAM_K, CHAINS = _before((2.0, 6.0)), _before((1.5, 4.0))
FOREIGN, FOREIGN_TRACE = ((2.5, 7.0), (1.5, 5.0)), ((1.2, 4.0), (0.8, 3.0))
# What is asked, in words, of which sets, and the bounds.
THRESHOLDS: tuple[tuple[str, tuple[str, ...], tuple[Bound, ...]], ...] = (
    ("MLPs, no constant", ("published-mlp-no-constants",), _errors((4.0, 10.0), (3.0, 8.0))),
    ("MLPs, five constants", ("published-mlp",), CONSTANTS),
    ("convolutions", ("published-resnet", "published-vgg"), _errors((3.0, 9.0), (2.0, 6.0))),
    ("tiles of unequal heights", ("published-unequal-tiles",), _errors((2.5, 7.0), (1.5, 5.0))),
    ("another clock", ("published-other-clock",), _errors((4.0, 10.0), (3.0, 8.0))),
    (
        "another split of K",
        ("published-other-split",),
        (Bound("sign_agreement", 0.85, 0.95, is_least=True),),
    ),
    (
        "one block per SM",
        ("own-1-block", "hopper-1-block", "portable-1-block"),
        _errors((0.7, 2.0), (0.5, 1.5)),
    ),
    ("all our kernels", ("own-all", "judged-all"), ALL_OWN),
    ("replay", ("own-replay", "judged-replay"), REPLAY),
    ("before: one block", ("blind-h100-hopper",), HOPPER_H100),
    ("before: one block", ("blind-h200-hopper",), HOPPER_H200),
    ("before: semaphores", ("blind-h100-all",), ALL_H100),
    ("before: semaphores", ("blind-h200-all",), ALL_H200),
    ("before: Stream-K", ("blind-h100-stream-k", "blind-h200-stream-k"), STREAM_K),
    ("before: chains", ("blind-chains",), CHAINS),
    ("foreign, before", ("blind-foreign",), _before(*FOREIGN)),
    ("foreign, before", ("blind-foreign-trace",), _before(*FOREIGN_TRACE)),
    ("foreign", ("foreign-sketch",), _errors(*FOREIGN)),
    ("foreign, from a trace", ("sketch",), _errors(*FOREIGN_TRACE)),
)
LEFT_OUT = Bound("coverage", 0.7, is_least=True)
# Of every set of 20 cases or more.
INTERVALS = (Bound("coverage", 0.72, is_least=True), Bound("coverage", 0.88))
# Sets of which the order of policies and the regret are thresholds.
CHOSEN = ("published-mlp", "published-resnet", "published-vgg")


def thresholds_of(
    scores: Sequence[SetScore],
    choices: Sequence[PolicyChoice],
    orders: OrderChoice | None = None,
    apart: Sequence[LeftOut] = (),
) -> list[Threshold]:
    """Every one with what was found, also of sets that were not scored."""
    by_name = {score.name: score for score in scores}
    chosen = {choice.name: choice for choice in choices}
    thresholds = [
        entry for what, names, bounds in THRESHOLDS for entry in _held(what, names, by_name, bounds)
    ]
    thresholds += _held("row or tile", CHOSEN, chosen, CHOICE)
    thresholds += _held("row-major or grouped", ("hopper-orders",), {"hopper-orders": orders}, ORDER)
    thresholds += _intervals(scores)
    thresholds += [_threshold("left out", entry.what, LEFT_OUT, entry.coverage) for entry in apart]
    return [*thresholds, *_rivals(scores)]


def _held(
    what: str, names: Sequence[str], scored: Mapping[str, object], bounds: Sequence[Bound]
) -> Iterator[Threshold]:
    for name in names:
        for bound in bounds:
            yield _threshold(what, name, bound, getattr(scored.get(name), bound.figure, None))


def _threshold(what: str, name: str, bound: Bound, value: float | None) -> Threshold:
    return Threshold(what, name, bound.figure, value, bound.threshold, bound.target, bound.standing(value))


def _intervals(scores: Sequence[SetScore]) -> Iterator[Threshold]:
    """Intervals of larger sets hold 8 times in 10, now and, of blind runs, before measuring."""
    for score in scores:
        for figure in ("coverage", "coverage_before"):
            value = getattr(score, figure)
            if value is not None and score.cases >= FEWEST_RIVALLED:
                for bound in INTERVALS:
                    yield _threshold("intervals", score.name, replace(bound, figure=figure), value)


def _rivals(scores: Sequence[SetScore]) -> Iterator[Threshold]:
    """Every larger set's median error is below that of "no gain" and of counting whole waves."""
    for score in scores:
        rivals = [r for r in (score.no_gain_median_points, score.ceil_formula_median_points) if r is not None]
        if score.cases >= FEWEST_RIVALLED and rivals:
            bound = Bound("median_abs_error_points", min(rivals))
            yield _threshold("rivals", score.name, bound, score.median_abs_error_points)


def threshold_lines(thresholds: Sequence[Threshold]) -> list[str]:
    """The thresholds as a table, and how many of them are met."""
    rows = [("what", "set", "figure", "found", "threshold", "target", "reached")]
    rows += [
        (
            threshold.what,
            threshold.name,
            threshold.figure,
            _cell(threshold.value),
            _cell(threshold.threshold),
            _cell(threshold.target),
            threshold.standing,
        )
        for threshold in thresholds
    ]
    scored = [threshold for threshold in thresholds if threshold.value is not None]
    with_target = [entry for entry in scored if entry.target is not None]
    reached = sum(entry.standing != "missed" for entry in scored)
    aimed = sum(entry.standing == "target" for entry in with_target)
    lines = ["{:<22}{:<28}{:<28}{:>7}{:>11}{:>8}  {}".format(*row) for row in rows]
    met, hit = f"{reached} of {len(scored)}", f"{aimed} of {len(with_target)}"
    return [*lines, f"Thresholds met: {met}; targets met: {hit}."]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
