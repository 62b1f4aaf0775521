"""The scores of a blind run of layers: how far predictions were off, how often their sign was right.

`python -m wavesim.evaluation.layer_blind_scores FOLDER` prints them as Markdown, `--json` as JSON; `--kinds`
adds those of each kind of cases. A gain is over stream sync with attention's tiles in the same order, the
median of rounds paired in time, so that a clock that moved for both cancels. `--today` predicts again with
today's constants, which were chosen on one split of the first run's cases, by the hash of their names, and
scores both splits.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median

import numpy as np

from wavesim.evaluation.layer_blind_cases import BASELINE, BlindLayerCase, every_case
from wavesim.evaluation.layer_blind_predictions import predicted_from_costs, predicted_from_streams
from wavesim.evaluation.layer_blind_runs import LayerBasis, LayerBlindRun, LayerPrediction
from wavesim.safe_io.program import run_program

CHAINS = ("chain", "into", "from", "norm", "chained")
LAYERS = ("layer", "decode", "chained-layer")
TOLD_POINTS = 1.0  # a smaller measured gain has no sign worth naming: there is nothing to gain
# Below this the best of a case's predicted gains, of up to eight plans, is said to be nothing: in the first
# two runs right for 38 of 40 cases with nothing to gain, wrong for 14 of 111 others.
SAID_POINTS = 1.25


@dataclass(frozen=True)
class LayerScores:
    """Of one basis: errors of gains in points, of stream sync's time in percent, shares in percent.

    `what`: which cases, and when they were predicted.
    `sign_right`: of the plans that gained or lost at least `TOLD_POINTS`, those predicted to do so.
    `nothing_right`: of the cases in which no plan gained as much, those of which that was said, by the run's
    rule (`LayerBlindRun.said_points`); `nothing_wrong`: of all others, in percent of them.
    """

    basis: LayerBasis
    what: str
    gains: int
    gain_median: float
    gain_90: float
    layers: int
    layer_median: float
    layer_90: float
    signs: int
    sign_right: float
    nothings: int
    nothing_right: float
    nothing_wrong: float


Predictions = Mapping[tuple[str, str, str], LayerPrediction]


def is_in_test_split(case: str) -> bool:
    """Whether no constant was chosen by a case: those with an odd last byte of their name's SHA-256."""
    return bool(sha256(case.encode()).digest()[-1] % 2)


def scores_of(run: LayerBlindRun, basis: LayerBasis) -> LayerScores:
    """All cases that were measured, as predicted before."""
    return _scores(run, basis, run.predictions(basis), "all, as registered", set(run.rounds))


def scores_by_kind(run: LayerBlindRun, basis: LayerBasis) -> Iterator[LayerScores]:
    """Those of each kind of cases, as predicted before."""
    predicted = run.predictions(basis)
    for kind in (*CHAINS, *LAYERS):
        names = {name for name in run.rounds if name.split()[0] == kind}
        if names:
            yield _scores(run, basis, predicted, kind, names)


def scores_today(run: LayerBlindRun, cases: list[BlindLayerCase], basis: LayerBasis) -> Iterator[LayerScores]:
    """Both splits of the cases, and all of them, predicted again."""
    device = str(run.facts["device"])
    cases = [case for case in cases if case.name in run.rounds]
    if basis == "costs":
        found = predicted_from_costs(cases, device, serialises_bias=run.serialises_bias)
    else:
        streams = {case: {order: run.stream(case, order) for order in case.orders} for case in cases}
        found = predicted_from_streams(streams, device, serialises_bias=run.serialises_bias)
    predicted = {(one.case, one.order, one.plan): one for one in found}
    names = {case.name for case in cases}
    test = set(filter(is_in_test_split, names))
    for what, some in (("development split", names - test), ("test split", test), ("all", names)):
        yield _scores(run, basis, predicted, f"{what}, today", some)


def paired_points(times: list[int], stream: list[int]) -> float:
    """A gain in points: the median of rounds paired in time."""
    return float(np.median(100.0 * (1.0 - np.array(times) / np.array(stream))))


def _scores(
    run: LayerBlindRun, basis: LayerBasis, predicted: Predictions, what: str, names: set[str]
) -> LayerScores:
    gains: list[float] = []
    layers: list[float] = []
    signs: list[bool] = []
    best: dict[str, tuple[float, float]] = {}
    for case in sorted(names):
        kind, rounds = case.split()[0], run.rounds[case]
        for (order, plan), times in rounds.items():
            known = predicted.get((case, order, plan))
            stream = rounds.get((order, BASELINE))
            if known is None or stream is None:
                continue
            if plan == BASELINE:
                if kind in LAYERS:
                    layers.append(100.0 * abs(known.time_ns / median(times) - 1.0))
                continue
            measured = paired_points(times, stream)
            if kind in CHAINS:
                gains.append(abs(known.points - measured))
            if abs(measured) >= TOLD_POINTS:
                signs.append((known.points > 0) == (measured > 0))
            most = best.get(case, (-np.inf, -np.inf))
            best[case] = max(most[0], measured), max(most[1], known.points)
    nothing, other = (
        [theirs < run.said_points for ours, theirs in best.values() if (ours < TOLD_POINTS) == is_nothing]
        for is_nothing in (True, False)
    )
    return LayerScores(
        basis,
        what,
        len(gains),
        *_spread(gains),
        len(layers),
        *_spread(layers),
        len(signs),
        _percent(signs),
        len(nothing),
        _percent(nothing),
        _percent(other),
    )


def _spread(errors: list[float]) -> tuple[float, float]:
    """(median, 90 %), NaN of none."""
    return (float(np.median(errors)), float(np.percentile(errors, 90))) if errors else (np.nan, np.nan)


def _percent(flags: list[bool]) -> float:
    return 100.0 * sum(flags) / len(flags) if flags else float("nan")


def scores_table(scores: list[LayerScores]) -> str:
    """Markdown; a row for each basis."""
    head = (
        "| predicted from | cases | gains | error, median | 90 % | layers | time error, median | 90 % "
        "| signs | right | nothing to gain | said so | said of others |"
    )
    lines = [
        head,
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {'the device alone' if one.basis == 'costs' else 'a stream-sync run'} | {one.what} "
            f"| {one.gains} | {one.gain_median:.1f} points | {one.gain_90:.1f} | {one.layers} "
            f"| {one.layer_median:.1f} % | {one.layer_90:.1f} % | {one.signs} "
            f"| {one.sign_right:.0f} % | {one.nothings} | {one.nothing_right:.0f} % "
            f"| {one.nothing_wrong:.0f} % |"
            for one in scores
        ),
    ]
    return re.sub(r"\bnan( points| %)?", "none", "\n".join(lines))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.layer_blind_scores")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--kinds", action="store_true", help="scores of each kind of cases too")
    parser.add_argument(
        "--today", action="store_true", help="predict again, in minutes, and score splits and all"
    )
    asked = parser.parse_args()
    run = LayerBlindRun(asked.folder)
    bases: tuple[LayerBasis, ...] = ("costs", "trace")
    scores = []
    for basis in bases:
        scores.append(scores_of(run, basis))
        if asked.kinds:
            scores += scores_by_kind(run, basis)
        if asked.today:
            scores += scores_today(run, every_case(), basis)
    shown = json.dumps([asdict(one) for one in scores], indent=1) if asked.json else scores_table(scores)
    print(shown)  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_blind_scores", main))
