"""The results file: foreign files stay as they are, several writers lose nothing, and all of it is said."""

import errno
import fcntl
import json
import os
import subprocess
import sys

import pytest
from live_writers import write_and_kill

from wavesim.errors import OutputError, RecordingError
from wavesim.safe_io import writing
from wavesim.tuning import results_file
from wavesim.tuning.results_file import ResultsFile

LINE = b'{"key": "ab", "plan": "row", "predicted_ns": 12}\n'
FOREIGN = {
    "minified JSON": b'{"name":"wavesim","version":3,"scripts":{}}',
    "minified JSON with a key": b'{"key": "abc", "plans": [1, 2, 3]}',
    "JSON with both fields": b'{"key":"abc","predicted_ns":12,"mine":[1]}',
    "the beginning of JSON": b"{",
    "the beginning of JSON with a key": b'{"key": "abc',
    "text": b"dear diary",
    "binary": bytes(range(256)) * 8,
    "NULs": bytes(4096),
    "a result and then another text": LINE + b"dear diary",
    "a result and then minified JSON": LINE + b'{"key": "abc", "plan": ["x"]}',
    "nested lists": b"[" * 50_000 + b"\n",
    "a number of 400 digits": LINE[:-3] + b"2" * 400 + b"}\n",
    "a truth value for a time": LINE.replace(b"12", b"true"),
    "a negative time": LINE.replace(b"12", b"-12"),
    "one endless line": b'{"key": "' + b"a" * 300_000,
    "a line too long among results": LINE * 3 + LINE.replace(b"row", b"a" * 100_001) + LINE * 3,
    "a line too long at the end": LINE * 3 + LINE.replace(b"row", b"a" * 100_001),
    "a line too long that was cut off": LINE * 3 + b'{"key": "ab", "plan": "' + b"a" * 100_001,
    "a blank line and then another text": b"\n{",
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_in_one_line_and_stays_as_it_is(tmp_path, data):
    path = tmp_path / "mine"
    path.write_bytes(data)
    with pytest.raises(RecordingError) as caught:
        ResultsFile(path)
    assert path.read_bytes() == data
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("end", range(1, len(LINE) - 1))
def test_a_line_of_ours_that_was_cut_off_anywhere_is_dropped(tmp_path, end):
    path = tmp_path / "results.jsonl"
    path.write_bytes(LINE + LINE[:end])
    ResultsFile(path).close()
    assert path.read_bytes() == LINE


@pytest.mark.parametrize("plan", ["a } in a name", 'a "quote" \\ and é', "{", "é" * 40])
def test_odd_names_of_plans_are_cut_off_and_dropped_as_others_are(tmp_path, plan):
    path = tmp_path / "results.jsonl"
    file = ResultsFile(path)
    file.append("ab", plan, None)
    file.close()
    whole = path.read_bytes()
    for end in range(1, len(whole) - 1):
        path.write_bytes(whole + whole[:end])
        again = ResultsFile(path)
        again.close()
        assert path.read_bytes() == whole
        assert again.known == {"ab": None}


def test_a_last_result_that_lacks_only_its_line_break_is_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(LINE + LINE.replace(b"ab", b"cd").rstrip())
    file = ResultsFile(path)
    file.append("ef", "tile", 13)
    file.close()
    assert file.known == {"ab": 12, "cd": 12, "ef": 13}
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["ab", "cd", "ef"]


@pytest.mark.parametrize("letter", ["n", "\0", "\U0001f600"])
def test_a_plan_of_any_name_can_be_read_again_and_so_can_what_follows(tmp_path, letter):
    path = tmp_path / "results.jsonl"
    file = ResultsFile(path)
    for key in ("ab", "cd", "ef"):
        file.append(key, letter * 100_100, 12)
    file.close()
    again = ResultsFile(path)
    again.close()
    assert again.known == {"ab": 12, "cd": 12, "ef": 12}
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("blanks", [b"\n", b"\r\n\r\n", b"  ", b" \n\t", b"\n\n  \n"])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_blanks_that_an_editor_leaves_are_no_result_and_harm_none(tmp_path, end, blanks):
    path = tmp_path / "results.jsonl"
    path.write_bytes(LINE.rstrip() + end + blanks)
    file = ResultsFile(path)
    file.append("cd", "tile", 13)
    file.close()
    again = ResultsFile(path)
    again.close()
    assert file.known == again.known == {"ab": 12, "cd": 13}


def test_lines_of_another_writer_are_kept_and_become_known(tmp_path):
    path = tmp_path / "results.jsonl"
    first, second = ResultsFile(path), ResultsFile(path)
    for number in range(50):
        (first, second)[number % 2].append(f"{number}", "row", number)
    third = ResultsFile(path)
    for file in (first, second, third):
        file.close()
    assert third.known == {f"{number}": number for number in range(50)}
    assert first.known == {key: number for key, number in third.known.items() if number < 49}


@pytest.mark.parametrize("wrote", [0, 7])
def test_a_write_that_fails_takes_back_its_own_bytes_and_no_others(tmp_path, monkeypatch, wrote):
    path = tmp_path / "results.jsonl"
    first, second = ResultsFile(path), ResultsFile(path)
    for number in range(50):
        second.append(f"other-{number}", "row", number)
    write, calls = os.write, []

    def full(number, data):
        calls.append(number)
        if len(calls) == 1 and wrote:
            return write(number, bytes(data)[:wrote])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(RecordingError, match="its 50 complete results are kept"):
            first.append("one", "row", 1)
    second.append("other-50", "row", 50)
    first.append("one", "row", 1)
    first.close()
    second.close()
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert keys == [*(f"other-{number}" for number in range(51)), "one"]


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("data", [b"", LINE])
def test_a_file_that_another_process_keeps_locked_is_refused_and_the_process_named(
    tmp_path, monkeypatch, data
):
    path = tmp_path / "locked"
    path.write_bytes(data)
    monkeypatch.setattr(writing, "LONGEST_WAIT_S", 0.1)
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(OutputError, match=rf"locked: process {holder.pid} has held its lock for 0.1 s"):
            ResultsFile(path)
        holder.kill()
    assert path.read_bytes() == data


def test_where_files_cannot_be_locked_it_is_said_and_nothing_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    path = tmp_path / "results.jsonl"
    path.write_bytes(LINE)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OutputError, match="its file system has no locks"):
        ResultsFile(path)
    assert path.read_bytes() == LINE


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero", "/dev/null"):
        with pytest.raises(RecordingError, match="cannot be opened for results"):
            ResultsFile(type(tmp_path)(path))


@pytest.mark.parametrize("how", ["removed", "replaced", "cut"])
def test_a_file_that_goes_away_under_a_sweep_ends_it_with_an_error(tmp_path, how):
    path = tmp_path / "results.jsonl"
    file = ResultsFile(path)
    file.append("ab", "row", 12)
    if how == "cut":
        os.truncate(path, 3)
    else:
        path.unlink()
    if how == "replaced":
        path.write_bytes(LINE)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(RecordingError, match="was removed, replaced or cut"):
        file.append("cd", "row", 13)
    file.close()
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_file_too_large_for_results_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "disk.img"
    path.touch()
    os.truncate(path, results_file.MAX_BYTES + 1)
    with pytest.raises(RecordingError, match="larger than"):
        ResultsFile(path)
    assert path.stat().st_size == results_file.MAX_BYTES + 1


@pytest.mark.slow
def test_two_live_writers_that_are_killed_at_random_lose_no_line(tmp_path):
    outcome = write_and_kill(tmp_path, appends=500, least_kills=6)
    assert outcome.reported >= 500
    assert outcome.kills >= 6
    assert (outcome.lost, outcome.torn) == (0, 0)
