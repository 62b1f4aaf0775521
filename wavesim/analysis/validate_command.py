"""`wavesim validate`: the scores as a table and as JSON, and what got worse.

Picture: a line per set; where an error is larger than the committed one the command fails and names it.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from wavesim.analysis.intervals import half_widths, write_half_widths
from wavesim.analysis.judged import Prediction
from wavesim.analysis.policy_choice import policy_choices
from wavesim.analysis.validation import Score, all_predictions, outliers, scores, worse_sets, write_scores

HEAD = (
    "set",
    "cases",
    "median",
    "p90",
    "sign",
    "noise",
    "no gain",
    "ceil",
    "time %",
    "in cycles",
    "80 % holds",
)


@dataclass(frozen=True)
class Validation:
    """What was found: every prediction, the scores, and what is worse than the committed ones, in words."""

    predictions: Sequence[Prediction]
    scores: Sequence[Score]
    complaints: Sequence[str]
    document: dict[str, object]
    words: str


def run_validate(options: Namespace, progress: Callable[[int, int], None] | None = None) -> Validation:
    """Predicts every stored measurement anew; with `options.write` the scores become the ones to hold to."""
    found = all_predictions(progress)
    results = scores(found)
    if options.write:
        write_scores(results)
        write_half_widths(half_widths(found))
    document = {
        "sets": [asdict(score) for score in results],
        "choices": [asdict(choice) for choice in policy_choices(found)],
        "outliers": outliers(found),
    }
    words = [*_table(results), "", *_choices(found), *(_list(found) if options.list else [])]
    words.append(f"named, not scored ({len(outliers(found))}): --list shows them" if not options.list else "")
    return Validation(found, results, worse_sets(results), document, "\n".join(words).rstrip())


def _table(results: Sequence[Score]) -> list[str]:
    widths = [28, 6, 7, 7, 6, 6, 8, 7, 7, 10, 11]
    rows = [HEAD, *(_cells(score) for score in results)]
    lines = [
        "".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [
        *lines,
        "test half only; absolute errors of the predicted improvement in points (replay: of the makespan)",
    ]


def _cells(score: Score) -> tuple[str, ...]:
    return (
        score.name,
        str(score.cases),
        f"{score.median_abs_error_points:.2f}",
        f"{score.p90_abs_error_points:.2f}",
        _share(score.sign_agreement),
        _number(score.noise_points),
        _number(score.no_gain_median_points),
        _number(score.ceil_formula_median_points),
        _number(score.median_time_error_percent),
        _number(score.median_abs_error_cycles_points),
        _share(score.interval_coverage),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _choices(found: Sequence[Prediction]) -> list[str]:
    return [
        f"{choice.name}: policies in the right order {_share(choice.order_agreement)}, mean regret "
        f"{choice.mean_regret_points:.2f} points over {choice.cases} cases"
        for choice in policy_choices(found)
    ]


def _list(found: Sequence[Prediction]) -> list[str]:
    """Every case, worst first."""
    ranked = sorted(found, key=lambda p: (bool(p.outlier), -abs(p.error)))
    return [
        f"{p.source} {p.name} ({p.half}): predicted {p.predicted:+.1f}, measured {p.measured.median:+.1f} "
        f"({p.measured.low:+.1f} to {p.measured.high:+.1f}), error {p.error:+.1f}"
        + (f"; not scored: {p.outlier}" if p.outlier else "")
        for p in ranked
    ]
