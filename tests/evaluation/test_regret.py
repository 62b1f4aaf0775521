"""The regret of tuning, from a file of measured plans; and the plans that are listed beforehand."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.evaluation.tuning_regret import regrets
from wavesim.model.device import load
from wavesim.tuning.candidates import listed_plans
from wavesim.workloads.catalogue import workload

TOKENS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096)


def test_at_least_24_plans_are_listed_at_every_size():
    for tokens in TOKENS:
        plans = listed_plans(workload("gpt3-mlp", tokens))
        assert len(plans) >= 24
        assert {"stream row", "row row", "tile grouped:4"} <= set(plans)


def test_the_regret_is_the_picked_plans_time_over_the_fastest(tmp_path):
    plans = listed_plans(workload("gpt3-mlp", 512))
    cases = [
        {
            "workload": "gpt3-mlp",
            "tokens": 512,
            "tile": "128x256",
            "name": name,
            "rounds_ns": [time, time + 2, time + 4],
        }
        for time, name in enumerate(plans, start=1_000)
    ]
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"cases": cases}))
    (found,) = regrets(path, load("h200"))
    assert (found.plans, found.fastest) == (28, "stream row")
    measured = {case["name"]: case["rounds_ns"][1] for case in cases}
    assert found.regret_points == pytest.approx(100 * (measured[found.picked] / 1_002 - 1))
    assert found.over_stream_points == found.regret_points


def test_a_file_without_measured_plans_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(RecordingError, match="no results of tuned plans"):
        regrets(path, load("h200"))
