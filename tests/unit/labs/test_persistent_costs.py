"""Costs of steps that stay or are launched: what each way pays for, and parts from a device's data."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.labs.wavernn import LAYERS, PUBLISHED_CUT, RECURRENT, StepCosts, estimated_costs
from wavesim.model.device import load

PARTS = StepCosts(
    launch_ns=1000,
    barrier_ns=600,
    recurrent_ns=500,
    output_ns=400,
    recurrent_batch_ns=2000,
    output_batch_ns=1600,
    recurrent_weights_ns=300,
    output_weights_ns=200,
    recurrent_library_ns=1800,
    output_library_ns=1200,
    throughput_share=0.5,
)


def test_who_stays_pays_a_barrier_and_no_weights_and_who_is_launched_both():
    output = LAYERS[1]
    assert [PARTS.block_ns(RECURRENT, way) for way in ("persistent", "both", "pipeline")] == [500, 500, 800]
    assert [PARTS.block_ns(output, way) for way in ("both", "pipeline", "batch", "library")] == [
        400,
        600,
        1800,
        1200,
    ]
    assert [PARTS.between_ns(way) for way in ("library", "pipeline", "both")] == [1000, 1000, 600]


@pytest.mark.parametrize(
    ("way", "total_ns"),
    [
        ("library", 2 * (1800 + 4 * 1200) + 9 * 1000),
        ("batch", 2 * (2300 + 4 * 1800) + 9 * 1000),
        ("persistent", 10 * (500 + 4 * 400) + 49 * 600),
        ("pipeline", 10 * 800 + 4 * 600 + 13 * 1000),  # the four last cycles have no R
        ("both", 10 * 500 + 4 * 400 + 13 * 600),
    ],
)
def test_two_steps_by_each_way(way, total_ns):
    assert PARTS.total_ns(way, 2) == total_ns


def test_two_blocks_on_one_sm_share_what_is_no_latency():
    assert PARTS.sharing[:3] == (1.0, 1 / 1.5, 1 / 2)


def test_a_device_without_constants_takes_the_default_ones_and_says_so():
    assert "default device" in estimated_costs(load("t4"), "int8", PUBLISHED_CUT).source
    own = estimated_costs(load("h200"), "int8").source
    assert "not measured" in own
    assert "default" not in own


def test_int8_moves_half_the_weights_and_multiplies_twice_as_fast():
    int8, fp16 = (estimated_costs(load("h200"), dtype) for dtype in ("int8", "fp16"))
    assert abs(fp16.recurrent_weights_ns - 2 * int8.recurrent_weights_ns) <= 1
    assert int8.recurrent_ns < fp16.recurrent_ns < 2 * int8.recurrent_ns


def test_parts_that_cannot_be_are_refused():
    with pytest.raises(DescriptionError, match="dtype is 'fp8'"):
        estimated_costs(load("h200"), "fp8")
    with pytest.raises(DescriptionError, match="barrier_ns is -1"):
        StepCosts(1, -1, 1, 1, 1, 1, 1, 1, 1, 1)
    with pytest.raises(DescriptionError, match="throughput_share is 2"):
        StepCosts(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)
