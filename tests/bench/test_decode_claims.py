"""What is claimed of decode steps is what the committed times and the registered predictions say."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest

from wavesim.bench.claims import load_claims
from wavesim.bench.decode_errors import errors_of
from wavesim.safe_io.documents import read_json

RESULTS = Path(__file__).parents[2] / "gpu" / "results"
MEASURED = RESULTS / "decode" / "2026-11-28-steps.json"
CLAIMS = {claim.name.removeprefix("decode."): claim.value for claim in load_claims()}


@pytest.mark.parametrize("model", ["8b", "1b", "0_5b"])
def test_a_step_over_its_limit_is_what_its_rounds_give(model):
    rows = read_json(MEASURED, 1_000_000)["rows"]
    (times,) = [
        row["times_us"] for row in rows if (row["model"], row["batch"], row["keys"]) == (model, 1, 512)
    ]
    assert round(median(times["ours"]) / median(times["limit"]), 2) == round(CLAIMS[f"over_limit_{model}"], 2)


def test_the_errors_of_predictions_are_those_of_the_registered_ones():
    rows = errors_of(RESULTS / "decode-steps" / "2026-11-28", MEASURED)
    percent = [abs(error.percent) for error in rows]
    assert len(percent) == 3
    assert round(median(percent), 1) == CLAIMS["time_error_median_percent"]
    assert round(float(np.percentile(percent, 90)), 1) == CLAIMS["time_error_p90_percent"]
