"""`wavesim validate`: the scores as a table and as JSON, and what got worse.

Example: a line per set; where an error is larger than the committed one the command fails and names it.
"""

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from wavesim.bench.blind_predictions import clock_drift_percent, model_standing, unmeasured
from wavesim.bench.blind_runs import BlindRun, find_runs, model_sources
from wavesim.bench.interval_fit import LeftOut, left_out, widths_of, write_widths
from wavesim.bench.jobs import flat, run_each
from wavesim.bench.order_choice import compared_orders
from wavesim.bench.policy_choice import PolicyChoice, policy_choices
from wavesim.bench.prediction_store import committed_predictions, differences, write_predictions
from wavesim.bench.regret import regret_text, size_regrets
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.bench.thresholds import threshold_lines, thresholds_of
from wavesim.bench.validation import (
    all_jobs,
    blind_sets,
    outliers,
    scores,
    worse_sets,
    write_scores,
)
from wavesim.predict.score_history import SetScore

# Of each column: its title, its width, and what it says.
COLUMNS = (
    ("set", 28, ""),
    ("cases", 6, ""),
    ("median", 8, "median of the absolute errors of the predicted improvement, in points"),
    ("p90", 7, "nine of ten of these errors are smaller"),
    ("sign", 6, "share of the cases that gained or lost 2 points or more where the sign was predicted"),
    ("noise", 7, "of the measurement: half the distance between its quartiles, in points"),
    ("no gain", 9, "median error of predicting 0 every time"),
    ("ceil", 6, "median error of the formula that counts waves, rounded up"),
    ("time %", 8, "median error of the predicted time, in percent of it"),
    ("cycles", 8, "as median, against the improvement in SM cycles, where the clock was measured"),
    ("in 80 %", 9, "share of the cases inside the 80 % interval of the prediction, outliers included"),
    ("then", 6, "the same share of the intervals that were registered before the measurement"),
    ("+-", 6, "half of the width of these intervals, median, in points"),
    ("repeat", 8, "by how much the improvement differed when the whole comparison was made again, median"),
    ("before", 13, "median and p90 of what was predicted on the device before the plans had run"),
)
MOST_PROCESSES = 8  # each takes some 200 MB
REGRET = (
    "Order: of every two policies measured 2 points or more apart; two predicted equal count as wrong.\n"
    "Regret: what the policy predicted best loses to the best measured; of equals the first listed is taken."
)


@dataclass(frozen=True)
class Validation:
    """What was found: every prediction, the scores, and what is not as it was committed, in words."""

    predictions: Sequence[ScoredPrediction]
    scores: Sequence[SetScore]
    complaints: Sequence[str]
    document: dict[str, object]
    text: str


def run_validate(options: Namespace, progress: Callable[[int, int], None] | None = None) -> Validation:
    """Predicts every stored measurement anew; with `options.write` the scores become the ones to hold to."""
    by_job = run_each(all_jobs(), progress, processes=min(os.cpu_count() or 1, MOST_PROCESSES))
    result = flat(by_job)
    results = scores(result)
    if options.write:
        write_predictions(by_job)
        write_scores(results, left_out(result))
        write_widths(widths_of(result))
    runs = find_runs()
    choices, apart = policy_choices(result), left_out(result)
    orders = compared_orders(result)
    thresholds = thresholds_of(results, choices, orders, apart)
    learnt = [score for score in scores(result, "development") if score.name in blind_sets(result)]
    document = {
        "sets": [asdict(score) for score in results],
        "left_out": [asdict(entry) for entry in apart],
        "judged_development_sets": [asdict(score) for score in learnt],
        "judged_runs": [model_standing(run, model_sources()) for run in runs],
        "judged_regrets": [asdict(regret) for run in runs for regret in size_regrets(run)],
        "judged_regrets_now": [asdict(regret) for run in runs for regret in size_regrets(run, now=result)],
        "not_measured": [text for run in runs for text in unmeasured(run)],
        "choices": [asdict(choice) for choice in choices],
        "orders": asdict(orders) if orders is not None else None,
        "gates": [threshold.json_object for threshold in thresholds],
        "outliers": outliers(result),
    }
    words = [
        *_table(results),
        "",
        *_left_out_table(apart),
        "",
        *_choices(choices),
        "",
        *threshold_lines(thresholds),
    ]
    words += _blind_runs(runs, result, learnt, options.list)
    words += _list(result) if options.list else []
    words.append(
        f"named, not scored ({len(outliers(result))}): --list shows them" if not options.list else ""
    )
    complaints = [*worse_sets(results), *_changed(differences(by_job, committed_predictions()))]
    return Validation(result, results, complaints, document, "\n".join(words).rstrip())


def _changed(texts: Sequence[str]) -> list[str]:
    """One line for all predictions that are not those committed."""
    return [f"{len(texts)} predictions have changed, store them by --write: {texts[0]}"] if texts else []


def _blind_runs(
    runs: Sequence[BlindRun], scored: Sequence[ScoredPrediction], learnt: Sequence[SetScore], is_long: bool
) -> list[str]:
    """The blind runs: who predicted, what their clock did, the development split, what is missing."""
    lines = ["", "Blind runs, development split:", *_rows(learnt)] if learnt else []
    for run in runs:
        drift = clock_drift_percent(run)
        lines.append(model_standing(run, model_sources()))
        if drift:
            lines.append(
                f"  stream sync took {np.median(drift):+.1f} % longer beside the plans than before them, "
                f"at most {max(drift, key=abs):+.1f} %"
            )
        lines += [f"  {words}" for words in (regret_text(run), regret_text(run, scored)) if words]
        missing = unmeasured(run)
        lines.append(f"  not measured or not predicted: {len(missing)}" + ("" if is_long else " (--list)"))
        lines += [f"    {text}" for text in missing] if is_long else []
    return lines


def _table(results: Sequence[SetScore]) -> list[str]:
    lines = _rows(results)
    legend = [f"  {title:<8} {words}" for title, _, words in COLUMNS if words]
    return [*lines, "Test split only. own-replay: errors in points of the stream-sync makespan.", *legend]


def _rows(results: Sequence[SetScore]) -> list[str]:
    rows = [tuple(title for title, _, _ in COLUMNS), *(_cells(score) for score in results)]
    return [
        "".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, (_, width, _)) in enumerate(zip(row, COLUMNS, strict=True))
        )
        for row in rows
    ]


def _cells(score: SetScore) -> tuple[str, ...]:
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
        _share(score.coverage),
        _share(score.coverage_before),
        _number(score.median_half_width_points),
        _number(score.repeat_noise_points),
        _pair(score.before_median_abs_error_points, score.before_p90_abs_error_points),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _pair(median: float | None, p90: float | None) -> str:
    return "-" if median is None or p90 is None else f"{median:.2f} {p90:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _left_out_table(left_outs: Sequence[LeftOut]) -> list[str]:
    rows = [
        f"{entry.what:<44}{entry.cases:>6}{entry.median_abs_error_points:>9.2f}{entry.p90_abs_error_points:>8.2f}"
        f"{entry.coverage:>9.0%}{entry.median_half_width_points:>7.1f}"
        for entry in left_outs
    ]
    title = f"{'left out, intervals learnt from all others':<46}cases"
    return [
        f"{title}{'median':>8}{'p90':>8}{'inside':>9}{'+-':>7}",
        *rows,
        "Intervals are left out, not the model: its constants may have been fitted to other sizes of these.",
    ]


def _choices(choices: Sequence[PolicyChoice]) -> list[str]:
    lines = [
        f"{choice.name}: {_order_text(choice)}, mean regret {choice.mean_regret_points:.2f} points over "
        f"{choice.cases} cases"
        for choice in choices
    ]
    return [*lines, REGRET] if lines else []


def _order_text(choice: PolicyChoice) -> str:
    if choice.order_agreement is None:
        return "no two policies measured apart"
    equal = f" ({choice.predicted_equal} are predicted equal)" if choice.predicted_equal else ""
    return f"policies in the right order {choice.order_agreement:.0%} of {choice.orders}{equal}"


def _list(scored: Sequence[ScoredPrediction]) -> list[str]:
    """Every case, worst first."""
    ranked = sorted(scored, key=lambda p: (bool(p.outlier), -abs(p.error)))
    return [
        f"{p.source} {p.name} ({p.split}): predicted {p.predicted:+.1f}, measured {p.measured.median:+.1f} "
        f"({p.measured.low:+.1f} to {p.measured.high:+.1f}), error {p.error:+.1f}"
        + (f", before {p.before:+.1f}" if p.before is not None else "")
        + (f"; not scored: {p.outlier}" if p.outlier else "")
        for p in ranked
    ]
