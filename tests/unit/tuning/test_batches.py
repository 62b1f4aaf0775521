"""Batches on executors whose workers die: nothing is lost, and who died is said."""

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import pytest

from wavesim.errors import DeviceError
from wavesim.model.device import load
from wavesim.tuning import batches, sweep
from wavesim.tuning.batches import answered, in_batches
from wavesim.tuning.search import tune
from wavesim.workloads.catalogue import workload

ITEMS = list(range(40))


def doubled(batch):
    return [2 * item for item in batch]


def killed_at(item, marker, batch):
    """Ends its own process, once, where the item is in the batch; always if there is no marker."""
    if item in batch:
        if marker is None:
            os.kill(os.getpid(), signal.SIGKILL)
        elif not marker.exists():
            marker.touch()
            time.sleep(0.2)  # others have answered by then
            os.kill(os.getpid(), signal.SIGKILL)
    return doubled(batch)


def run(work, executor, lost):
    outcomes = dict(
        pair
        for batch, answers in answered(work, [[item] for item in ITEMS], executor, lost)
        for pair in zip(batch, answers, strict=True)
    )
    assert outcomes == {item: 2 * item for item in ITEMS}


def test_batches_are_many_and_small_where_there_is_little_and_large_where_there_is_much():
    assert [len(in_batches(range(count))) for count in (0, 1, 100)] == [0, 1, 100]
    sizes = [len(batch) for batch in in_batches(range(50_000))]
    assert sum(sizes) == 50_000
    assert max(sizes) == 195
    assert max(len(batch) for batch in in_batches(range(10**6))) == batches.MOST_IN_BATCH


def test_threads_answer_all():
    lost = []
    with ThreadPoolExecutor(2) as pool:
        run(doubled, pool, lost)
    assert lost == []


@pytest.mark.slow
def test_what_a_killed_worker_of_ours_had_is_done_again_and_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "worker_count", lambda: 2)
    lost = []
    run(partial(killed_at, 30, tmp_path / "killed"), None, lost)
    assert len(lost) == 1
    assert lost[0].startswith("process ")
    assert lost[0].endswith("(SIGKILL)")


@pytest.mark.slow
def test_what_a_given_pool_that_breaks_had_is_done_here(tmp_path):
    lost = []
    with ProcessPoolExecutor(2) as pool:
        run(partial(killed_at, 30, tmp_path / "killed"), pool, lost)
    (told,) = lost
    assert told.startswith("the given executor ended (")
    assert told.endswith("); what was left was done here")


@pytest.mark.slow
def test_work_that_kills_every_worker_ends_with_one_error_that_says_so(monkeypatch):
    monkeypatch.setattr(batches, "worker_count", lambda: 1)
    with pytest.raises(DeviceError, match="have ended 3 times"):
        run(partial(killed_at, 39, None), None, [])


def test_a_tuning_names_lost_workers_in_its_table(monkeypatch):
    monkeypatch.setattr(sweep, "TILES_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(sweep, "worker_count", lambda: 2)

    def losing(work, all_batches, _executor, lost):
        lost.append("process 7 (SIGKILL)")
        yield from ((batch, work(batch)) for batch in all_batches)

    monkeypatch.setattr(sweep, "answered", losing)
    tuning = tune(workload("toy"), load("toy"))
    assert "a worker was lost, what it had was done again: process 7 (SIGKILL)" in tuning.table()
