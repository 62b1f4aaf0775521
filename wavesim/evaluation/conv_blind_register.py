"""Writes down what is predicted of a blind run of convolutions, and picked, before it is measured.

`python -m wavesim.evaluation.conv_blind_register fourth COMMIT` writes costs.json, every plan of every case
from the device's constants alone, and picks.json, the plan that a user would get (`Forecast.is_worth_it`),
with the SHA-256 of each beside it. Both are written once; what was measured is never among what they are made
from.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from wavesim.costs.device_costs import default_device
from wavesim.errors import RecordingError
from wavesim.evaluation.blind_runs import model_sources
from wavesim.evaluation.conv_blind_cases import BlindConvCase
from wavesim.evaluation.conv_blind_scores import RUNS
from wavesim.evaluation.layer_blind_cases import BASELINE, SHORT_FIRST
from wavesim.evaluation.layer_blind_predictions import predicted_from_costs
from wavesim.evaluation.layer_blind_runs import write_registered
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.predict.defaults import find_costs
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text

PICKS = "picks"


def pick_of(case: BlindConvCase, device: Device) -> str:
    """The fastest predicted plan of those whose gain is worth it, else stream sync."""
    pipeline = case.pipeline()
    known = find_costs(pipeline, device)
    traces = {
        word: known.simulated(pipeline, case.plan(word, SHORT_FIRST), device)
        for word in (BASELINE, *case.plans)
    }
    stream_ns = traces[BASELINE].time_ns
    worth_it = [
        word
        for word in case.plans
        if known.forecast(traces[word], improvement_points(traces[word].time_ns, stream_ns)).is_worth_it
    ]
    return min(worth_it or [BASELINE], key=lambda word: traces[word].time_ns)


def write_picks(folder: Path, picks: Mapping[str, str]) -> str:
    """The plan of each case, and their SHA-256, which it returns.

    Raises `RecordingError` where there are some.
    """
    path = folder / f"{PICKS}.json"
    if path.exists():
        raise RecordingError(f"{path} is there already; picks are written once. Use another folder")
    write_text(path, json.dumps(dict(picks), indent=0) + "\n")
    stamp = hashlib.sha256(path.read_bytes()).hexdigest()
    write_text(folder / f"{PICKS}.sha256", f"{stamp}  {path.name}\n")
    return stamp


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.conv_blind_register")
    parser.add_argument("run", choices=tuple(RUNS))
    parser.add_argument("commit", help="of the model")
    asked = parser.parse_args()
    (folder, cases_of), device = RUNS[asked.run], default_device()
    cases = cases_of()
    made_by = {"commit": asked.commit, "model_sources": model_sources(), "device": device}
    for name in ("costs", PICKS):
        if (folder / f"{name}.json").exists():
            parser.error(f"{folder / name}.json is there already; what is predicted is written down once")
    folder.mkdir(parents=True, exist_ok=True)
    stamp = write_registered(folder, "costs", predicted_from_costs(cases, device), made_by)
    picked = write_picks(folder, {case.name: pick_of(case, devices.load(device)) for case in cases})
    print(f"costs.json {stamp}\npicks.json {picked}")  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_blind_register", main))
