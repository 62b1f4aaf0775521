"""A recording of WaveRNN's tests: medians, errors of predictions, files that are none, and none at all."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.labs.wavernn import WAYS
from wavesim.recordings.wavernn_times import recorded_wavernn
from wavesim.teaching.staying import five_tests_table

ENTRY = {
    "device": "h200",
    "date": "2026-11-23T10:00:00+00:00",
    "commit": "abc",
    "types": {
        "int8": {
            "rounds_ns": {"library": [400_000, 420_000, 380_000], "both": [200_000], "words": [100_000]},
            "predicted_ns": {"library": 380_000, "both": 210_000},
        }
    },
}


def written(path, entry):
    path.write_text(json.dumps(entry))
    return path


def test_medians_and_errors_of_a_recording(tmp_path):
    found = recorded_wavernn(written(tmp_path / "a.json", ENTRY))
    assert found.median_ns("int8") == {"library": 400_000, "both": 200_000, "words": 100_000}
    assert found.errors("int8") == pytest.approx({"library": -0.05, "both": 0.05})
    assert found.median_ns("fp16") == {}


def test_a_table_shows_what_was_measured_and_says_of_the_rest_that_it_was_not(tmp_path):
    found = recorded_wavernn(written(tmp_path / "a.json", ENTRY))
    text = repr(five_tests_table("int8", found))
    assert "measured, h200, 2026-11-23" in text
    assert text.count("not measured yet") == 6  # three tests' parts and times
    rows = {line.split()[-1]: line for line in text.splitlines()}
    assert {"400", "200", "100"} <= rows.keys()
    assert "380" in rows["400"]
    assert "210" in rows["200"]
    assert "without a barrier" in rows["100"]
    assert "one cluster" not in text


def test_the_shipped_run_is_predicted_from_its_parts_and_faster_than_the_library():
    found = recorded_wavernn()
    for dtype in ("fp16", "int8"):
        errors, ns = found.errors(dtype), found.median_ns(dtype)
        assert errors.keys() == set(WAYS)
        assert max(map(abs, errors.values())) < 0.15
        assert ns["library"] / ns["both"] >= 1.5
    assert ns["cluster"] < ns["words"] < ns["both"]


def test_no_recording_is_none(tmp_path):
    assert recorded_wavernn(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    "change",
    [
        {"types": 3},
        {"types": {"int8": {"rounds_ns": {}}}},
        {"types": {"int8": {"rounds_ns": {"both": []}, "predicted_ns": {}}}},
        {"types": {"int8": {"rounds_ns": {"both": [1]}, "predicted_ns": {"library": 1}}}},
        {"types": {"int8": {"rounds_ns": {"both": [0]}, "predicted_ns": {"both": 1}}}},
        {"device": 7},
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, change):
    with pytest.raises(RecordingError, match="not a recording"):
        recorded_wavernn(written(tmp_path / "a.json", ENTRY | change))
