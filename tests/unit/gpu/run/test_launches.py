"""A run's launches all get out, or leave nothing behind; runs of one program never mix. No GPU."""

import threading
import time

import pytest

from wavesim.errors import DeadlockError
from wavesim_gpu.hang import launch_recorder
from wavesim_gpu.run import launches as module
from wavesim_gpu.run.launches import Launches


class Stream:
    """Notes in a list what is asked of it."""

    def __init__(self, log, name):
        self.log, self.name, self.ptr = log, name, 7

    def wait_event(self, event):
        self.log.append(f"{self.name} waits")

    def synchronize(self):
        self.log.append(f"{self.name} ends")

    def begin_capture(self):
        self.log.append("capture")

    def end_capture(self):
        self.log.append("end capture")
        if self.log.count("fails"):
            raise RuntimeError("the streams have not joined")
        return Graph(self.log)

    def __enter__(self):
        return self

    def __exit__(self, *caught):
        return False


class Graph:
    def __init__(self, log):
        self.log = log

    def launch(self, stream):
        self.log.append(f"replay on {stream.name}")


class Cupy:
    """As much of CuPy as launches need: streams are named in the order in which they are made."""

    def __init__(self, log):
        made = iter(("first", "second", *(f"beside {i}" for i in range(9))))

        class Event:
            def __init__(self, disable_timing):
                pass

            def record(self, stream):
                pass

        class Device:
            def synchronize(self):
                pass

        self.cuda = type("Cuda", (), {})()
        self.cuda.Stream = lambda non_blocking: Stream(log, next(made))
        self.cuda.Event, self.cuda.Device = Event, Device


class Sync:
    """A state whose earlier runs failed, or did not."""

    def __init__(self, log, error=None):
        self.log, self.error = log, error

    def reset(self, stream):
        self.log.append("reset")

    def call_off(self, stream):
        self.log.append(f"call off on {stream.name}")

    def clear(self):
        self.log.append("clear")

    def check(self):
        error, self.error = self.error, None
        if error is not None:
            raise error


class Launch:
    def __init__(self, log, name, error=None):
        self.log, self.name, self.error = log, name, error

    def enqueue(self, streams):
        self.log.append("fails" if self.error else self.name)
        time.sleep(0.0005)
        if self.error:
            raise self.error


@pytest.fixture
def log():
    return []


def made(log, monkeypatch, *launches, error=None):
    monkeypatch.setattr(module, "require_cupy", lambda: Cupy(log))
    return Launches(Sync(log, error), launches, 2)


@pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()], ids=repr)
def test_after_an_exception_between_launches_nobody_waits_and_counters_are_zero(log, monkeypatch, error):
    second = Launch(log, "gemm2", error)
    program = made(log, monkeypatch, Launch(log, "gemm1"), second)
    with pytest.raises(type(error)):
        program.enqueue()
    # Called off on a stream that no launch holds up, and clean only once everything has ended.
    assert log[log.index("fails") + 1 :] == [
        "call off on beside 0",
        "beside 0 ends",
        "first ends",
        "second ends",
        "clear",
    ]
    del log[:]
    second.error = None
    program.enqueue()
    assert log == ["reset", "second waits", "gemm1", "gemm2", "first waits"]


def test_the_failure_of_an_earlier_run_survives_a_later_exception(log, monkeypatch):
    deadlock = DeadlockError((), (), "earlier")
    program = made(log, monkeypatch, Launch(log, "gemm1", RuntimeError("no memory")), error=deadlock)
    with pytest.raises(RuntimeError, match="no memory"):
        program.enqueue()
    with pytest.raises(DeadlockError, match="earlier"):
        program.synchronize()
    program.synchronize()  # once


def test_where_cleaning_up_fails_the_next_run_tries_again_first(log, monkeypatch):
    launch = Launch(log, "gemm1", RuntimeError("no memory"))
    program = made(log, monkeypatch, launch)
    monkeypatch.setattr(program.sync, "clear", lambda: (_ for _ in ()).throw(RuntimeError("GPU lost")))
    with pytest.raises(RuntimeError, match="no memory"):
        program.enqueue()
    with pytest.raises(RuntimeError, match="GPU lost"):
        program.enqueue()
    monkeypatch.undo()
    launch.error = None
    program.enqueue()
    assert log[-2:] == ["gemm1", "first waits"]


def test_an_exception_in_a_capture_ends_it_and_is_the_one_that_is_raised(log, monkeypatch):
    program = made(log, monkeypatch, Launch(log, "gemm1", RuntimeError("no memory")))
    with pytest.raises(RuntimeError, match="no memory"):
        program.launcher()
    assert log[-1] == "end capture"


def test_all_graphs_of_a_program_are_replayed_on_its_first_stream_and_nobody_gets_them(log, monkeypatch):
    """Two graphs write the same counters: one stream puts their replays one after the other."""
    program = made(log, monkeypatch, Launch(log, "gemm1"))
    first, second = program.launcher(), program.launcher(repeats=2)
    del log[:]
    first()
    second()
    assert log == ["replay on first", "replay on first"]
    assert not [name for name in dir(program) if "capture" in name and not name.startswith("_")]


def test_launches_of_two_threads_do_not_mix(log, monkeypatch):
    program = made(log, monkeypatch, Launch(log, "gemm1"), Launch(log, "gemm2"))
    threads = [threading.Thread(target=program.enqueue) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log == ["reset", "second waits", "gemm1", "gemm2", "first waits"] * 8


def test_a_recorder_is_told_of_every_run_before_it_and_of_those_of_a_graph_when_it_is_replayed(
    log, monkeypatch
):
    class Recorder:
        def note_planned(self, run, after):
            log.append(f"recorded on {run.addresses} after {after}")
            return (f"end {log.count('first')}",)

    launches = made(log, monkeypatch, Launch(log, "first"))
    replay = launches.launcher(repeats=2)
    launches.enqueue()
    monkeypatch.setattr(launch_recorder, "_active", [Recorder()])
    launches.enqueue()
    replay()
    told = [entry for entry in log if entry == "first" or entry.startswith(("recorded", "replay"))]
    assert told == [
        "first",  # both of the capture
        "first",
        "first",
        "recorded on (7, 7) after ()",
        "first",
        "recorded on (7, 7) after ('end 3',)",
        "recorded on (7, 7) after ('end 4',)",
        "replay on first",
    ]
