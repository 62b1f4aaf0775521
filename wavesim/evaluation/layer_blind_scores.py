"""The scores of a blind run of layers: how far predictions were off, how often their sign was right.

`python -m wavesim.evaluation.layer_blind_scores FOLDER` prints them as Markdown, `--json` as JSON. A gain is
over stream sync with attention's tiles in the same order.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from wavesim.evaluation.layer_blind_cases import BASELINE
from wavesim.evaluation.layer_blind_runs import LayerBasis, LayerBlindRun
from wavesim.guard.program import run_program
from wavesim.predict.prediction import improvement_points

CHAINS = ("chain", "into", "from", "norm")
LAYERS = ("layer", "decode")
TOLD_POINTS = 1.0  # a smaller gain, measured and predicted, has no sign worth naming: "nothing to gain"


@dataclass(frozen=True)
class LayerScores:
    """Of one basis: errors of gains in points, of stream sync's time in percent, shares in percent.

    `sign_right`: of the plans that gained or lost at least `TOLD_POINTS`, those predicted to do so.
    `nothing_right`: of the cases in which no plan gained as much, those of which that was predicted.
    """

    basis: LayerBasis
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


def scores_of(run: LayerBlindRun, basis: LayerBasis) -> LayerScores:
    """All cases that were measured and predicted."""
    predicted = run.predictions(basis)
    gains: list[float] = []
    layers: list[float] = []
    signs: list[bool] = []
    best: dict[str, tuple[float, float]] = {}
    for case, rounds in run.rounds.items():
        kind = case.split()[0]
        for (order, plan), times in rounds.items():
            known = predicted.get((case, order, plan))
            stream_ns = rounds.get((order, BASELINE))
            if known is None or stream_ns is None:
                continue
            if plan == BASELINE:
                if kind in LAYERS:
                    layers.append(100.0 * abs(known.time_ns / median(times) - 1.0))
                continue
            measured = improvement_points(median(times), median(stream_ns))
            if kind in CHAINS:
                gains.append(abs(known.points - measured))
            if abs(measured) >= TOLD_POINTS:
                signs.append((known.points > 0) == (measured > 0))
            most = best.get(case, (-np.inf, -np.inf))
            best[case] = max(most[0], measured), max(most[1], known.points)
    nothing = [theirs < TOLD_POINTS for ours, theirs in best.values() if ours < TOLD_POINTS]
    return LayerScores(
        basis,
        len(gains),
        *_spread(gains),
        len(layers),
        *_spread(layers),
        len(signs),
        _percent(signs),
        len(nothing),
        _percent(nothing),
    )


def _spread(errors: list[float]) -> tuple[float, float]:
    """(median, 90 %), NaN of none."""
    return (float(np.median(errors)), float(np.percentile(errors, 90))) if errors else (np.nan, np.nan)


def _percent(flags: list[bool]) -> float:
    return 100.0 * sum(flags) / len(flags) if flags else float("nan")


def scores_table(scores: list[LayerScores]) -> str:
    """Markdown; a row for each basis."""
    head = (
        "| predicted from | gains | error, median | 90 % | layers | time error, median | 90 % | signs "
        "| right | nothing to gain | said so |"
    )
    lines = [
        head,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {'the device alone' if one.basis == 'costs' else 'a stream-sync run'} | {one.gains} "
            f"| {one.gain_median:.1f} points | {one.gain_90:.1f} | {one.layers} | {one.layer_median:.1f} % "
            f"| {one.layer_90:.1f} % | {one.signs} | {one.sign_right:.0f} % | {one.nothings} "
            f"| {one.nothing_right:.0f} % |"
            for one in scores
        ),
    ]
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.layer_blind_scores")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    run = LayerBlindRun(asked.folder)
    bases: tuple[LayerBasis, ...] = ("costs", "trace")
    scores = [scores_of(run, basis) for basis in bases]
    shown = json.dumps([asdict(one) for one in scores], indent=1) if asked.json else scores_table(scores)
    print(shown)  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_blind_scores", main))
