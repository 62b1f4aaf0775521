"""The harness without a GPU: order of a blind run, going on, failures, time, kinds that start processes."""

import json
import os
from types import SimpleNamespace

import pytest

from wavesim.bench import registration, results
from wavesim.bench.case_list import load_list
from wavesim.bench.results import ResultRow
from wavesim.errors import DescriptionError, DeviceError, RecordingError
from wavesim.model.device import load
from wavesim.plan.plan import StreamSync
from wavesim.sim.simulation import simulate
from wavesim_gpu.bench import harness
from wavesim_gpu.bench.contenders import CheckedCandidate
from wavesim_gpu.bench.harness import KINDS, ListRun
from wavesim_gpu.bench.kinds import labs, plans, two_gpus
from wavesim_gpu.bench.kinds.two_gpus import PeerMeasurer, Ranks
from wavesim_gpu.bench.kinds.two_gpus.cases import Setting
from wavesim_gpu.bench.measuring_process import MeasuringProcess, WorkerError
from wavesim_gpu.bench.rows import MeasuredCase, row_of
from wavesim_gpu.run.runner import OutputCheck, WrongResultError
from wavesim_gpu.run.timing import Contender, Rounds

LIST = """
kind = "layers"
title = "a list"
plans = ["pdl"]
[[case]]
part = "into"
model = "qwen2.5-0.5b"
tokens = [128, 256, 384]
"""
HEADER = {
    "list": "mine",
    "list_sha256": "0" * 64,
    "device": "h200",
    "versions": {},
    "commit": "1234",
    "kernel_sources": "abcd",
    "date": "2026-11-28",
}


class Pretended:
    """Answers as a measurer; `wrong` cases fail, `broken` ones break the process down."""

    def __init__(self, wrong=(), broken=()):
        self.asked, self.wrong, self.broken = [], wrong, broken

    def __call__(self, limit_s, name, *question):
        case = question[0] if name != "prepare" else None
        self.asked.append((name, case.name if case else len(question[0])))
        if case and any(word in case.name for word in self.broken):
            raise WorkerError("the measuring process died")
        if case and any(word in case.name for word in self.wrong):
            raise DeviceError("relative errors")
        if name == "alone":
            return {order: simulate(case.pipeline(), StreamSync(), load("h200")) for order in case.orders}
        if name == "measure":
            ways = [
                ResultRow(case.name, order, word, correct=True, ns=(5, 6)) for order, word in case.entries
            ]
            stream = simulate(case.pipeline(), StreamSync(), load("h200"))
            return MeasuredCase(
                ways, {("row", "pdl"): stream} if question[1] else {}, {"row tile": "refused"}
            )
        return None


@pytest.fixture
def cases(tmp_path):
    (tmp_path / "mine.toml").write_text(LIST)
    return load_list(tmp_path / "mine.toml")


@pytest.fixture
def no_predictions(monkeypatch):
    """Predicts nothing, at once."""
    monkeypatch.setattr(registration, "predict_from_costs", lambda cases, device: [])
    monkeypatch.setattr(registration, "predict_from_streams", lambda streams, device: {"trace": []})


def run_of(cases, folder, ask, **words):
    return ListRun(cases, folder, cases.cases, ask, HEADER, **words)


def test_a_blind_run_registers_what_it_predicts_before_any_other_plan_runs(cases, tmp_path, no_predictions):
    ask = Pretended()
    failures = run_of(cases, tmp_path / "run", ask, is_blind=True).run()
    names = [case.name for case in cases.cases]
    assert ask.asked == [
        ("prepare", 3),
        *(("alone", name) for name in names),
        *(("measure", name) for name in names),
    ]
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    stamp = (tmp_path / "run" / "trace.sha256").read_text().split()[0]
    assert facts["predictions"] == stamp
    assert failures == {f"{name} row tile": "refused" for name in names}
    assert len(list((tmp_path / "run").glob("*_stream.npz"))) == len(names) * len(cases.cases[0].orders)
    assert len(list((tmp_path / "run").glob("*_pdl.npz"))) == len(names)


def test_a_run_goes_on_where_it_was_and_refuses_other_kernels(cases, tmp_path):
    first = Pretended(wrong=("256",))
    failures = run_of(cases, tmp_path / "run", first).run()
    assert failures["into qwen2.5-0.5b 256"] == "relative errors"
    again = Pretended()
    run_of(cases, tmp_path / "run", again).run()
    assert again.asked == [("prepare", 1), ("measure", "into qwen2.5-0.5b 256")]
    header, rows = results.read(tmp_path / "run" / harness.ROWS)
    assert header["commit"] == "1234"
    assert {row.case for row in rows} == {case.name for case in cases.cases}
    changed = ListRun(cases, tmp_path / "run", cases.cases, again, {**HEADER, "kernel_sources": "other"})
    with pytest.raises(RecordingError, match="kernel_sources is 'abcd', now 'other'"):
        changed.run()


def test_a_process_that_breaks_down_twice_in_a_row_is_given_up(cases, tmp_path):
    ask = Pretended(broken=("128", "256"))
    failures = run_of(cases, tmp_path / "run", ask).run()
    assert "broke down 2 times in a row" in failures["into qwen2.5-0.5b 384"]
    assert ("measure", "into qwen2.5-0.5b 384") not in ask.asked


def test_nothing_is_begun_once_the_time_is_over(cases, tmp_path):
    ask = Pretended()
    assert run_of(cases, tmp_path / "run", ask, seconds=-1.0).run() == {}
    assert ask.asked == []


class InProcess:
    """A measurer that starts processes itself, so that the harness asks it in its own."""

    limit_s, starts_processes = 1.0, True
    closed = 0

    def __init__(self, commit, rounds):
        self.ask = Pretended()

    def prepare(self, cases):
        return self.ask(1, "prepare", cases)

    def measure(self, case, has_traces):
        if "256" in case.name:
            raise RuntimeError("an illegal memory access")
        return self.ask(1, "measure", case, has_traces)

    def close(self):
        InProcess.closed += 1


def test_a_shard_of_a_list_is_measured_and_the_same_command_goes_on(cases, tmp_path, monkeypatch):
    facts = {"device": {"compute_capability": (9, 0)}, "versions": {}, "kernel_sources": "abcd"}
    monkeypatch.setattr(harness, "facts_of", lambda kind: facts)
    monkeypatch.setattr(plans, "PlanMeasurer", InProcess)
    for _ in range(2):
        run = harness.measure(cases, tmp_path / "run", shard=(1, 2), commit="1234")
    assert run.folder == tmp_path / "run" / "shard-1"
    assert results.done_cases(run.folder / harness.ROWS) == {"into qwen2.5-0.5b 128", "into qwen2.5-0.5b 384"}
    run = harness.measure(cases, tmp_path / "run", shard=(2, 2), commit="1234")
    assert run.failures == {"into qwen2.5-0.5b 256": "RuntimeError: an illegal memory access"}
    assert InProcess.closed == 3
    with pytest.raises(DescriptionError, match="--only is 'x'"):
        harness.measure(cases, tmp_path / "run", only="x", commit="1234")


def test_every_kind_of_list_has_something_that_measures_it():
    for kind in KINDS:
        assert harness.class_of(kind).limit_s > 0


GOOD = OutputCheck({"gemm": 1e-4}, is_right=True, has_right_semaphores=True)
BAD = OutputCheck({"gemm": float("nan")}, is_right=False, has_right_semaphores=True)


def test_a_row_with_a_wrong_result_has_no_times():
    rounds = Rounds([3, 4], [1.5, 1.6])
    assert row_of("case", "row", "pdl", rounds, GOOD).ns == (3, 4)
    wrong = row_of("case", "row", "pdl", rounds, BAD)
    assert (wrong.ns, wrong.correct, wrong.error) == (
        (),
        False,
        "relative errors {'gemm': nan}, semaphores right",
    )
    assert row_of("case", "row", "pdl", Rounds([3], [float("nan")]), GOOD).ghz == ()


@pytest.fixture
def measurer(monkeypatch):
    """Of plans, on pretended operands; `verdicts` by way."""
    made = plans.PlanMeasurer("1234", rounds=2)
    verdicts = {}

    def entry(case, sets, expected, entry_, repeats):
        return CheckedCandidate(
            Contender(lambda: None, None), verdicts.get(entry_[1], GOOD), lambda: None, None
        )

    def judged(entries, rounds, warm_up_s):
        good = {name: one for name, one in entries.items() if one.verdict.is_good}
        return (
            {name: Rounds([7] * rounds, [1.5] * rounds) for name in good},
            {name: one.verdict for name, one in entries.items()},
            None,
        )

    monkeypatch.setattr(made, "_operands", lambda case: ([SimpleNamespace()], {}))
    monkeypatch.setattr(made, "_plan", entry)
    monkeypatch.setattr(plans, "time_and_judge", judged)
    return made, verdicts


def test_ways_that_are_wrong_have_no_times_and_a_wrong_baseline_measures_nothing(measurer, cases):
    made, verdicts = measurer
    case = cases.cases[0]
    verdicts["pdl"] = BAD
    by_way = {row.way: row for row in made.measure(case).rows}
    assert by_way["stream"].ns == (7, 7)
    assert (by_way["pdl"].ns, by_way["pdl"].correct) == ((), False)
    verdicts["stream"] = BAD
    with pytest.raises(WrongResultError, match="not timed"):
        made.measure(case)


class PretendedRank:
    """Answers with its rank; ends in the middle where rank 1 is to be killed."""

    def __init__(self, rank, devices, meeting):
        self.rank = rank

    def take(self, setting, size):
        if setting.part == "killed" and self.rank == 1:
            os._exit(0)
        if setting.part == "skew":
            raise DeviceError("a wait gave up")
        return [
            {"way": "stores", "is_right": True, "error": 0.0, "ns": (1, 2), "rank": self.rank, "words": ""}
        ]


def two_gpu_case(**fields):
    return SimpleNamespace(name="shape", fields={"m": 256, "k": 64, "n": 256, "part": "right", **fields})


def test_rank_0_answers_and_a_rank_that_ends_costs_its_shape_alone():
    measurer = PeerMeasurer("1234", 3, PretendedRank)
    try:
        (row,) = measurer.measure(two_gpu_case()).rows
        assert (row.way, row.ns, row.order) == ("stores", (1, 2), "all-reduce")
        assert measurer.measure(two_gpu_case(part="killed")).rows
        with pytest.raises(DeviceError, match="a wait gave up"):
            measurer.measure(two_gpu_case(part="skew"))
        assert measurer.measure(two_gpu_case()).notes["stores"]["rank"] == 0
    finally:
        measurer.close()


def test_ranks_that_share_a_gpu_are_not_timed():
    with pytest.raises(DescriptionError, match="no link to time"):
        PeerMeasurer("1234", 0).prepare([two_gpu_case(part="both", devices=[0, 0])])
    assert Setting("both", ways=("stores*",)).takes("stores:8")
    assert not Ranks((0, 1), PretendedRank)._processes
    assert two_gpus.TIMED[0] == "times"


def test_a_lab_writes_its_document_and_another_is_refused(monkeypatch, tmp_path):
    made = labs.LabMeasurer("1234", 0)
    monkeypatch.setattr(labs, "query", lambda: load("h200"))
    monkeypatch.setattr(labs, "versions", dict)
    monkeypatch.setattr(labs, "import_module", lambda name: SimpleNamespace(document=lambda rounds: {"a": 1}))
    case = SimpleNamespace(name="ladder", fields={"lab": "ladder"})
    assert made.measure(case).document["a"] == 1
    with pytest.raises(DescriptionError, match="lab is 'magic'; known are copies"):
        made.prepare([SimpleNamespace(name="x", fields={"lab": "magic"})])


class Sleeper:
    def sleep(self, seconds):
        import time

        time.sleep(seconds)
        return os.getpid()

    def fault(self):
        raise RuntimeError("an illegal memory access")


def test_a_process_that_hangs_or_faults_is_replaced():
    process = MeasuringProcess(Sleeper)
    try:
        first = process.ask(20, "sleep", 0)
        with pytest.raises(WorkerError, match="a kernel hung"):
            process.ask(0.2, "sleep", 30)
        second = process.ask(20, "sleep", 0)
        with pytest.raises(WorkerError, match="illegal memory access"):
            process.ask(20, "fault")
        assert len({first, second, process.ask(20, "sleep", 0)}) == 3
    finally:
        process.close()
