"""Sums, convolutions and products step by step: right at sizes that fill no block, and measured in turns."""

import pytest

pytestmark = pytest.mark.gpu

SIZES = {"reduction": (1, 4099, 1_000_003), "convolution": (3, 100_003), "matmul": (1, 130)}


@pytest.fixture
def ladder(runner):
    from wavesim_gpu.bench.labs import ladder

    return ladder


@pytest.mark.parametrize("family", SIZES)
def test_every_step_is_right_at_ragged_sizes(ladder, family):
    launcher = ladder.Launcher()
    for size in SIZES[family]:
        for one in ladder.FAMILIES[family](launcher, size):
            assert one.error() <= ladder.TOLERANCE, (one.step.kernel, size)


def test_a_family_is_measured_beside_a_copy(ladder):
    found = ladder.measure(list(ladder.reductions(ladder.Launcher(), 1 << 24)), rounds=3)
    assert [step["name"] for step in found["steps"]] == ["v0", "v1", "v2", "v3", "v4", "v5"]
    assert all(len(step["rounds_ns"]) == 3 for step in found["steps"])
    assert found["steps"][-1]["rounds_ns"] < found["steps"][0]["rounds_ns"]
    assert min(found["copy"]["rounds_ns"]) > 0


def test_a_wrong_sum_is_not_timed(ladder, monkeypatch):
    from wavesim.errors import WavesimError

    prepared = list(ladder.reductions(ladder.Launcher(), 4096))
    monkeypatch.setattr(ladder, "TOLERANCE", -1)
    with pytest.raises(WavesimError, match=r"reduce_v0: relative error .*; not timed"):
        ladder.measure(prepared)
