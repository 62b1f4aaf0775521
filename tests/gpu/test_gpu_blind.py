"""The measurer of blind runs on a real GPU: small sizes, both backends, every kind of plan."""

import pytest
from trace_invariants import violations

from wavesim.bench.blind_runs import measured_word
from wavesim.bench.blind_sizes import BASELINE, RIVALS, SEMAPHORES, BlindSize

pytestmark = pytest.mark.gpu

WIDE = ((128, 256), (128, 256))
SIZES = (
    BlindSize("portable", "gpt3-mlp", 200, WIDE),
    BlindSize("portable", "gpt3-mlp", 200, ((64, 64), (64, 64)), (2, 1)),
    BlindSize("hopper-per-tile", "llama-mlp", 200, WIDE, plans=RIVALS),
    BlindSize("hopper", "llama-mlp", 200, WIDE),
)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_size_is_measured_before_and_after_its_predictions(runner, size):
    from wavesim_gpu.bench.kinds.gemms import GpuMeasurer

    if size.stored.backend != "portable" and runner.device.compute_capability != (9, 0):
        pytest.skip("not a Hopper GPU")
    measurer = GpuMeasurer("test", rounds=3)
    streams = measurer.streams(size)
    assert set(streams) == set(size.orders)
    if not size.is_persistent:
        assert [violations(trace) for trace in streams.values()] == [[], []]
    found = measurer.compare(size, size.plans, 0, "f" * 64)
    assert found.missing == {}
    expected = {(order, word) for order in size.orders for word in (BASELINE, *size.plans)}
    assert set(found.comparison.rounds) == expected
    traced = [word for word in size.plans if word in (*SEMAPHORES, "pdl")]
    assert [measured_word(trace) for trace in found.traces] == traced * 2
    assert {info.backend for trace in found.traces for info in trace.header.stages} == {size.stored.backend}
