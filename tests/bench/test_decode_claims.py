"""What is claimed of decode steps is what the committed times and the registered predictions say."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest

from wavesim.bench.claims import load_claims
from wavesim.bench.decode_errors import MODELS, choices_of, errors_of, in_no_fit
from wavesim.safe_io.documents import read_json
from wavesim.teaching.measured_layers import decode_times, registered_steps

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "gpu" / "results"
STEPS, MEASURED = RESULTS / "decode-steps", RESULTS / "decode"
CUTS = MEASURED / "2026-11-28-h200-cuts.json"
CLAIMS = {claim.name.removeprefix("decode."): claim.value for claim in load_claims()}


def times_of(path):
    """Median microseconds a layer of the usual cuts, by way; by model, sequences and keys."""
    return {
        (MODELS[row["model"]], row["batch"], row["keys"]): {
            way: median(series) / row["layers"] for way, series in row["times_us"].items()
        }
        for row in read_json(path, 2_000_000)["rows"]
        if not row.get("cut")
    }


@pytest.mark.parametrize(
    ("model", "batch", "claims"),
    [
        *((model, 1, (f"over_limit_{model}", f"speedup_{model}")) for model in ("8b", "1b", "0_5b")),
        ("8b", 8, ("", "batch8_speedup_8b")),
    ],
)
def test_ratios_of_a_step_are_those_of_its_rounds(model, batch, claims):
    times = times_of(MEASURED / "2026-11-28-h200.json")[MODELS[model], batch, 512]
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


@pytest.mark.parametrize(
    ("model", "name"), [("llama-3-8b", "8B"), ("llama-3.2-1b", "1B"), ("qwen2.5-0.5b", "0.5B")]
)
def test_the_page_has_a_line_for_each_step(model, name):
    known, lines = times_of(MEASURED / "2026-11-28-h200.json"), []
    for batch, keys in ((1, 512), (1, 2048), (8, 512), (8, 2048)):
        read, ours, eager = (known[model, batch, keys][way] for way in ("limit", "ours", "eager"))
        compiled = known[model, batch, keys].get("compiled")
        better = [f"{compiled:.1f} | {compiled / ours:.2f}" if compiled else "|"]
        cells = [
            f"{batch}, {keys:,}",
            f"{read:.1f}",
            f"{ours:.1f}",
            f"{ours / read:.2f}",
            f"{eager:.1f}",
            *better,
        ]
        lines.append(" | ".join(cells) + " |")
    page = (ROOT / "docs" / "decode.md").read_text(encoding="utf-8")
    block = page.partition(f"{name} (")[2].partition("| ")[2].splitlines()[:4]
    assert [row.removeprefix("| | ") for row in block] == lines


def test_notebook_24_shows_what_was_registered_and_measured():
    known = times_of(MEASURED / "2026-11-28-h200.json")
    for times in decode_times():
        ways = known[times.model, times.sequences, 512]
        assert times[2:] == tuple(
            round(ways.get(way, 0), 1) for way in ("limit", "ours", "eager", "compiled")
        )
    read = {key: ways["limit"] for key, ways in times_of(CUTS).items()}
    errors = {error.case: error for error in errors_of(STEPS / "2026-11-28-mended", CUTS) if not error.cut}
    for step in registered_steps():
        (error,) = [
            errors[case] for case in errors if f"{step.model} batch {step.sequences} keys 2048" in case
        ]
        layers = int(error.case.split()[-1])
        taken = (error.predicted / layers, error.measured / layers)
        whole = (read[step.model, step.sequences, 2048], *taken)
        assert step[2:] == tuple(round(us, 1) for us in whole)
