"""The blind run of kernels that are not ours, on a pretended measurer: what is known, hashed and scored."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from wavesim.bench.blind_runs import STAMP, find_runs
from wavesim.bench.foreign_pairs import BASELINE, PLANS, ForeignPair, all_pairs, pair_of
from wavesim.bench.foreign_runs import (
    ComparedPair,
    KnownPair,
    foreign_jobs,
    known_pairs,
    register_foreign,
    trace_path,
)
from wavesim.bench.jobs import run_jobs
from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.occupancy import occupancy_of
from wavesim.plan.parsing import plan_data
from wavesim.recordings.split import committed_split, split_of
from wavesim.sim.simulation import simulate
from wavesim.trace.trace_archive import load_trace
from wavesim_gpu.bench.kinds.foreign.run import ForeignRunner

BLOCKS = {"product": Block(256, 220, 0, 81_408), "consumer": Block(256, 220, 0, 81_408)}
COSTS = CostModel({"product": 150_000, "consumer": 120_000})
PAIR = ForeignPair("one", 1500, 4096, 4096, 4096)
SOFTMAX = ForeignPair("two", 1500, 4096, 4096, 0, plans=("row",))
LASTING = ForeignPair("three", 1500, 4096, 4096, 4096, is_persistent=True, plans=("row",))


def trace_of(pair, word):
    plan = pair.plan(word)
    trace = simulate(pair.told(BLOCKS), plan, load("h200"), COSTS)
    header = replace(trace.header, source="measured", plan_data=plan_data(plan), costs={}, setup_ns=0)
    return replace(trace, header=replace(header, rounds_ns=(trace.time_ns,) * 3), waits=None)


class Pretender:
    """Measures by simulating; notes whether the predictions were there already."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, []

    def known(self, pair):
        self._note("alone", pair)
        stream = trace_of(pair, BASELINE) if pair.kernels == "cuda" else None
        return KnownPair(pair, {"product": 310_000, "consumer": 250_000}, BLOCKS, 560_000, stream)

    def in_turns(self, pair):
        self._note("plans", pair)
        words = [word for word in (BASELINE, *pair.plans) if word != "tile"]
        rounds = {word: [trace_of(pair, word).time_ns] * 3 for word in words}
        return ComparedPair(rounds, {"tile": "wrong"}, {"row": trace_of(pair, "row")})

    def _note(self, what, pair):
        self.asked.append((what, pair.name, (self.folder / "predictions.sha256").exists()))


def register(known):
    return [one for pair in known for one in register_foreign(pair, "h200")]


def made(folder: Path, pairs=(PAIR,), **more):
    facts = {"device": "h200", "commit": "abc", "model_sources": "0"}
    runner = ForeignRunner(folder, pairs, Pretender(folder), register, facts, **more)
    runner.run()
    return runner


def test_kernels_come_first_then_the_hash_then_the_plans(tmp_path: Path):
    runner = made(tmp_path / "run", (PAIR, SOFTMAX))
    assert [asked[::2] for asked in runner.measurer.asked] == [("alone", False)] * 2 + [("plans", True)] * 2
    (run,) = find_runs(tmp_path)
    assert set(known_pairs(run)) == {"one", "two"}
    assert known_pairs(run)["one"].blocks == BLOCKS
    assert runner.failures == {"one tile": "wrong", "two tile": "wrong"}
    trace = load_trace(trace_path(run.folder, PAIR, "row"))
    assert trace.header.versions[STAMP] == run.stamp


def test_every_measured_plan_is_scored_on_every_basis_with_what_was_said_before(tmp_path: Path):
    made(tmp_path / "run", (PAIR, SOFTMAX, LASTING))
    found = run_jobs(foreign_jobs(tmp_path))
    counted = {(one.source, one.case): 0 for one in found}
    for one in found:
        counted[one.source, one.case] += 1
        assert one.before == pytest.approx(one.predicted)
        low, high = one.before_interval
        assert low < one.before < high
    sources = ("foreign-trace", "foreign", "foreign-profile")
    assert counted == {
        (source, name): count for source in sources for name, count in (("one", 3), ("two", 1), ("three", 1))
    }


def test_kernels_that_left_no_trace_are_predicted_from_their_times_alone(tmp_path: Path):
    triton = replace(PAIR, name="triton", wait_place="before-main-loop", kernels="triton")
    made(tmp_path / "run", (triton,))
    found = run_jobs(foreign_jobs(tmp_path))
    assert {one.source for one in found} == {"foreign", "foreign-profile"}


def test_a_trial_has_no_predictions_and_is_development_data(tmp_path: Path):
    trial = replace(PAIR, name="trial one")
    runner = ForeignRunner(
        tmp_path / "run",
        (trial,),
        Pretender(tmp_path / "run"),
        lambda known: [],
        {"device": "h200", "commit": "abc", "model_sources": "0"},
    )
    runner.run()
    found = run_jobs(foreign_jobs(tmp_path))
    assert len(found) == 9
    assert {(one.split, one.before, one.device) for one in found} == {("development", None, "h200")}


def test_a_changed_prediction_is_refused(tmp_path: Path):
    made(tmp_path / "run")
    path = tmp_path / "run" / "predictions.json"
    document = json.loads(path.read_text())
    document["predictions"][0]["improvement_points"] += 1.0
    path.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="changed afterwards"):
        run_jobs(foreign_jobs(tmp_path))


def test_a_damaged_pair_is_named(tmp_path: Path):
    made(tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    facts = json.loads(path.read_text())
    del facts["pairs"]["one"]["blocks"]
    path.write_text(json.dumps(facts))
    with pytest.raises(RecordingError, match="pair 'one' is damaged"):
        known_pairs(find_runs(tmp_path)[0])


def test_a_folder_in_use_is_refused_and_after_its_seconds_nothing_is_begun(tmp_path: Path):
    runner = made(tmp_path / "run", seconds=-1.0)
    assert runner.failures == {"one, alone": "not begun: the -1 s were over"}
    with pytest.raises(DescriptionError, match="is not empty"):
        made(tmp_path / "run")


def test_the_list_is_split_by_name_and_fits_the_device():
    pairs = all_pairs()
    assert len({pair.name for pair in pairs}) == len(pairs)
    assert 60 <= sum(len(pair.plans) for pair in pairs) <= 120
    assert {pair.name: split_of(pair.name) for pair in pairs}.items() <= committed_split().items()
    assert {pair.wait_place for pair in pairs} == {"block-barrier", "before-main-loop"}
    assert {pair.is_softmax for pair in pairs} == {pair.is_persistent for pair in pairs} == {False, True}
    for pair in pairs:
        kernel = pair.told().stages[0].kernel
        assert occupancy_of(load("h200"), kernel.block).blocks_per_sm >= pair.blocks_per_sm
        assert [stage.main_loop.unknown for stage in pair.told().stages] == [()] * 2
        assert [stage.main_loop.pipeline_depth for stage in pair.seen().stages] == [None] * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": 4100}, "k is 4100; it must be a multiple of 32"),
        ({"n2": 0, "is_persistent": True}, "the softmax has no persistent form"),
        ({"kernels": "triton"}, "Triton's pairs are two products with one tile"),
        ({"magic": 1}, "magic"),
    ],
)
def test_pairs_that_the_kernels_do_not_compute_are_refused(changes, words):
    with pytest.raises(DescriptionError, match=words):
        pair_of({**PAIR.as_data(), **changes})


def test_a_plan_that_cannot_be_predicted_has_the_reason():
    known = Pretender(Path()).known
    cut = partial(replace, known(PAIR).stream)
    stream = known(PAIR).stream
    short = cut(
        **{name: getattr(stream, name)[:-1] for name in ("stage", "x", "y", "z", "sm", "slot")},
        **{f"{name}_ns": getattr(stream, f"{name}_ns")[:-1] for name in ("issue", "start", "wait", "end")},
    )
    found = register_foreign(replace(known(PAIR), stream=short), "h200")
    assert {one.basis for one in found if one.error} == {"trace"}
    assert len(found) == 3 * len(PLANS)
