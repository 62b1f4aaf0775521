"""The latency lab's file: read or refused with a reason, and scored with nothing but its latency and peak."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.sm.loads import LoadLoop, simulated_share
from wavesim.sm.measured_loads import FILE, read_loads, shipped_loads

MOST_ERROR, LEAST_POINTS = 0.10, 12


def made_up(**changes):
    loops = [(4, 1), (16, 1), (16, 2), (64, 4)]
    found = {
        "date": "2000-01-01",
        "device": {"name": "made up", "sm_count": 132, "clock_hz": 2_000_000_000},
        "bus_bits": 6144,
        "latency_ns": [440, 450, 460],
        "peak_bytes_per_s": 4.4e12,
        "peak_source": "invented",
        "points": [
            {"warps": w, "loads": n, "lane_bytes": 16, "bytes": 10**9, "rounds_ns": [2e6, 1e6, 3e6]}
            for w, n in loops
        ],
    }
    return found | changes


def written(tmp_path, **changes):
    path = tmp_path / "lab.json"
    path.write_text(json.dumps(made_up(**changes)))
    return path


def test_a_file_gives_medians_and_a_simulation_of_every_point(tmp_path):
    found = read_loads(written(tmp_path))
    assert found.latency_ns == 450
    assert [point.bytes_per_s for point in found.points] == [5e11] * 4
    part = found.machine.slice_of(132, 192)
    assert (found.machine.latency_cycles, found.machine.channels) == (900, 192)
    expected = simulated_share(LoadLoop(16, 2), part) * 4.4e12
    assert found.simulated_bytes_per_s[2] == pytest.approx(expected)
    assert found.errors[2] == pytest.approx(expected / 5e11 - 1)
    assert found.shares[0] == (2048, pytest.approx(5e11 / 4.4e12))
    assert len(found.table().splitlines()) == 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"points": []}, "points is 0"),
        ({"points": [{"warps": 4}]}, "field 'rounds_ns' is missing"),
        ({"bus_bits": 0}, "bus_bits is 0"),
        ({"latency_ns": ["fast"]}, "latency_ns is 'fast'"),
        ({"device": "none"}, "not a file of latency_lab"),
        ({"latency_ns": []}, "not a file of latency_lab"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_name(tmp_path, changes, said):
    with pytest.raises(RecordingError, match=said) as caught:
        read_loads(written(tmp_path, **changes))
    assert "lab.json" in str(caught.value)


@pytest.mark.skipif(not FILE.is_file(), reason="the latency lab was not measured yet")
def test_the_simulation_is_within_a_tenth_of_what_was_measured_at_twelve_points_and_more():
    """The others have few warps with four loads each, and are named: nothing else may join them."""
    found = shipped_loads()
    pairs = zip(found.points, found.errors, strict=True)
    off = {(one.loop.warps, one.loop.loads) for one, error in pairs if abs(error) > MOST_ERROR}
    assert len(found.points) - len(off) >= LEAST_POINTS
    assert off == {(4, 4), (8, 4)}
    assert max(map(abs, found.errors)) < 0.15
