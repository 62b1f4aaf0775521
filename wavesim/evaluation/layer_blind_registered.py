"""Registers what the constants say of a blind run of layers, before it runs: predictions and their SHA-256.

`python -m wavesim.evaluation.layer_blind_registered --out FOLDER --commit COMMIT` predicts the third run's
cases; the folder is committed, and `wavesim_gpu.bench.kinds.layers_blind --registered FOLDER` takes it.
"""

import argparse
import sys
from pathlib import Path

from wavesim.costs.device_costs import default_device
from wavesim.evaluation.blind_runs import model_sources
from wavesim.evaluation.layer_blind_cases import third_cases
from wavesim.evaluation.layer_blind_predictions import predicted_from_costs
from wavesim.evaluation.layer_blind_runs import write_registered
from wavesim.safe_io.program import run_program


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.layer_blind_registered")
    parser.add_argument("--out", required=True, type=Path, help="a folder without predictions")
    parser.add_argument("--commit", required=True, help="of the model")
    asked = parser.parse_args()
    device = default_device()
    made_by = {"commit": asked.commit, "model_sources": model_sources(), "device": device}
    asked.out.mkdir(parents=True, exist_ok=True)
    stamp = write_registered(asked.out, "costs", predicted_from_costs(third_cases(), device), made_by)
    print(stamp)  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_blind_registered", main))
