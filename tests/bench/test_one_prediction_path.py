"""What is scored is what a user sees: `validate` and `compare` predict a shipped case alike."""

import pytest

from wavesim.bench.recorded_cases import predictions_of_case
from wavesim.comparison import compare
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.workloads.catalogue import parse_tile, workload

SIZES = (768, 1536, 2304)  # the sizes that the first picture of the README shows
SAMPLE = [case for case in cases() if case.tokens in SIZES]


@pytest.mark.parametrize("case", SAMPLE, ids=[case.name for case in SAMPLE])
def test_the_value_that_is_scored_is_the_value_that_compare_shows(case: RecordedCase):
    scored = {one.plan: one for one in predictions_of_case(case) if one.source == "own"}
    assert scored
    pipeline = workload(case.workload, case.tokens, parse_tile(case.tile))
    plans = [parse_plan(word, case.order) for word in ("stream", *scored)]
    shown = compare(pipeline, plans, load(case.device))
    for row in shown.rows[1:]:
        assert row.predicted_points == pytest.approx(scored[row.plan].predicted, abs=1e-9)
        assert row.measured_points == scored[row.plan].measured
        assert row.forecast.kind == scored[row.plan].kind
