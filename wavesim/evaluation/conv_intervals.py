"""The 80 % intervals of predictions of convolutions, learnt on a blind run.

`python -m wavesim.evaluation.conv_intervals` predicts every case of the newest run of a blind list
anew, from the device's constants, and writes widths and errors beside the runs' folders. Too few cases to
split: both are of all of them (`layer_intervals.py`). Persistent plans, which no blind run has measured yet,
take theirs from pairs of `conv_bench` on later kernels, to which their costs were not fitted.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from wavesim.evaluation.conv_bench_results import FILTERS_FIRST, bench_run
from wavesim.evaluation.conv_blind_cases import (
    PERSISTENT_PLANS,
    BlindConvCase,
    convolution_cases,
    second_convolution_cases,
    third_convolution_cases,
)
from wavesim.evaluation.conv_blind_scores import AGAIN, SECOND, THIRD, gains_of
from wavesim.evaluation.conv_runs import tried_plans
from wavesim.evaluation.layer_blind_cases import BASELINE, SHORT_FIRST
from wavesim.evaluation.layer_blind_runs import ROUNDS_FILE, LayerBlindRun
from wavesim.evaluation.layer_intervals import SpreadError, kinds_of
from wavesim.guard.program import run_program
from wavesim.guard.writing import write_text
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import find_costs
from wavesim.predict.intervals import CONVOLUTION_INTERVALS, LEVEL, spread_points
from wavesim.predict.kinds import CONVOLUTION_CONSTANTS, plan_kind
from wavesim.predict.prediction import improvement_points


def errors_of(run: LayerBlindRun, case: BlindConvCase) -> Iterator[SpreadError]:
    """Of every plan of a case that was measured."""
    pipeline, device = case.pipeline(), devices.load(str(run.facts["device"]))
    known = find_costs(pipeline, device)
    stream_ns = known.simulated(pipeline, case.plan(BASELINE, SHORT_FIRST), device).time_ns
    for word, measured in gains_of(run, case.name).items():
        trace = known.simulated(pipeline, case.plan(word, SHORT_FIRST), device)
        points = improvement_points(trace.time_ns, stream_ns)
        kind = plan_kind(CONVOLUTION_CONSTANTS, trace.header.plan)
        yield SpreadError(kind, case.name, points - measured, spread_points(trace, points))


def persistent_errors(device: Device) -> Iterator[SpreadError]:
    """Of each pair on later kernels in each of its tiles, over stream sync in the same."""
    run = bench_run(FILTERS_FIRST)
    found = list(tried_plans({"cases": run.cases if run is not None else ()}))
    streams = {(one.case, one.tiles): one for one in found if one.plan == BASELINE}
    for one in found:
        if one.plan in PERSISTENT_PLANS:
            stream = streams[one.case, one.tiles]
            measured = improvement_points(one.measured_ns, stream.measured_ns)
            points = improvement_points(round(one.predicted_ns(device)), round(stream.predicted_ns(device)))
            trace = find_costs(one.pipeline, device).simulated(one.pipeline, parse_plan(one.plan), device)
            kind = plan_kind(CONVOLUTION_CONSTANTS, trace.header.plan)
            yield SpreadError(kind, one.case, points - measured, spread_points(trace, points))


def newest_run() -> tuple[LayerBlindRun, list[BlindConvCase]]:
    """The last blind run that was measured, else the first one's cases on today's kernels."""
    if (THIRD / ROUNDS_FILE).is_file():
        return LayerBlindRun(THIRD), third_convolution_cases()
    if (SECOND / ROUNDS_FILE).is_file():
        return LayerBlindRun(SECOND), second_convolution_cases()
    return LayerBlindRun(AGAIN), convolution_cases()


def main() -> int:
    """The command."""
    run, cases = newest_run()
    found = [error for case in cases if case.name in run.rounds for error in errors_of(run, case)]
    name = str(run.facts["device"])
    measured = {one.kind for one in found}
    found += [one for one in persistent_errors(devices.load(name)) if one.kind not in measured]
    kinds = kinds_of(found, name, is_split=False)
    document = {"level": LEVEL, "kinds": {kind: asdict(one) for kind, one in kinds.items()}}
    write_text(CONVOLUTION_INTERVALS, json.dumps(document, indent=1) + "\n")
    for kind, one in kinds.items():
        print(f"{kind}: {one}")  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_intervals", main))
