"""The shipped H200 recordings: complete, and obeying the hardware's rules."""

import pytest
from trace_invariants import violations

from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync
from wavesim.predict.prediction import predict_from_kernel_times
from wavesim.recordings.published_kernels import KernelChoice, llama_tile_policy, mlp_pair
from wavesim.recordings.shipped import RecordedCase, cases

SIZES = range(256, 3073, 256)
CASES = cases()


def test_every_size_is_recorded_in_two_tiles_and_two_orders_under_three_plans():
    present = {(case.tile, case.tokens, case.order) for case in CASES}
    for tile in ("128x256", "128x128"):
        for order in ("row", "grouped:8"):
            assert {(tile, tokens, order) for tokens in SIZES} <= present
    assert all({"stream", "row", "tile"} <= set(case.paths) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recordings_obey_the_rules_of_the_hardware(case: RecordedCase):
    for plan in case.paths:
        assert violations(case.trace(plan)) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recordings_say_what_was_measured_on_what_and_when(case: RecordedCase):
    for plan in case.paths:
        head = case.trace(plan).header
        assert head.source == "measured"
        assert "H200" in head.device["name"]
        assert all((head.date, head.commit, head.versions))
        assert len(head.rounds_ns) >= 20
        assert all((head.clock_mhz, head.power_w))
        assert case.trace(plan).cycles is not None


@pytest.mark.parametrize(
    ("heights", "rows_of_second"), [((128, 256), {0, 1}), ((256, 128), {0}), ((128, 128), {0})]
)
def test_llamas_second_gemm_reads_gate_and_value_rows_that_overlap_its_own_whatever_the_heights(
    heights, rows_of_second
):
    first, second = (KernelChoice(height, 128, 32, 64, 64, 32, 3, 1) for height in heights)
    pipeline = mlp_pair("llama", 2_048, first, second)
    (dependency,) = pipeline.dependencies
    read = {tile for need in dependency.needs for _, _, tile in need.walk(need.box(0, 0))}
    columns = pipeline.stages[0].grid.x
    assert read == {(column, row) for column in range(columns) for row in rows_of_second}
    plan = SemaphoreSync(llama_tile_policy())
    times = predict_from_kernel_times(pipeline, plan, load("a100-80gb"), {"gemm1": 900_000, "gemm2": 500_000})
    assert -20 < times[1] < 30
