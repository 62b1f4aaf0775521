"""What is claimed of decode steps is what the committed times and the registered predictions say."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest

from wavesim.bench.claims import load_claims
from wavesim.bench.decode_errors import choices_of, errors_of, in_no_fit
from wavesim.safe_io.documents import read_json

RESULTS = Path(__file__).parents[2] / "gpu" / "results"
STEPS, MEASURED = RESULTS / "decode-steps", RESULTS / "decode"
CUTS = MEASURED / "2026-11-28-h200-cuts.json"
CLAIMS = {claim.name.removeprefix("decode."): claim.value for claim in load_claims()}


@pytest.mark.parametrize(
    ("model", "batch", "claims"),
    [
        *((model, 1, (f"over_limit_{model}", f"speedup_{model}")) for model in ("8b", "1b", "0_5b")),
        ("8b", 8, ("", "batch8_speedup_8b")),
    ],
)
def test_ratios_of_a_step_are_those_of_its_rounds(model, batch, claims):
    rows = read_json(MEASURED / "2026-11-28-h200.json", 1_000_000)["rows"]
    (times,) = [
        {way: median(series) for way, series in row["times_us"].items()}
        for row in rows
        if (row["model"], row["batch"], row["keys"]) == (model, batch, 512)
    ]
    best = min(times["eager"], times["compiled"])
    for claim, ratio in zip(claims, (times["ours"] / times["limit"], best / times["ours"]), strict=True):
        assert not claim or round(ratio, 3) == CLAIMS[claim]


def test_errors_are_of_all_cases_that_no_constant_was_fitted_to():
    percent = in_no_fit(errors_of(STEPS / "2026-11-28-mended", CUTS))
    assert len(percent) == 18
    assert round(median(percent), 1) == CLAIMS["time_error_median_percent"]
    assert round(float(np.percentile(percent, 90)), 1) == CLAIMS["time_error_p90_percent"]


def test_the_first_registered_errors_stay_what_they_were():
    errors = errors_of(STEPS / "2026-11-28", MEASURED / "2026-11-28-steps.json")
    assert [round(error.percent, 1) for error in errors] == [52.1, 20.6, -1.6]


def test_what_the_simulator_picked_before_the_cuts_were_measured_lost_so_much():
    choices = list(choices_of(list(errors_of(STEPS / "2026-11-28-cuts", CUTS))))
    losses = {choice.case.split()[0]: round(choice.loss, 1) for choice in choices}
    assert losses == {"llama-3-8b": 32.5, "llama-3.2-1b": 35.3, "qwen2.5-0.5b": 8.9}
    assert min(choice.cuts for choice in choices) >= 34
