"""The ladders' file: read or refused with a reason, and shown where there is one."""

import json
from types import SimpleNamespace

import pytest

from wavesim.errors import RecordingError
from wavesim.model.device import load
from wavesim.sm.machine import machine_of
from wavesim.sm.measured_ladder import FILE, read_ladder, shipped_ladder
from wavesim.teaching import sums

LEAST_SHARE = 0.9


def made_up(**changes):
    steps = [
        {"name": name, "work": 10**9, "relative_error": 1e-7, "rounds_ns": [500_000, 1_000_000 // n, 400_000]}
        for n, name in ((1, "v0"), (4, "v5"))
    ]
    family = {"copy": {"bytes": 4 * 10**9, "rounds_ns": [10**6]}, "steps": steps}
    device = {"name": "made up"}
    return {
        "date": "2000-01-01",
        "device": device,
        "families": {"reduction": family, "matmul": family},
    } | changes


def written(tmp_path, **changes):
    path = tmp_path / "ladder.json"
    path.write_text(json.dumps(made_up(**changes)))
    return path


def test_a_file_gives_rates_and_shares_of_the_copy(tmp_path):
    found = read_ladder(written(tmp_path))
    first, last = found.of("reduction")
    assert (first.per_s, last.per_s) == (2e12, 2.5e12)
    assert [found.share(step) for step in (first, last)] == [0.5, 0.625]
    assert "2.00 TB/s     50 % of a copy" in found.table()
    assert "2.00 TFLOP/s" in found.table()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"families": {"reduction": {}}}, "field 'copy' is missing"),
        ({"families": []}, "not a file of ladder"),
        ({"device": {}}, "field 'name' is missing"),
        ({"families": {"r": {"copy": {"bytes": 1, "rounds_ns": [1]}, "steps": []}}}, "steps is 0"),
        ({"families": {"r": {"copy": {"bytes": 0, "rounds_ns": [1]}, "steps": []}}}, "bytes is 0"),
    ],
)
def test_another_file_is_refused_with_its_name(tmp_path, changes, said):
    with pytest.raises(RecordingError, match=said) as caught:
        read_ladder(written(tmp_path, **changes))
    assert "ladder.json" in str(caught.value)


def test_the_notebooks_table_has_what_was_measured_beside_what_is_simulated(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "shipped_ladder", lambda: read_ladder(written(tmp_path)))
    table = sums.ladder_table(load("h200")).splitlines()
    assert "2.00 TB/s threads that add" in table[2]
    assert " -  " in table[3]
    assert table[-1] == "measured on made up, 2000-01-01"
    assert sums.other_ladders().startswith("matmul")


def test_an_sm_is_simulated_with_what_was_measured_on_its_own_device_by_the_drivers_name(monkeypatch):
    loads = SimpleNamespace(device="NVIDIA H200", latency_ns=500.0, peak_bytes_per_s=4.4e12)
    monkeypatch.setattr(sums, "shipped_loads", lambda: loads)
    assert sums.machine_for(load("h200")) == machine_of(load("h200"), 500.0, 4.4e12)
    assert sums.machine_for(load("h100")) == machine_of(load("h100"))


@pytest.mark.skipif(not FILE.is_file(), reason="the ladders were not measured yet")
def test_the_last_sum_reads_at_nine_tenths_of_the_copys_rate():
    found = shipped_ladder()
    *_, last = found.of("reduction")
    assert found.share(last) >= LEAST_SHARE
    assert max(step.relative_error for step in found.steps) < 1e-5
