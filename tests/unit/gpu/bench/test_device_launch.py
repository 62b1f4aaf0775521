"""The host side of launches from the device: tables for the uneven parent, and figures from stamps."""

import time
from types import SimpleNamespace

import pytest

from wavesim.errors import CompileError, WavesimError
from wavesim.sim.streams.uneven_work import THREADS, UnevenWork, items_of
from wavesim_gpu.bench.labs import device_launch
from wavesim_gpu.bench.labs.device_launch import CALLERS, GATHERED, THRESHOLDS, call_figures, uneven_tables
from wavesim_gpu.bench.measuring_process import MeasuringProcess
from wavesim_gpu.driver import user_sources as device_linking

ITEMS = items_of(range(device_launch.PARENT_BLOCKS * THREADS))


def done_by(tables, gathered):
    """How often each item is done, as the kernels go through the tables, and the launches."""
    done, launches = [0] * int(tables.first_item[-1]), 0
    for thread in range(len(tables.first_item) - 1):
        if tables.first_task[thread] == tables.first_task[thread + 1]:
            for item in range(tables.first_item[thread], tables.first_item[thread + 1]):
                done[item] += 1
        if gathered and thread % gathered == 0:
            tasks = tables.tasks[tables.first_task[thread] : tables.first_task[thread + gathered]]
            launches += len(tasks) > 0
            for first, upto in tasks:
                for item in range(first, min(upto, first + THREADS)):
                    done[item] += 1
    return done, launches


@pytest.mark.parametrize("launcher", GATHERED)
def test_every_item_is_done_once_by_as_many_launches_as_are_simulated(launcher):
    for threshold in THRESHOLDS.get(launcher, (None,)):
        done, launches = done_by(uneven_tables(ITEMS, threshold), GATHERED[launcher])
        assert set(done) == {1}
        assert launches == len(UnevenWork(launcher, threshold or 1).grid().launches)


def test_a_small_table_is_as_one_would_write_it():
    tables = uneven_tables([2, 600, 1], 256)
    assert tables.first_item.tolist() == [0, 2, 602, 603]
    assert tables.first_task.tolist() == [0, 0, 3, 3]
    assert tables.tasks.tolist() == [[2, 602], [258, 602], [514, 602]]


def test_figures_are_medians_between_calls_and_begins_and_the_first_latency():
    found = call_figures([100, 1_100, 2_100, 5_000], [6_000, 6_500, 7_000, 9_000])
    assert found == {"call_ns": 1_000, "start_ns": 500, "latency_ns": 5_900}


def test_of_many_callers_the_first_and_the_last_count():
    found = device_launch.caller_figures([100, 900, 300], [6_000, 8_500, 7_000])
    assert found == {"calling_ns": 800, "beginning_ns": 2_500, "first_ns": 5_900}


def test_what_calls_at_once_fits_into_the_pool_and_what_is_refused_is_far_below_what_hung():
    pool, hung = 2_048, 2_000
    assert all(blocks * warps * lanes * count <= pool / 2 for blocks, warps, lanes, count in CALLERS)
    assert device_launch.OVERFLOWING - pool < hung / 4
    calls = sum(items >= THRESHOLDS["thread"][0] for items in ITEMS)
    assert calls - pool < hung / 2  # were none begun before the last is called


@pytest.mark.parametrize(("begun", "error"), [(7, 0), (7, 2), (0, 0)])
def test_a_family_whose_child_never_ran_is_no_measurement(monkeypatch, begun, error):
    kernels = object.__new__(device_launch.LaunchingKernels)
    left = iter(([begun], [error]))  # as the kernels leave the stamps, then the error
    kernels.stream, kernels.zeros = None, lambda *_: next(left)
    times = [SimpleNamespace(times_ns=[2_000]), SimpleNamespace(times_ns=[5_000])]
    monkeypatch.setattr(device_launch, "interleaved", lambda *_: times)
    if begun and not error:
        assert kernels.family() == {"none_ns": [2_000], "one_ns": [5_000]}
        return
    with pytest.raises(WavesimError, match=f"failed with {error}"):
        kernels.family()


class OneThatHangs:
    """Kernels of which one way never answers."""

    def uneven(self, launcher, threshold):
        if (launcher, threshold) == ("thread", 3):
            time.sleep(60)
        return {
            "launcher": launcher,
            "threshold": threshold,
            "lost": 0,
            "items_missing": 0,
            "rounds_ns": [5],
        }


def test_a_way_that_does_not_end_costs_itself_alone(capsys):
    kernels = MeasuringProcess(OneThatHangs)
    try:
        found = device_launch.measure_uneven(kernels, 2.0)
    finally:
        kernels.close()
    assert [(one["launcher"], one["threshold"]) for one in found] == list(device_launch.uneven_ways())
    assert [one.get("failed") for one in found if "failed" in one] == [
        "no answer within 2 s: a kernel hung; the process was ended"
    ]
    assert "thread from 3 on: no answer within 2 s" in capsys.readouterr().err


def test_without_nvcc_a_line_says_so(monkeypatch):
    monkeypatch.setattr(device_linking, "NVCC_PLACES", ("no-such-compiler",))
    with pytest.raises(CompileError, match="nvcc is not on the PATH"):
        device_linking.linked_cubin(device_launch.SOURCE, "sm_90a")
