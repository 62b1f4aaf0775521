"""Registered crossovers against rounds that are made up, so that every figure can be checked by hand."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.evaluation.crossover_runs import (
    flip_of,
    read_registered,
    register,
    score_family,
    score_run,
    sizes_to_measure,
)

CELLS = [(128 * i + 1, 128 * (i + 1)) for i in range(8)]
REGISTERED = {
    "name": "a family",
    "order": "row",
    "flip": 385,
    "table": [{"m_from": 1, "m_to": 384, "plan": "stream"}, {"m_from": 385, "m_to": 1024, "plan": "pdl+row"}],
    "sizes": [256, 512],
    "gains": [
        {
            "m_from": first,
            "m_to": last,
            "points": {"stream": 0.0, "pdl": 0.1, "pdl+row": 10.0 * (first > 384)},
        }
        for first, last in CELLS
    ],
}


def rounds(stream, pdl, row):
    return {"stream": [stream] * 4, "pdl": [pdl] * 4, "pdl+row": [row] * 4}


def test_the_flip_is_the_first_size_at_which_semaphores_gain_a_point_over_the_better_boundary():
    assert flip_of({1: {"stream": 0, "pdl": 2, "row": 2.5}, 129: {"stream": 0, "pdl": 2, "row": 3.5}}) == 129
    assert flip_of({1: {"stream": 0, "pdl": 0, "persistent": 1}}) == 1
    assert flip_of({1: {"stream": 0, "stream-k": 30}}) is None


def test_flip_and_regret_of_a_family():
    found = score_family(
        REGISTERED, {250: rounds(100, 100, 110), 380: rounds(100, 99, 90), 510: rounds(100, 99, 95)}
    )
    assert (found.registered_flip, found.measured_flip) == (385, 257)
    assert found.factor == pytest.approx(385 / 257)
    assert found.regrets == pytest.approx({250: 0, 380: 100 * (100 / 90 - 1), 510: 0})
    assert found.rivals["pdl+row"][250] == pytest.approx(10)


def test_a_flip_that_is_missing_on_one_side_is_wrong_and_on_both_right():
    never = {m: rounds(100, 99, 110) for m in (250, 510)}
    assert score_family(REGISTERED, never).factor == float("inf")
    assert score_family({**REGISTERED, "flip": None}, never).factor == 1.0


def test_noise_does_not_choose_the_fastest_twice():
    """Two equal ways whose rounds differ by turns: each is fastest in one half, and slowest in the other."""
    ways = {"stream": [100, 90, 100, 90], "pdl+row": [90, 100, 90, 100]}
    found = score_family(REGISTERED, {250: ways})
    assert found.unbiased[250] == pytest.approx((0 + 0) / 2, abs=12)
    assert found.regrets[250] == 0


def test_sizes_are_all_cells_up_to_beyond_the_flip_and_a_coarse_grid_off_the_round_numbers():
    found = sizes_to_measure(CELLS, 385)
    assert len(found) == 6
    assert all(any(first <= m <= last for first, last in CELLS) for m in found)
    assert len(sizes_to_measure([(64 * i + 1, 64 * i + 64) for i in range(64)], None)) <= 20


def test_a_run_is_scored_against_its_own_predictions_only(tmp_path):
    path, measured = tmp_path / "registered.json", tmp_path / "measured.json"
    stamp = register(path, [REGISTERED], {"device": "h200"})
    sizes = [
        {"m": 250, "rounds_ns": rounds(100, 100, 110), "wrong": []},
        {"m": 510, "rounds_ns": rounds(100, 99, 95), "wrong": ["persistent"]},
        {"m": 900, "rounds_ns": {}, "failed": "DeviceError: gone"},
    ]
    document = {"registered_sha256": stamp, "families": [{"name": "a family", "sizes": sizes}]}
    measured.write_text(json.dumps(document))
    score = score_run(path, measured)
    assert score.close_share == 1.0
    assert score.regret_percent == 0.0
    assert score.failures == ("a family M=900: DeviceError: gone", "a family M=510: persistent wrong")
    assert "100%" in score.lines()[0]
    measured.write_text(json.dumps({**document, "registered_sha256": "other"}))
    with pytest.raises(RecordingError, match="other predictions"):
        score_run(path, measured)


def test_predictions_that_were_changed_afterwards_are_refused(tmp_path):
    path = tmp_path / "registered.json"
    register(path, [REGISTERED], {})
    path.write_text(path.read_text().replace('"flip":385', '"flip":257'))
    with pytest.raises(RecordingError, match="changed after"):
        read_registered(path)
