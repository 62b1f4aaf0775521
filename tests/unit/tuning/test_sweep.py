"""Sweeps: any executor, interrupted and resumed, bad results files and full disks, nothing complete lost."""

import json
import resource
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import load
from wavesim.plan.order import CustomOrder, Grouped
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.tuning import sweep
from wavesim.tuning.results_file import ResultsFile
from wavesim.tuning.search import tune
from wavesim.workloads.catalogue import workload

TOY, DEVICE = workload("toy"), load("toy")


def ranking(tuning):
    return [(row.name, row.predicted_ns) for row in tuning.plans]


@pytest.fixture(scope="module")
def serial():
    return ranking(tune(TOY, DEVICE))


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_every_executor_gives_the_same_ranking(kind, serial):
    with kind(2) as pool:
        assert ranking(tune(TOY, DEVICE, executor=pool)) == serial


@pytest.mark.slow
def test_our_own_worker_processes_give_the_same_ranking(serial, monkeypatch):
    monkeypatch.setattr(sweep, "TILES_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(sweep, "worker_count", lambda: 2)
    assert ranking(tune(TOY, DEVICE)) == serial


def test_progress_counts_to_the_end():
    told = []
    tune(TOY, DEVICE, progress=lambda done, total: told.append((done, total)))
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] > 20
    assert told == sorted(told)


def test_a_finished_sweep_is_not_simulated_again(tmp_path, serial, monkeypatch):
    path = tmp_path / "results.jsonl"
    assert ranking(tune(TOY, DEVICE, results=path)) == serial
    monkeypatch.setattr(sweep, "predicted_ns", lambda question: pytest.fail("simulated again"))
    assert ranking(tune(TOY, DEVICE, results=path)) == serial


def test_other_costs_are_another_question(tmp_path):
    path = tmp_path / "results.jsonl"
    tune(TOY, DEVICE, results=path)
    other = tune(TOY, DEVICE, CostModel({"gemm1": 1_000, "gemm2": 5_000}), results=path)
    assert other.best.predicted_ns > 3_000


def interrupt_after(count, monkeypatch):
    calls = []
    simulate = sweep.predicted_ns

    def interrupted(question):
        calls.append(question)
        if len(calls) > count:
            raise KeyboardInterrupt
        return simulate(question)

    monkeypatch.setattr(sweep, "predicted_ns", interrupted)


def test_an_interrupt_keeps_what_is_finished_and_the_next_run_goes_on(tmp_path, serial, monkeypatch):
    path = tmp_path / "results.jsonl"
    with monkeypatch.context() as patch:
        interrupt_after(30, patch)
        partial = tune(TOY, DEVICE, results=path)
    assert not partial.is_complete
    assert len(partial.plans) == 30
    assert "interrupted" in partial.table()
    whole = tune(TOY, DEVICE, results=path)
    assert whole.is_complete
    assert ranking(whole) == serial


def test_a_torn_last_line_is_dropped_and_simulated_again(tmp_path, serial):
    path = tmp_path / "results.jsonl"
    tune(TOY, DEVICE, results=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert ranking(tune(TOY, DEVICE, results=path)) == serial
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_a_full_disk_is_one_clear_error_and_keeps_whole_lines(tmp_path, serial):
    path = tmp_path / "results.jsonl"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(
            RecordingError, match=r"results.jsonl: cannot be written .* complete results are kept"
        ):
            tune(TOY, DEVICE, results=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = path.read_text().splitlines()
    assert 5 < len(kept) < len(serial)
    assert all(json.loads(line)["predicted_ns"] for line in kept)
    assert ranking(tune(TOY, DEVICE, results=path)) == serial


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello\n", "line 1 is no result of a sweep"),
        ('{"key": "a", "predicted_ns": 1}\n[]\n', "line 2 is no result of a sweep"),
        ('{"key": 1, "predicted_ns": "x"}\n', "line 1: key is 1"),
    ],
)
def test_a_file_that_is_no_results_file_is_refused_and_left_alone(tmp_path, text, words):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(RecordingError, match=words):
        tune(TOY, DEVICE, results=path)
    assert path.read_text() == text


def test_a_results_path_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(RecordingError, match="cannot be opened for results"):
        ResultsFile(tmp_path)


def test_plans_with_functions_that_cannot_travel_are_refused_with_the_fix():
    plan = SemaphoreSync(order=CustomOrder("own", lambda grid: list(grid)[::-1]))
    with ThreadPoolExecutor(1) as pool, pytest.raises(DescriptionError, match="top level of a module"):
        tune(TOY, DEVICE, plans=[plan], executor=pool)


def failing(*_):
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (SemaphoreSync(order=CustomOrder("bad", failing)), "order bad failed on the grid"),
        (SemaphoreSync(order=CustomOrder("twice", lambda grid: [(0, 0)] * 6)), r"tile \(0, 0\) comes twice"),
        (SemaphoreSync(CustomPolicy("bad", failing, failing)), "policy bad failed on tile"),
        (SemaphoreSync(CustomPolicy("late", lambda *_: 0, lambda *_: 9)), "waits for ever"),
        (SemaphoreSync(policies={("gemm2", "gemm1"): TileSync()}), "has a policy for"),
    ],
)
def test_orders_and_policies_that_raise_or_return_nonsense_stop_before_the_sweep(plan, words):
    with pytest.raises(DescriptionError, match=words):
        tune(TOY, DEVICE, plans=[SemaphoreSync(RowSync(), order=Grouped(2)), plan])


@pytest.mark.slow
def test_sweeps_run_on_dask():
    distributed = pytest.importorskip("distributed", reason="pip install distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as client, client.get_executor() as pool:
        assert ranking(tune(TOY, DEVICE, executor=pool)) == ranking(tune(TOY, DEVICE))
