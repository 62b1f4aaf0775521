"""The table of kernels that stay: made from results, checked by hand, and the page as committed."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.evaluation import staying_page
from wavesim.evaluation.marked_block import with_marked_block
from wavesim.evaluation.staying_page import block, dealt_ns, newest_staying, queued_ns, read_staying

FILE = {
    "date": "2026-01-01T00:00:00+00:00",
    "commit": "abcdef012",
    "device": "made up",
    "addition_bytes": 4_000_000,
    "additions_ns": {"a block per tile": [1_000, 3_000, 2_000]},
    "each_wait_ns": {"launches": 800.0},
    "task_ns": [5_000, 1_000, 1_000, 5_000, 1_000, 1_000],
    "tasks_ns": {"dealt out": [10_500], "queue": [6_500]},
}


def written(tmp_path, **changed):
    path = tmp_path / "staying.json"
    path.write_text(
        json.dumps({name: value for name, value in {**FILE, **changed}.items() if value is not None})
    )
    return path


def test_the_times_by_tasks_alone_are_those_one_finds_by_hand():
    tasks = FILE["task_ns"]
    assert dealt_ns(tasks, 3) == 10_000  # block 0 has both long ones
    assert queued_ns(tasks, 3) == 6_000  # the second long one begins at 1,000


def test_results_become_rows_with_their_provenance(tmp_path):
    lines = block(read_staying(written(tmp_path))).splitlines()
    assert lines[0] == "Measured on one made up, 2026-01-01, commit abcdef0; medians."
    assert "| two vectors added by a block per tile | 2 µs, 2.00 TB/s | |" in lines
    assert "| one of many launches | 800 ns | |" in lines
    assert "| 6 unequal tasks, dealt out | 10 µs | 10 µs |" in lines
    assert "| 6 unequal tasks, queue | 6 µs | 6 µs |" in lines


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tasks_ns": None}, "field 'tasks_ns' is missing"),
        ({"tasks_ns": {"queue": [1]}}, "no 'dealt out'"),
        ({"task_ns": [1, 2]}, "no two long tasks"),
        ({"additions_ns": {"x": [0]}}, "x is 0"),
        ({"each_wait_ns": []}, "no attribute 'items'"),
    ],
)
def test_a_file_that_is_no_staying_result_is_refused(tmp_path, changed, said):
    with pytest.raises(RecordingError, match=said):
        read_staying(written(tmp_path, **changed))


def test_a_page_without_marks_is_refused():
    with pytest.raises(RecordingError, match="staying: begin"):
        with_marked_block(staying_page.PAGE, "no marks", "staying", "table")


def test_the_page_has_the_newest_results_or_says_that_there_are_none():
    page = staying_page.PAGE.read_text(encoding="utf-8")
    inner = block(newest_staying())
    assert with_marked_block(staying_page.PAGE, page, "staying", inner) == page, "run: staying_page"
    assert (newest_staying() is None) == ("None of this has been measured yet" in page)
