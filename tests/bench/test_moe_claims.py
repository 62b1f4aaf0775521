"""What is claimed of MoE layers is what the committed measurements say."""

from pathlib import Path

import pytest

from wavesim.bench.claims import load_claims
from wavesim.bench.moe_results import STREAM, TILE_PLANS, errors, figures, half_widths, read_cases
from wavesim.bench.registration import registered
from wavesim.predict.intervals import committed_widths
from wavesim.teaching.expert_rows import right_signs
from wavesim.teaching.measured_layers import experts_layers

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "gpu" / "results" / "moe-layers" / "2026-11-28"
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


def line(case):
    """A row of the page's table."""
    times = (case.usual, case.ours[STREAM], case.torch, case.triton, case.roof)
    return " | ".join([f"| {case.name.split()[0]} | {case.tokens:,}", *(f"{us:,.0f}" for us in times)]) + " |"


def test_the_page_has_a_line_for_each_layer_with_experts_alike_but_those_of_64_tokens():
    shown = [case for case in CASES if case.name.endswith("skew 0") and case.tokens != 64]
    assert "\n".join(map(line, shown)) in (ROOT / "docs" / "moe.md").read_text(encoding="utf-8")


def saved(plan, cases):
    """Least and most percent of a plan's time that the faster plan with semaphores saves."""
    all_saved = [100 * (1 - min(case.ours[tile] for tile in TILE_PLANS) / case.ours[plan]) for case in cases]
    return f"{min(all_saved):.1f} to {max(all_saved):.1f} %"


def test_the_page_says_what_semaphores_save():
    few, more = ([case for case in CASES if (case.tokens == 1) is is_few] for is_few in (True, False))
    page = " ".join((ROOT / "docs" / "moe.md").read_text(encoding="utf-8").split())
    assert f"saves {saved(STREAM, few)} of the time of the same kernels one after the other" in page
    assert f"for one token, and {saved(STREAM, more)} for 16 and more" in page
    early = "persistent+pdl+boundary"
    assert f"by dependent launch it saves {saved(early, few)} and {saved(early, more)}" in page
    lost = {case.name for case in CASES if case.gain < 1}
    assert lost == {"mixtral-8x7b 4096 skew 0", "mixtral-8x7b 4096 skew 1"}


def test_notebook_25_shows_what_was_registered_and_measured():
    known = {(entry.case, entry.plan): entry.points for entry in registered(FOLDER, "costs").values()}
    for layer, case in zip(experts_layers(), CASES, strict=True):
        assert f"{layer.model} {layer.tokens} skew {layer.skew:g}" == case.name
        times = [case.roof, *(case.ours[plan] for plan in (STREAM, *TILE_PLANS))]
        gains = [known[case.name, plan] for plan in TILE_PLANS]
        assert layer[3:] == tuple(round(value, 1) for value in (*times, *gains))
    assert right_signs() == CLAIMS["moe.gain_sign_percent"]
