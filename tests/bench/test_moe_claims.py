"""What is claimed of MoE layers is what the committed measurements say."""

from pathlib import Path

import pytest

from wavesim.bench.claims import load_claims
from wavesim.bench.moe_results import TILE_PLANS, errors, figures, half_widths, read_cases
from wavesim.predict.intervals import committed_widths

FOLDER = Path(__file__).parents[2] / "gpu" / "results" / "moe-layers" / "2026-11-28"
CASES = read_cases(FOLDER / "h200.json")
CLAIMS = {claim.name: claim.value for claim in load_claims()}


def test_all_cases_of_the_list_are_there():
    assert len(CASES) == 48
    assert {case.tokens for case in CASES} == {1, 16, 64, 256, 1024, 4096}


@pytest.mark.parametrize(
    "name", [*figures(CASES), "gain_error_p90", "gain_sign_percent", "time_error_p90_percent"]
)
def test_a_claim_is_the_measurement(name):
    value = (figures(CASES) | errors(CASES, FOLDER))[name]
    digits = 1 if name.endswith(("percent", "p90")) else 2
    assert CLAIMS[f"moe.{name}"] == round(value, digits)


def test_intervals_are_as_wide_as_the_errors_of_the_registered_gains_ask_for():
    widths = half_widths(CASES, FOLDER)
    assert set(widths) == set(TILE_PLANS)
    for plan, width in widths.items():
        known = committed_widths().kinds[f"layer, mixture of experts, {plan}"]
        assert known.half_width_over_spread == pytest.approx(width, abs=0.02)
        assert known.cases == len(CASES)
