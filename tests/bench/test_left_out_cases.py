"""Predictions on a device that nobody characterised: of what they are made, and that they see the cliff."""

from wavesim.bench.left_out_cases import find_left_out, predictions_of_left_out
from wavesim.costs.device_costs import own_file
from wavesim.recordings.split import split_of

CASES = {(case.size.tokens, case.order, case.plan): case for case in find_left_out()}


def test_every_case_has_the_trace_of_its_own_size_and_order():
    for case in find_left_out():
        head = case.stream.header
        assert head.plan == "stream"
        assert set(head.orders.values()) == {case.order}
        grids = [(stage.grid.x, stage.grid.y, stage.grid.z) for stage in case.size.pipeline().stages]
        assert [tuple(stage.grid) for stage in head.stages] == grids


def test_no_memory_of_the_device_was_measured_or_fitted_and_all_its_cases_are_test_cases():
    for device in {case.device for case in CASES.values()}:
        assert not [name for name in own_file(device).constants if name.startswith("memory.")]
    found = predictions_of_left_out(CASES[1_250, "row", "row"])
    assert [one.split for one in found] == ["test"]
    assert split_of(found[0].group) == "development"  # the hash alone would say otherwise
