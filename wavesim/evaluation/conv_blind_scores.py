"""The scores of the blind runs of convolutions: errors of gains, signs, row against tile semaphores.

`python -m wavesim.evaluation.conv_blind_scores` prints those of the first run as Markdown, with `second`,
`third`, `fourth`, `fifth` or `sixth` of another. A gain is over stream sync, the median of rounds paired in
time. "costs": from the device's constants as they were when the run began; "trace": from its own recordings
of stream sync, before other plans ran; "fitted": from constants that `conv_bench` gave meanwhile, written
while the first run was under way and before anything of it was seen. `--today`: today's constants, which have
seen all lists but the sixth; of those their repeat in 160 rounds.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from wavesim.errors import RecordingError
from wavesim.evaluation.conv_blind_cases import (
    BlindConvCase,
    convolution_cases,
    fifth_convolution_cases,
    fourth_convolution_cases,
    second_convolution_cases,
    sixth_convolution_cases,
    third_convolution_cases,
)
from wavesim.evaluation.layer_blind_cases import BASELINE, SHORT_FIRST
from wavesim.evaluation.layer_blind_predictions import predicted_from_costs
from wavesim.evaluation.layer_blind_runs import LayerBasis, LayerBlindRun, LayerPrediction
from wavesim.evaluation.layer_blind_scores import TOLD_POINTS, paired_points
from wavesim.plan.parsing import parse_plan
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program

RECORDINGS = Path(__file__).parents[1] / "recordings" / "convolutions"
FOLDER, SECOND = RECORDINGS / "h200-2026-11-23", RECORDINGS / "h200-second"
THIRD, FOURTH = RECORDINGS / "h200-third", RECORDINGS / "h200-fourth"
FIFTH, SIXTH = RECORDINGS / "h200-fifth", RECORDINGS / "h200-sixth"
RUNS: Mapping[str, tuple[Path, Callable[[], Sequence[BlindConvCase]]]] = {
    "first": (FOLDER, convolution_cases),
    "second": (SECOND, second_convolution_cases),
    "third": (THIRD, third_convolution_cases),
    "fourth": (FOURTH, fourth_convolution_cases),
    "fifth": (FIFTH, fifth_convolution_cases),
    "sixth": (SIXTH, sixth_convolution_cases),
}
AGAIN = RECORDINGS / "h200-again"  # the first list on kernels that wait for less: to fit costs to, not blind
# Lists again, in 160 rounds: all but the first on kernels that load few filters ahead, as costs know them.
MANY_ROUNDS = {"first": (RECORDINGS / "h200-160-rounds" / "first", RUNS["first"][1])} | {
    name: (RECORDINGS / "h200-near-filters" / name, RUNS[name][1])
    for name in ("second", "third", "fourth", "fifth")
}
LATER_BASES: dict[LayerBasis, str] = {
    "costs": "the device alone",
    "trace": "a stream-sync run of its own",
}
BASES: dict[LayerBasis, str] = {
    "costs": "the device alone, before convolutions were measured",
    "fitted": "the device alone, fitted to `conv_bench`",
    "trace": "a stream-sync run of its own",
}
Predictions = Mapping[tuple[str, str, str], LayerPrediction]
COARSE, FINE = "pdl+row", "pdl+tile"
HEAD = (
    "| predicted from | gains | error, median | 90 % | stream sync's time | of a point or more "
    "| sign right | row and tile a point apart | right |"
)
UNMEASURED = "Predictions are written and hashed; not measured yet."


@dataclass(frozen=True)
class ConvScores:
    """Of one basis: errors of gains in points, of stream sync's time in percent, shares in percent.

    `signs`: gains and losses of a point or more, and `sign_right` of these. `orders`: cases in which row and
    tile semaphores were a point or more apart, and `order_right` of these. `told`: those of them in which the
    two are not the same program, as they are where each producer has one column of tiles; `told_right`.
    """

    gains: int
    median: float
    most_of_90: float
    time_error: float
    signs: int
    sign_right: float
    orders: int
    order_right: float
    told: int
    told_right: float


def are_one_program(case: BlindConvCase) -> bool:
    """Whether row and tile semaphores are: all that others wait for has one column of tiles."""
    pipeline = case.pipeline()
    awaited = {name for dependency in pipeline.dependencies for name in dependency.producers}
    return all(pipeline.stage(name).grid.x == 1 for name in awaited)


@cache
def _one_program_names() -> frozenset[str]:
    return frozenset(case.name for _, cases in RUNS.values() for case in cases() if are_one_program(case))


def today_of(cases: Sequence[BlindConvCase], device: str) -> Predictions:
    """What today's constants say, which may have been fitted to the very run."""
    found = predicted_from_costs(cases, device)
    return {(one.case, one.order, one.plan): one for one in found}


def scores_of(run: LayerBlindRun, basis: LayerBasis) -> ConvScores:
    """All cases that were measured, as registered."""
    return scores(run, run.predictions(basis))


def scores(run: LayerBlindRun, predicted: Predictions) -> ConvScores:
    """All cases that were measured."""
    alike = _one_program_names()
    errors, times, signs, orders, told_orders = [], [], [], [], []
    for case in run.rounds:
        measured = gains_of(run, case)
        stream = predicted[case, SHORT_FIRST, BASELINE]
        times.append(100.0 * abs(stream.time_ns / np.median(run.rounds[case][SHORT_FIRST, BASELINE]) - 1.0))
        said = {plan: predicted[case, SHORT_FIRST, plan].points for plan in measured}
        errors += [abs(said[plan] - points) for plan, points in measured.items()]
        told = [plan for plan, points in measured.items() if abs(points) >= TOLD_POINTS]
        signs += [(said[plan] > 0) == (measured[plan] > 0) for plan in told]
        if {COARSE, FINE} <= measured.keys():
            apart = measured[FINE] - measured[COARSE]
            if abs(apart) >= TOLD_POINTS:
                orders.append((said[FINE] - said[COARSE]) * apart > 0)
                told_orders += [] if case in alike else [orders[-1]]
    return ConvScores(
        len(errors),
        float(np.median(errors)),
        float(np.percentile(errors, 90)),
        float(np.median(times)),
        len(signs),
        _percent(signs),
        len(orders),
        _percent(orders),
        len(told_orders),
        _percent(told_orders),
    )


def gains_of(run: LayerBlindRun, case: str) -> dict[str, float]:
    """Measured points over stream sync, by plan."""
    rounds = run.rounds[case]
    stream = rounds[SHORT_FIRST, BASELINE]
    return {plan: paired_points(times, stream) for (_, plan), times in rounds.items() if plan != BASELINE}


def picks_of(run: LayerBlindRun) -> dict[str, str]:
    """By case the plan that was picked before. Raises `RecordingError` where it was changed since."""
    data = (run.folder / "picks.json").read_bytes()
    stamp = (run.folder / "picks.sha256").read_text(encoding="utf-8").split()[0]
    if hashlib.sha256(data).hexdigest() != stamp:
        raise RecordingError(f"{run.folder / 'picks.json'}: its SHA-256 is not the one written beside it")
    return dict(json.loads(data))


def picks_text(run: LayerBlindRun) -> str:
    """How much faster what was picked is than stream sync and dependent launch, as measured."""
    picks = picks_of(run)
    speeds: dict[str, list[float]] = {"stream sync": [], "dependent launch": []}
    chains = []
    for case, rounds in run.rounds.items():
        times = {plan: float(np.median(ns)) for (_, plan), ns in rounds.items()}
        mine = times[picks[case]]
        speeds["stream sync"].append(times[BASELINE] / mine)
        speeds["dependent launch"].append(times["pdl"] / mine)
        chains += [times[BASELINE] / mine] if case.startswith("chain") else []
    words = [
        f"{geometric_mean(found):.3f} of the speed of {name} (geometric mean; least {min(found):.3f}, "
        f"most {max(found):.3f})"
        for name, found in speeds.items()
    ]
    count = sum(parse_plan(picks[case]).sync.has_semaphores for case in run.rounds)
    return (
        f"Picked before, semaphores in {count} of {len(run.rounds)} cases: {' and '.join(words)}; the worst "
        f"chain of four {min(chains):.3f} of stream sync."
    )


def _percent(flags: list[bool]) -> float:
    return 100.0 * sum(flags) / len(flags) if flags else float("nan")


def table(run: LayerBlindRun) -> Iterator[str]:
    """Markdown, a row per basis. A run that was registered and not measured yet has a line that says so."""
    if not run.is_measured:
        yield UNMEASURED
        return
    yield HEAD
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for basis, words in (BASES if run.folder == FOLDER else LATER_BASES).items():
        yield _table_row(words, scores_of(run, basis))
    if run.folder != FOLDER:
        yield ""
        yield picks_text(run)


def today_table(name: str) -> Iterator[str]:
    """Markdown: what today's constants say of a run that was measured, and of row and tile apart."""
    folder, cases = MANY_ROUNDS.get(name, RUNS[name])
    run = LayerBlindRun(folder)
    found = scores(run, today_of(cases(), str(run.facts["device"])))
    yield HEAD
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    seen = ", which have seen it" if name in MANY_ROUNDS else ""
    yield _table_row(f"today's constants{seen}", found)
    yield ""
    yield (
        f"Of these {found.orders} cases {found.orders - found.told} are one program under two names, as each "
        f"producer has one column of tiles; of the other {found.told} the order is right in "
        f"{found.told_right:.0f} %."
    )
    yield twice_text(run, cases())


def twice_text(run: LayerBlindRun, cases: Sequence[BlindConvCase]) -> str:
    """How far gains of one program are from each other, which no prediction can be nearer to than."""
    gains = [gains_of(run, case.name) for case in cases if are_one_program(case)]
    apart = [abs(one[FINE] - one[COARSE]) for one in gains]
    median, most = (float(np.percentile(apart, share)) for share in (50, 90))
    return (
        f"Measured twice, under its two names, the gain of one program differs by {median:.1f} points "
        f"(median) and {most:.1f} (90 %), in {len(apart)} cases."
    )


def _table_row(words: str, one: ConvScores) -> str:
    right = f"{one.order_right:.0f} %" if one.orders else "-"
    return (
        f"| {words} | {one.gains} | {one.median:.1f} points | {one.most_of_90:.1f} "
        f"| {one.time_error:.1f} % | {one.signs} | {one.sign_right:.0f} % | {one.orders} | {right} |"
    )


def main() -> int:
    """Prints the table."""
    parser = OneLineParser(prog="python -m wavesim.evaluation.conv_blind_scores", description=__doc__)
    parser.add_argument("run", nargs="?", choices=tuple(RUNS), default="first")
    parser.add_argument("--today", action="store_true", help="by today's constants, not as registered")
    asked = parser.parse_args()
    lines = today_table(asked.run) if asked.today else table(LayerBlindRun(RUNS[asked.run][0]))
    print("\n".join(lines))  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_blind_scores", main))
