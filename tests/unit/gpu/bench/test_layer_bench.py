"""MLPs of a list: failures are named, gains predicted, one way is timed once; nothing runs here."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from wavesim.bench.case_list import load_list
from wavesim.bench.scoring import scores_of, speeds_of
from wavesim_gpu.bench.kinds import mlp as layer_bench
from wavesim_gpu.bench.kinds.mlp import MlpEstimate, MlpMeasurer, predictions
from wavesim_gpu.bench.kinds.mlp_contenders import way_label
from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands, LayerShape
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.layers import mlp as mlp_calls
from wavesim_gpu.run.timing import Rounds

GOOD = {"is_good": True, "rms_roundings": 1.0, "largest_roundings": 5.0}
TIMES = {
    "eager": 1100,
    "packed": 1000,
    "compiled": 1050,
    "compiled packed": 1020,
    "library": 990,
    "mlp": 950,
    "mlp tuned": 900,
    "our kernels": 910,
}
LIST = load_list("mlps")
CASE = next(case for case in LIST.cases if case.name == "Llama 3 8B M=512")
PLAIN = LayerShape.of(LIST.cases[0].fields)  # without a gate


class Graph:
    """A captured contender that knows its name."""

    def __init__(self, name):
        self.name, self.stream, self.outputs = name, SimpleNamespace(cuda_stream=1), []

    def launch(self, torch):
        raise AssertionError("nothing is launched here")


@pytest.fixture
def made_up(monkeypatch):
    """A GPU and a torch that do nothing, with times made up by name; what tests change of it."""
    state = SimpleNamespace(is_tuned=False, label="ours, row", broken={}, wrong=())
    cuda = SimpleNamespace(
        Stream=lambda: SimpleNamespace(cuda_stream=1), synchronize=lambda: None, empty_cache=lambda: None
    )
    torch = SimpleNamespace(no_grad=nullcontext, compiler=SimpleNamespace(reset=lambda: None), cuda=cuda)

    def contender(name):
        if name in state.broken:
            raise state.broken[name]
        return name

    def mlp_run(shape, *, tune=False):
        if tune:
            return lambda operands: setattr(state, "is_tuned", True)
        return contender("mlp tuned" if state.is_tuned else "mlp")

    def interleaved(contenders, rounds):
        names = [entry.launch.func.__self__.name for entry in contenders]
        return [Rounds([TIMES[name]] * rounds, [1.5] * rounds) for name in names]

    changes = {
        "require_torch": lambda: torch,
        "random_layer": lambda *args: object(),
        "reference": lambda *args: object(),
        "judged": lambda torch, shape, graph, expected: {**GOOD, "is_good": graph.name not in state.wrong},
        "host_ns": lambda *args: [5000, 6000, 7000],
        "first_call": lambda *args: {"ms": 30.0, "compilations": 2, "compile_ms": 900.0},
        "captured": lambda torch, stream, run, sets, count: Graph(run),
        "mlp_run": mlp_run,
        "torch_form": lambda torch, shape, form: contender(form),
        "library_run": lambda *args: contender("library"),
        "ours_run": lambda torch, shape, is_stream_sync=False: (
            None if is_stream_sync else contender("our kernels")
        ),
        "our_best": lambda shape: (105.0, "ours, row"),
        "way_label": lambda *args: state.label if state.is_tuned else "cuBLASLt",
        "interleaved": interleaved,
        "require_cupy": lambda: SimpleNamespace(cuda=SimpleNamespace(ExternalStream=lambda number: number)),
    }
    for name, value in changes.items():
        monkeypatch.setattr(layer_bench, name, value)
    monkeypatch.setattr(cubin_cache, "_chosen", None)
    return state


def test_the_list_has_forty_shapes_and_all_of_them_at_odd_numbers_of_tokens_too():
    assert len(LIST.cases) == 40
    assert {case.fields["tokens"] for case in LIST.cases} >= {1, 777, 8192}
    packed = {LayerShape.of(case.fields).mlp.gate for case in load_list("mlps-packed").cases}
    assert packed == {"packed"}


def test_a_shape_has_torchs_best_form_the_first_choice_and_the_tuned_one(made_up):
    result = MlpMeasurer("abc", 3).measure(CASE)
    speeds = speeds_of(result.rows, LIST.contests)
    assert {way: speed.geomean for way, speed in speeds.items()} == {
        "mlp": round(1000 / 950, 3),
        "mlp tuned": round(1000 / 900, 3),
        "our kernels": round(990 / 910, 3),
    }
    assert result.notes["mlp"] == {
        "first_call": {"ms": 30.0, "compilations": 2, "compile_ms": 900.0},
        "host_ns": 6000,
    }
    assert [row.words for row in result.rows if row.way == "mlp tuned"] == ["ours, row"]
    assert "stream sync" not in {row.way for row in result.rows}


def test_what_takes_the_way_of_the_first_choice_has_its_times(made_up):
    made_up.label = "cuBLASLt"
    rows = {row.way: row for row in MlpMeasurer("abc", 3).measure(CASE).rows}
    assert rows["mlp tuned"].ns == rows["mlp"].ns == (950,) * 3


def test_what_raises_is_named_and_the_rest_is_measured(made_up):
    made_up.broken = {"library": ImportError("no cuBLASLt"), "compiled": RuntimeError("no compiler")}
    result = MlpMeasurer("abc", 3).measure(CASE)
    assert result.missing == {
        "torch compiled": "RuntimeError: no compiler",
        "library": "ImportError: no cuBLASLt",
    }
    assert speeds_of(result.rows, LIST.contests)["mlp"].cases == 1


def test_a_wrong_result_has_no_times_and_says_how_wrong(made_up):
    made_up.wrong = ("mlp",)
    rows = {row.way: row for row in MlpMeasurer("abc", 3).measure(CASE).rows}
    assert (rows["mlp"].correct, rows["mlp"].ns) == (False, ())
    assert "largest_roundings" in rows["mlp"].error
    assert "mlp" not in speeds_of(rows.values(), LIST.contests)


def test_predictions_are_of_our_kernels_gain_over_the_library(made_up):
    known = {CASE.name: MlpEstimate(1_000_000.0, 900_000.0), "none of ours": MlpEstimate(1.0, None)}
    (said,) = predictions(known, "h200").values()
    keyed = {(entry.case, entry.order, entry.plan): entry for entry in said}
    assert set(keyed) == {(CASE.name, "", way) for way in ("library", "our kernels")}
    scores = scores_of(keyed, MlpMeasurer("abc", 3).measure(CASE).rows, LIST.baseline)
    assert scores.median_abs_error_points == pytest.approx(10 - 100 * (1 - 910 / 990), abs=1e-3)


def test_tuned_algorithms_of_the_library_make_another_way(monkeypatch):
    choice = SimpleNamespace(label="cublaslt", reason="", algorithms=())
    monkeypatch.setattr(mlp_calls, "way_of", lambda *arrays, **options: choice)
    row = SimpleNamespace(t=lambda: None)
    operands = LayerOperands(x=None, up=row, down=row)
    assert way_label(PLAIN, operands) == "cublaslt"
    choice.algorithms = (("first", "7"),)
    tuned = way_label(PLAIN, operands)
    assert tuned.startswith("cublaslt (algorithms ")
    choice.algorithms = (("first", "8"),)
    assert way_label(PLAIN, operands) != tuned
    choice.reason = "nvcc is missing"
    assert way_label(PLAIN, operands).startswith("cublaslt (nvcc is missing) (algorithms ")
