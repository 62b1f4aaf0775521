"""All that is measured on two GPUs, pretended: order, time, going on, failures, and what pages show."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.pretended_two_gpus import SHAPE_S, PretendedClock, PretendedRun
from wavesim.errors import DeviceError, RecordingError
from wavesim_gpu.bench.kinds.two_gpus import campaign, steps
from wavesim_gpu.bench.kinds.two_gpus.campaign import Campaign, run_command
from wavesim_gpu.bench.kinds.two_gpus.cases import shapes
from wavesim_gpu.bench.kinds.two_gpus.steps import batches, left_of, lines_of, steps_of

ROOT = Path(__file__).parents[4]
BOTH = (0, 1)


def made(folder, seconds, run=None, known=()):
    clock = PretendedClock()
    run = run or PretendedRun(clock)
    run.clock = clock
    folder.mkdir(exist_ok=True)
    return Campaign(folder, "a" * 40, BOTH, seconds, known, run=run, now=clock)


def lefts(found, taken):
    return {step.name: len(left_of(step, found.lines(step))) for step in taken}


def test_the_first_steps_are_whether_results_are_right_and_then_what_was_registered():
    names = [step.name for step in steps_of(BOTH, "kraken")]
    assert names[:4] == ["right, all-reduce", "right, reduce-scatter", "right, all-gather", "second list"]
    assert names.index("skew, all-reduce, exchange") < names.index("first list, all-reduce")
    assert names[-3:] == ["kraken, all-reduce", "kraken, reduce-scatter", "kraken, all-gather"]
    assert {step.part for step in steps_of((0, 0))} == {"right", "skew", "killed"}


def test_everything_is_measured_where_there_is_time_and_then_nothing_again(tmp_path):
    taken = steps_of(BOTH)
    found = made(tmp_path, 1e5)
    assert found.take(taken) == 0
    assert set(lefts(found, taken).values()) == {0}
    assert len(lines_of(tmp_path, steps.SECOND)) == len(shapes("second"))
    states = json.loads((tmp_path / "steps.json").read_text())
    assert {one["state"] for one in states.values()} == {"done"}
    again = made(tmp_path, 1e5)
    assert again.take(taken) == 0
    assert again.run.commands == []


def test_a_run_that_is_cut_off_goes_on_where_it_was_also_in_another_folder(tmp_path):
    taken = steps_of(BOTH)[3:4]
    first = made(tmp_path / "one", 300)
    first.take(taken)
    done = len(shapes("second")) - lefts(first, taken)["second list"]
    # 300 s less what processes take to begin: whole shapes only, and nothing is lost.
    assert 300 - 3 * SHAPE_S - 2 * steps.BEGIN_S <= done * SHAPE_S <= 300
    file = tmp_path / "one" / steps.SECOND
    file.write_text(file.read_text() + '{"part": "times", "ki')  # ended while it wrote
    second = made(tmp_path / "two", 1e5, known=[tmp_path / "one"])
    second.take(taken)
    assert len(lines_of(tmp_path / "two", steps.SECOND)) == len(shapes("second")) - done
    third = made(tmp_path / "one", 200)
    third.take(taken)
    assert len(lines_of(tmp_path / "one", steps.SECOND)) > done


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
def test_a_shape_that_fails_or_hangs_is_named_and_the_others_are_measured(tmp_path, trouble):
    taken = steps_of(BOTH)[4:6]
    bad = (1024, 14336, 8192)
    run = PretendedRun(PretendedClock(), **{trouble: [bad]})
    found = made(tmp_path, 1e4 if trouble == "fails" else 1e9, run)
    if trouble == "hangs":
        found.run = lambda words, log, results, seconds: run(words, log, results, min(seconds, 100))
    assert found.take(taken) == 1
    assert lefts(found, taken) == {step.name: 1 for step in taken}
    state = found.states["first list, all-gather"]
    reason = "RuntimeError: pretended" if trouble == "fails" else "it did not end"
    assert "1024 x 14336 x 8192 (" in state["failed"]
    assert reason in state["failed"]


def test_no_process_makes_more_memory_for_peers_than_a_gpu_has_room_for():
    (both,) = [step for step in steps_of(BOTH) if step.name == "second list"]
    found = batches(both, both.sizes)
    assert [one for part in found for one in part] == list(both.sizes)
    assert 2 <= len(found) <= 5
    sizes = [sum(steps._bytes_of(both, one) for one in part) for part in found]
    assert max(sizes) <= steps.MEMORY_BYTES


def test_results_of_other_kernels_are_not_mixed(tmp_path):
    made(tmp_path, 100).take(steps_of(BOTH)[:1])
    other = Campaign(tmp_path, "b" * 40, BOTH, 100)
    with pytest.raises(RecordingError, match="of commit aaaaaaaa"):
        other.take(steps_of(BOTH)[:1])


def test_a_process_that_takes_too_long_is_ended_with_what_it_has_started(tmp_path):
    note = tmp_path / "child"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    results = tmp_path / "results"
    assert run_command([sys.executable, "-c", parent], tmp_path / "log", results, 3.0) is None
    assert is_ended(int(note.read_text()))
    ending = [sys.executable, "-c", "print(5); raise SystemExit(3)"]
    assert run_command(ending, tmp_path / "log", results, 9.0) == 3
    assert (tmp_path / "log").read_text() == "5\n"


def test_a_process_is_ended_once_it_has_added_no_result_for_long(tmp_path):
    results = tmp_path / "results"
    adds = f"import time\nfor _ in range(5): open({str(results)!r}, 'a').write('x'); time.sleep(0.6)\n"
    began = time.monotonic()
    command = [sys.executable, "-c", f"{adds}time.sleep(60)"]
    assert run_command(command, tmp_path / "log", results, 40.0, stalled_s=3.0) is None
    # Longer than without a result from the first, as it added some.
    assert 5 < time.monotonic() - began < 30
    assert results.read_text() == "x" * 5


def is_ended(number):
    """Whether a process has ended within 10 s: gone, or left over for whoever began it."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


class OneGpu:
    """As much of CuPy as the check looks at."""

    def __init__(self, count, capability="90", reach=True):
        self.count, self.capability, self.reach = count, capability, reach
        self.cuda = self.runtime = self

    def getDeviceCount(self):  # CuPy's name
        return self.count

    def Device(self):
        return type("Device", (), {"compute_capability": self.capability})()

    def deviceCanAccessPeer(self, _one, _other):
        return self.reach


def test_a_machine_without_two_gpus_that_reach_each_other_is_refused_in_words(monkeypatch):
    for gpus, words in (
        (OneGpu(1), "this machine has 1 GPU, and GPUs 0,1 are asked for"),
        (OneGpu(2, "80"), "are for Hopper"),
        (OneGpu(2, reach=False), "no peer access to GPU 1"),
    ):
        monkeypatch.setattr(campaign, "require_cupy", lambda gpus=gpus: gpus)
        with pytest.raises(DeviceError, match=words):
            campaign.require_two_gpus(BOTH)
    monkeypatch.setattr(campaign, "require_cupy", lambda: OneGpu(1))
    campaign.require_two_gpus((0, 0))


def test_the_command_lists_its_steps_anywhere_and_says_what_is_missing(tmp_path, capsys, monkeypatch):
    words = ["--out", str(tmp_path / "new"), "--commit", "c"]
    assert campaign.main([*words, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "second list" in told
    assert "second.jsonl" in told
    assert not (tmp_path / "new").exists()

    def missing():
        raise DeviceError("no NVIDIA GPU: the driver reports 0 devices. Run on a machine with a GPU")

    monkeypatch.setattr(campaign, "require_cupy", missing)
    assert campaign.main(words) == 2
    assert campaign.main([*words, "--only", "third"]) == 2
    assert campaign.main([*words, "--devices", "0"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert all(error.startswith("two_gpus.campaign: ") for error in errors)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What the collecting command reads and writes, beside what was measured in a pretended run."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("wavesim", "gpu"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "two-gpus.md", folder / "docs")
    made(folder / "results", 1e5).take(steps_of(BOTH))
    return folder


def collected(checkout, *folders):
    return subprocess.run(
        [sys.executable, "-m", "wavesim_gpu.bench.kinds.two_gpus.collected", *folders],
        cwd=checkout, env=os.environ | {"PYTHONPATH": f"{checkout}:{checkout / 'gpu'}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_was_measured_is_scored_shown_and_chosen_by_in_one_command(checkout):
    before = (checkout / "wavesim/recordings/two-gpus/second/predicted.json").read_bytes()
    done = collected(checkout, "results")
    assert done.returncode == 0, done.stderr
    assert "second.jsonl: 66 results" in done.stdout
    page = (checkout / "docs" / "two-gpus.md").read_text()
    second = page.partition("<!-- second: begin -->")[2].partition("<!-- second: end -->")[0]
    assert "| exchange |" in second
    assert "Within a factor of 1.41: " in second
    assert "ours hide " in second
    assert "not measured yet" not in second
    timed = page.partition("<!-- timed: begin -->")[2].partition("<!-- timed: end -->")[0]
    assert "Of the time that could be hidden, from 1,024 rows on, ours hid " in timed
    assert "Rows by commit of the kernels: aaaaaaaa (60)." in timed
    trials = page.partition("<!-- trials: begin -->")[2].partition("<!-- trials: end -->")[0]
    assert "10,000 replays, other bits in 0" in trials
    assert "is 1.11 times as fast as PyTorch's" in trials
    assert '["all-gather", 8192' in (checkout / "gpu/wavesim_gpu/peers/choice.toml").read_text()
    assert (checkout / "wavesim/recordings/two-gpus/second/predicted.json").read_bytes() == before
    again = page
    assert collected(checkout, "results").returncode == 0
    assert (checkout / "docs" / "two-gpus.md").read_text() == again


def test_a_part_of_the_shapes_is_scored_as_far_as_it_goes(checkout, tmp_path):
    for name in ("second/measured.json", "second/timed.json"):
        (checkout / "wavesim/recordings/two-gpus" / name).unlink(missing_ok=True)
    made(tmp_path / "part", 200).take(steps_of(BOTH)[3:4])
    done = collected(checkout, tmp_path / "part")
    assert done.returncode == 0, done.stderr
    assert "of 66 shapes are not measured yet." in (checkout / "docs" / "two-gpus.md").read_text()


def test_a_folder_without_results_is_refused(checkout, tmp_path):
    done = collected(checkout, tmp_path)
    assert done.returncode == 2
    assert "no results there" in done.stderr
    (tmp_path / steps.FIRST).write_text('{"part": 5}\n')
    assert "line 1 is no result" in collected(checkout, tmp_path).stderr
