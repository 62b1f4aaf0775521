"""A measured list as a page of Markdown: the scores in a line, then a table of cases and plans.

Example: a row says "chain llama-65b 448, pdl+row: predicted +2.1, measured +1.7, right"; times are of the
median round.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wavesim.bench.case_list import CaseList
from wavesim.bench.registration import CasePrediction
from wavesim.bench.results import ResultRow
from wavesim.bench.scoring import Key, ListScores, gains_of, scores_of, speeds_of

HEAD = "| case | order | plan | time, us | gain, points | predicted | output |"


def page_of_list(
    cases: CaseList,
    predictions: Mapping[Key, CasePrediction],
    header: Mapping[str, Any],
    rows: Sequence[ResultRow],
) -> str:
    """The whole page. Raises `RecordingError` where nothing was both predicted and measured."""
    gains = gains_of(rows, cases.baseline)
    lines = [f"# {cases.title}", "", _measured_on(cases, header), ""]
    if predictions:
        lines += [_scores_line(scores_of(predictions, rows, cases.baseline), cases.baseline), ""]
    for way, speed in speeds_of(rows, cases.contests).items():
        said = f"{speed.geomean:.3f} ({speed.least:.3f} to {speed.most:.3f}) of the speed of the fastest of"
        said += f" {cases.contests[way]}: geometric mean, least and most of {speed.cases} cases."
        lines += [f"{way} has {said}", ""]
    lines += [HEAD, "|---|---|---|--:|--:|--:|---|"]
    for row in rows:
        key = (row.case, row.order, row.way)
        time = f"{np.median(row.ns) / 1_000:.1f}" if row.ns else "-"
        predicted = f"{predictions[key].points:+.1f}" if key in predictions else "-"
        gain = f"{gains[key]:+.1f}" if key in gains else "-"
        verdict = "right" if row.correct else row.error or "wrong"
        lines.append(f"| {row.case} | {row.order} | {row.way} | {time} | {gain} | {predicted} | {verdict} |")
    return "\n".join(lines) + "\n"


def _scores_line(scores: ListScores, baseline: str) -> str:
    sign = "none of a point or more" if scores.sign_agreement is None else f"{scores.sign_agreement:.0%}"
    return (
        f"{scores.gains} gains over {baseline}, predicted before they were measured: error "
        f"{scores.median_abs_error_points:.1f} points at the median, {scores.p90_abs_error_points:.1f} at "
        f"90 %; sign {sign}; the plan predicted best is {scores.regret_points:.1f} points below the best."
    )


def _measured_on(cases: CaseList, header: Mapping[str, Any]) -> str:
    device = header["device"]
    name = device["name"] if isinstance(device, Mapping) else device
    return (
        f"Measured on {name}, {header['date']}, commit {header['commit']}, medians of "
        f"{cases.rounds} interleaved rounds. The list's SHA-256 is {cases.sha256[:12]}."
    )
