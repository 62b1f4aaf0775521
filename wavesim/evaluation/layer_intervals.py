"""The 80 % intervals of layers' predictions, learnt on one split of a blind run, held against the other.

`python -m wavesim.evaluation.layer_intervals FOLDER...` predicts every case of the runs anew, from the
device's constants, writes the widths beside the runs' folders and prints how many measurements of the first
one's test split lie inside. All plans and orders of a case err alike, so that each case weighs the same
(`interval_fit.py`). A kind that only a later run measured, by which no constant was chosen, takes its width
and errors from all cases of that run: too few to split.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from wavesim.costs.layer_costs import costs_of_stages
from wavesim.evaluation.interval_fit import grouped_quantile, unseen_over_seen
from wavesim.evaluation.layer_blind_cases import BASELINE, BlindLayerCase, every_case
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.evaluation.layer_blind_scores import is_in_test_split, paired_points
from wavesim.model import device as devices
from wavesim.predict.intervals import LAYER_INTERVALS, LEVEL, KindScore, spread_points
from wavesim.predict.kinds import CHAINED_PRODUCTS, LAYER_CONSTANTS, plan_kind
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.program import run_program
from wavesim.safe_io.workers import worker_pool
from wavesim.safe_io.writing import write_text
from wavesim.sim.simulation import simulate


@dataclass(frozen=True)
class SpreadError:
    """Of one predicted gain: its kind and case, its error and spread in points."""

    kind: str
    case: str
    error: float
    spread: float


def errors_of(run: LayerBlindRun, case: BlindLayerCase) -> list[SpreadError]:
    """Of every plan of a case that was measured."""
    return list(_errors(run, case))


def _errors(run: LayerBlindRun, case: BlindLayerCase) -> Iterator[SpreadError]:
    pipeline, device = case.pipeline(), devices.load(str(run.facts["device"]))
    costs = costs_of_stages(pipeline, device, serialises_bias=run.serialises_bias)
    rounds = run.rounds[case.name]
    known = f"{LAYER_CONSTANTS}, {CHAINED_PRODUCTS}" if case.is_chained else LAYER_CONSTANTS
    for order in case.orders:
        stream_ns = simulate(pipeline, case.plan(BASELINE, order), device, costs).time_ns
        for word in case.plans:
            if (order, word) not in rounds or (order, BASELINE) not in rounds:
                continue
            trace = simulate(pipeline, case.plan(word, order), device, costs)
            points = improvement_points(trace.time_ns, stream_ns)
            measured = paired_points(rounds[order, word], rounds[order, BASELINE])
            kind = plan_kind(known, trace.header.plan)
            yield SpreadError(kind, case.name, points - measured, spread_points(trace, points))


def kinds_of(found: list[SpreadError], device: str, *, is_split: bool = True) -> dict[str, KindScore]:
    """Widths by the development split, errors of the test split; without `is_split` both by all cases."""
    return {
        kind: _score([one for one in found if one.kind == kind], device, is_split=is_split)
        for kind in sorted({one.kind for one in found})
    }


def _score(found: list[SpreadError], device: str, *, is_split: bool) -> KindScore:
    groups: dict[str, list[float]] = {}
    for one in found:
        if not (is_split and is_in_test_split(one.case)):
            groups.setdefault(one.case, []).append(abs(one.error) / one.spread)
    errors = [abs(one.error) for one in found if not is_split or is_in_test_split(one.case)]
    median, p90 = (round(float(np.percentile(errors or [0.0], share)), 2) for share in (50, 90))
    width = grouped_quantile(list(groups.values())) * unseen_over_seen(found[0].kind, len(groups))
    return KindScore(round(width, 2), (device,), len(errors), median, p90)


def coverage(found: list[SpreadError], kinds: dict[str, KindScore]) -> float:
    """The share of the test split's measurements inside their intervals."""
    inside = [
        abs(one.error) <= kinds[one.kind].half_width_over_spread * one.spread
        for one in found
        if is_in_test_split(one.case)
    ]
    return float(np.mean(inside))


def _all_errors(run: LayerBlindRun) -> list[SpreadError]:
    cases = [case for case in every_case() if case.name in run.rounds]
    with worker_pool() as pool:
        waiting = [pool.submit(errors_of, run, case) for case in cases]
        return list(chain.from_iterable(one.result() for one in waiting))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.layer_intervals")
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    first, *later = map(LayerBlindRun, parser.parse_args().folders)
    found = _all_errors(first)
    kinds = kinds_of(found, str(first.facts["device"]))
    for run in later:
        new = [one for one in _all_errors(run) if one.kind not in kinds]
        kinds |= kinds_of(new, str(run.facts["device"]), is_split=False)
    document = {"level": LEVEL, "kinds": {kind: asdict(one) for kind, one in kinds.items()}}
    write_text(LAYER_INTERVALS, json.dumps(document, indent=1) + "\n")
    for kind, one in kinds.items():
        print(f"{kind}: {one}")  # noqa: T201
    print(f"inside, test split: {coverage(found, kinds):.0%}")  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_intervals", main))
