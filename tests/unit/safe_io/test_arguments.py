"""What is no pipeline, plan or path is refused where it is handed over: name, what it is, what it must be."""

import re

import pytest
from toy_schedules import TOY as DEVICE
from toy_schedules import run

import wavesim
from wavesim.codegen.cuda import generate
from wavesim.comparison import compare
from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError, OutputError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import CustomPolicy
from wavesim.safety.deadlock import safety_of
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.tuning.search import tune
from wavesim.workloads.figure_one import toy

TOY, PLAN = toy(), SemaphoreSync()
FIRST, SECOND = TOY.stages


def refusal(call) -> str:
    with pytest.raises(DescriptionError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: simulate(0, PLAN, DEVICE), "simulate: pipeline is 0; it must be a Pipeline"),
        (lambda: simulate(TOY, PLAN, "toy"), "simulate: device is 'toy'; it must be a Device"),
        (
            lambda: simulate(TOY, PLAN, DEVICE, {}),
            "simulate: costs is {}; it must be a CostModel or None",
        ),
        (lambda: compare(None, [PLAN], DEVICE), "compare: pipeline is None; it must be a Pipeline"),
        (lambda: compare(TOY, PLAN, DEVICE), "must be a list, each entry a Plan"),
        (lambda: compare(TOY, "x", DEVICE), "compare: plans[0] is 'x'; it must be a Plan"),
        (lambda: compare(TOY, [PLAN], 1.5), "compare: device is 1.5; it must be a Device"),
        (lambda: compare(TOY, [PLAN], DEVICE, rounds=0), "compare: rounds is 0; it must be an integer"),
        (lambda: safety_of([], PLAN, DEVICE), "safety_of: pipeline is []; it must be a Pipeline"),
        (lambda: safety_of(TOY, PLAN, None), "safety_of: device is None; it must be a Device"),
        (lambda: generate(TOY, PLAN, None), "generate: device is None; it must be a Device"),
        (
            lambda: tune(TOY, DEVICE, costs=-1),
            "tune: costs is -1; it must be a CostModel or a KnownCosts",
        ),
        (lambda: tune(TOY, DEVICE, executor=2), "tune: executor is 2; it must be an Executor or None"),
        (lambda: tune(TOY, DEVICE, progress="x"), "tune: progress is 'x'; it must be a Callable or None"),
        (lambda: tune(TOY, DEVICE, variants=[1]), "tune: variants is [1]; it must be a Mapping or None"),
        (lambda: tune(TOY, DEVICE, variants={"a": 1}), "tune: variants['a'] is 1; it must be a Pipeline"),
        (lambda: tune(TOY, DEVICE, plans=7), "tune: plans is 7; it must be a list, each entry a Plan"),
        (lambda: tune(TOY, DEVICE, results=5), "tune: results is 5; it must be the path of a file"),
        (lambda: load([]), "device is []; write it as a text"),
        (lambda: Trace.load(0), "Trace.load: path is 0; it must be the path of a file"),
    ],
)
def test_an_argument_of_another_type_is_refused_by_name(call, words):
    assert words in refusal(call)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Pipeline("p", None), "pipeline p: stages is None; it must be a list, each entry a Stage"),
        (lambda: Pipeline("p", FIRST), "must be a list, each entry a Stage"),
        (lambda: Pipeline("p", ["x"]), "pipeline p: stages[0] is 'x'; it must be a Stage"),
        (lambda: Pipeline("p", [FIRST], 3), "dependencies is 3; it must be a list, each entry a Dependency"),
        (lambda: Pipeline("p", [FIRST], [3]), "dependencies[0] is 3; it must be a Dependency"),
        (lambda: Pipeline(3, [FIRST]), "Pipeline: name is 3; it must be a str"),
        (lambda: Dependency(SECOND[x, y], 3), "Dependency: needs is 3; it must be a list"),
    ],
)
def test_what_a_pipeline_is_built_of_is_refused_by_name(call, words):
    assert words in refusal(call)


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("", OutputError, "'.'"),
        ("/", OutputError, "'/'"),
        (None, DescriptionError, "None"),
        (3, DescriptionError, "3"),
    ],
)
def test_a_trace_is_saved_only_where_a_file_is_named(path, kind, words):
    with pytest.raises(kind, match=re.escape(f"Trace.save: path is {words}; it must be the path of a file")):
        run(TOY, PLAN).save(path)


def test_a_basis_that_is_none_is_refused_for_unsafe_plans_too():
    for verdict in (safety_of(TOY, PLAN, DEVICE), wavesim.SafetyVerdict(False, "can deadlock")):
        assert "accept is 'x'; it must be one of cuda" in refusal(
            lambda verdict=verdict: verdict.is_accepted("x")
        )


def test_a_results_file_may_be_named_by_a_text(tmp_path):
    wavesim.tune(TOY, DEVICE, CostModel({"gemm1": 9, "gemm2": 9}), plans=[PLAN], results=str(tmp_path / "r"))
    assert (tmp_path / "r").is_file()


def test_an_error_is_one_line_whatever_a_name_holds():
    policy = CustomPolicy("two\nlines", lambda x, y, grid: y * grid.x + x, lambda x, y, grid: 1)
    words = refusal(lambda: generate(TOY, SemaphoreSync(policy), DEVICE, sizes="runtime"))
    assert "policy two lines is a table for one grid" in words
