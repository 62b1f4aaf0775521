"""Signals: one line and a status for each, no process left behind, and what is done is kept."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[2] / "support"
ENDS = {
    signal.SIGINT: (130, "interrupted"),
    signal.SIGTERM: (143, "terminated"),
    signal.SIGHUP: (129, "hung up"),
}


def hears_all():
    """As from a terminal: who runs the tests may ignore signals, as nohup and background jobs do."""
    for number in ENDS:
        signal.signal(number, signal.SIG_DFL)


def start(*arguments, **options):
    """A Python process in a session of its own, so that all that it starts can be found."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"preexec_fn": hears_all, **options},
    )


def members(session):
    """Processes of a session that are alive: its number is the fourth field behind the name in brackets."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(number) == session and state != "Z":
            processes.append(int(path.parent.name))
    return processes


def assert_all_end(session, within_s=10.0):
    until = time.monotonic() + within_s
    while left := members(session):
        if time.monotonic() > until:
            for number in left:
                os.kill(number, signal.SIGKILL)
            pytest.fail(f"{len(left)} processes are left")
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["the process", "its group"])
@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_a_signal_ends_a_program_and_its_workers_with_one_line(number, send):
    program = start(SUPPORT / "worker_program.py")
    assert program.stdout.readline() == "ready\n"
    assert len(members(program.pid)) >= 3
    send(program.pid, number)
    _, errors = program.communicate(timeout=20)
    status, word = ENDS[number]
    assert (program.returncode, errors) == (status, f"program: {word}\n")
    assert_all_end(program.pid)


@pytest.mark.slow
def test_a_program_that_is_killed_leaves_no_worker_behind():
    program = start(SUPPORT / "worker_program.py")
    assert program.stdout.readline() == "ready\n"
    assert len(members(program.pid)) >= 3
    program.kill()
    program.wait()
    assert_all_end(program.pid)
    assert "Traceback" not in program.communicate()[1]


@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_a_second_signal_ends_a_program_that_does_not_listen_to_the_first(number):
    program = start(SUPPORT / "worker_program.py", "patient")
    for words in ("ready\n", "heard\n"):
        assert program.stdout.readline() == words
        program.send_signal(number)
    _, errors = program.communicate(timeout=20)
    status, word = ENDS[number]
    assert (program.returncode, errors) == (status, f"program: {word}\n")


def test_a_signal_that_was_ignored_from_the_start_stays_ignored():
    program = start(
        SUPPORT / "worker_program.py",
        "patient",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # as nohup does
    )
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.3)
    program.kill()
    program.communicate()


DURING_IMPORT = """
import os, runpy, sys
class Finder:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["simulate", "toy"]
runpy.run_module({package!r}, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("package", "module"),
    [
        ("wavesim", "wavesim.cli.command_line"),
        ("wavesim", "argparse"),
        ("wavesim", "wavesim.errors"),
        ("wavesim", "wavesim.cli.simulate"),
        ("wavesim", "wavesim.trace.metrics"),
        ("wavesim", "numpy"),
        ("wavesim_gpu", "argparse"),
        ("wavesim_gpu", "wavesim.errors"),
    ],
)
@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_a_signal_during_the_imports_is_one_line(package, module, number):
    code = DURING_IMPORT.format(module=module, number=int(number), package=package)
    program = start("-c", code)
    said, errors = program.communicate(timeout=60)
    status, word = ENDS[number]
    assert (program.returncode, errors) == (status, f"{package}: {word}\n")
    assert said == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [*ENDS, signal.SIGKILL], ids=lambda number: number.name)
def test_a_sweep_that_is_ended_keeps_its_results_and_no_process(tmp_path, number):
    path = tmp_path / "results.jsonl"
    words = ("-m", "wavesim", "tune", "gpt3-mlp", "--tokens", "2048", "--results", path)
    sweep = start(*words)
    until = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < 10:
        assert time.monotonic() < until
        assert sweep.poll() is None, sweep.communicate()
        time.sleep(0.02)
    sweep.send_signal(number)
    _, errors = sweep.communicate(timeout=20)
    assert_all_end(sweep.pid)
    if number == signal.SIGKILL:
        assert sweep.returncode == -number
    else:
        status, word = ENDS[number]
        assert (sweep.returncode, errors.splitlines()[-1]) == (status, f"wavesim: {word}")
    assert "Traceback" not in errors
    lines = path.read_text().splitlines()
    assert len(lines) >= 10
    assert all(json.loads(line)["key"] for line in lines)
