"""What notebook 13 shows: the lines that change, and the registered pairs, recorded or not yet."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.teaching.triton_pair import changed_lines, registered_pairs


def test_the_difference_is_of_the_kernels_alone_and_counts_what_is_new():
    found = changed_lines()
    assert found.count == sum(line.startswith("+") for line in found.lines) - 1
    assert not any("import" in line for line in found.lines)
    assert "down_tile_when_ready(sync)" in repr(found)


def test_outside_a_checkout_the_examples_are_named_as_missing(tmp_path):
    with pytest.raises(RecordingError, match=r"plain_triton\.py: No such file.*a checkout"):
        changed_lines(tmp_path)


def test_pairs_that_were_measured_are_shown_and_none_is_said_to_be_none(tmp_path):
    path = tmp_path / "pairs.json"
    assert "none is recorded yet" in repr(registered_pairs(path))
    row = {"name": "pair", "stream_us": 400.0, "plan": "pdl+row row", "points": 9.9, "low": 7.0, "high": 12.0}
    rows = [{**row, "is_advised": True, "measured": 8.0}, {**row, "is_advised": False, "measured": -0.4}]
    path.write_text(json.dumps({"pairs": rows}))
    assert registered_pairs(path).cells == (
        ("pair", "400.0", "pdl+row row", "+9.9", "+7.0 to +12.0", "+8.0"),
        ("pair", "400.0", "leave it", "+9.9", "+7.0 to +12.0", "-0.4"),
    )
