"""The 80 % intervals of predictions of convolutions, learnt on two blind runs.

`python -m wavesim.evaluation.conv_intervals` predicts every case of the fifth blind list, to which one
constant alone was fitted (`convolutions.slot_ns`), on today's kernels, and of the sixth anew, from the
device's constants, and writes widths and errors beside the runs' folders. Too few cases to split: both are of
all of them (`layer_intervals.py`).
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from wavesim.evaluation.conv_blind_cases import BlindConvCase
from wavesim.evaluation.conv_blind_scores import MANY_ROUNDS, RUNS, gains_of
from wavesim.evaluation.layer_blind_cases import BASELINE, SHORT_FIRST
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.evaluation.layer_intervals import SpreadError, kinds_of
from wavesim.model import device as devices
from wavesim.predict.defaults import find_costs
from wavesim.predict.intervals import CONVOLUTION_INTERVALS, LEVEL, spread_points
from wavesim.predict.kinds import CONVOLUTION_CONSTANTS, plan_kind
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text

# On today's kernels: the fifth, of which costs know one constant, and the sixth, of which they know nothing.
TODAYS_LISTS = (MANY_ROUNDS["fifth"], RUNS["sixth"])


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


def main() -> int:
    """The command."""
    found = []
    for folder, cases in TODAYS_LISTS:
        run = LayerBlindRun(folder)
        found += [error for case in cases() if case.name in run.rounds for error in errors_of(run, case)]
    kinds = kinds_of(found, str(run.facts["device"]), is_split=False)
    document = {"level": LEVEL, "kinds": {kind: asdict(one) for kind, one in kinds.items()}}
    write_text(CONVOLUTION_INTERVALS, json.dumps(document, indent=1) + "\n")
    for kind, one in kinds.items():
        print(f"{kind}: {one}")  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_intervals", main))
