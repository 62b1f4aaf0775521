"""The run over all shapes: predictions first, failures recorded, resumed; nothing is really timed here."""

import hashlib
import json
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from wavesim.bench.layer_results import load_layers, summary_lines
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim_gpu.__main__ import main
from wavesim_gpu.bench.kinds import mlp as layer_bench
from wavesim_gpu.bench.kinds.mlp import run_layers
from wavesim_gpu.bench.kinds.mlp_contenders import way_label
from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands
from wavesim_gpu.bench.kinds.mlp_shapes import all_shapes
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.layers import mlp as mlp_calls
from wavesim_gpu.run.timing import Rounds

GOOD = {"is_good": True, "rms_roundings": 1.0, "largest_roundings": 5.0}
TIMES = {
    "eager": 1100,
    "packed": 1000,
    "compiled": 1050,
    "compiled packed": 1020,
    "fused bias and GELU": 1000,
}
TIMES |= {"library": 990, "mlp": 950, "mlp tuned": 900, "our kernels": 910}
NAME = "Llama 3 8B M=512"


class Graph:
    """A captured contender that knows its name."""

    def __init__(self, name):
        self.name, self.stream, self.outputs = name, SimpleNamespace(cuda_stream=1), []

    def launch(self, torch):
        raise AssertionError("nothing is launched here")


@pytest.fixture
def made_up(monkeypatch):
    """A GPU and a torch that do nothing, with times made up by name; what tests change of it."""
    state = SimpleNamespace(is_tuned=False, label="ours, row", broken={}, written=[])
    cuda = SimpleNamespace(
        Stream=lambda: SimpleNamespace(cuda_stream=1), synchronize=lambda: None, empty_cache=lambda: None
    )
    torch = SimpleNamespace(
        __version__="0", no_grad=nullcontext, compiler=SimpleNamespace(reset=lambda: None), cuda=cuda
    )

    def contender(name):
        if name in state.broken:
            raise state.broken[name]
        return name

    def mlp_run(shape, *, tune=False):
        if tune:
            return lambda operands: setattr(state, "is_tuned", True)
        return contender("mlp tuned" if state.is_tuned else "mlp")

    def interleaved(contenders, rounds):
        names = [one.launch.func.__self__.name for one in contenders]
        return [Rounds([TIMES[name]] * rounds, [1.5] * rounds) for name in names]

    def second(cache, names):
        return [{"name": name, "ms": 4.0, "compilations": 0, "compile_ms": 0.0} for name in names]

    changes = {
        "require_torch": lambda: torch,
        "random_layer": lambda *args: object(),
        "reference": lambda *args: object(),
        "judged": lambda *args: GOOD,
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
        "query": lambda: load("h200"),
        "require_gpu": lambda: None,
        "versions": lambda: {"driver": "1"},
        "in_second_process": second,
    }
    for name, value in changes.items():
        monkeypatch.setattr(layer_bench, name, value)
    monkeypatch.setattr(cubin_cache, "_chosen", None)
    return state


def test_a_shape_has_torchs_best_form_the_first_choice_and_the_tuned_one(made_up, tmp_path, capsys):
    found = load_layers(run_layers(tmp_path / "layers.json", only=NAME, commit="abc"))
    (row,) = found.rows
    assert (row.name, row.torch.name) == (NAME, "torch packed")
    assert row.speed("mlp").value == pytest.approx(1000 / 950)
    assert row.speed("mlp tuned").value == pytest.approx(1000 / 900)
    assert "first choice: speed over the best of torch's forms 1.053, 1 of 40" in summary_lines(found)[0]
    assert found.host_ns["mlp"] == {NAME: 6000}
    assert found.first_calls_ms == {NAME: 30.0}
    assert found.seen_calls == {NAME: (4.0, 0)}
    assert f"{NAME}: " in capsys.readouterr().err


def test_what_raises_is_recorded_and_the_rest_is_measured(made_up, tmp_path):
    made_up.broken = {"library": ImportError("no cuBLASLt"), "compiled": RuntimeError("no compiler")}
    found = load_layers(run_layers(tmp_path / "layers.json", only=NAME, commit="abc"))
    assert [one[1:] for one in found.failures] == [
        ("torch compiled", "RuntimeError: no compiler"),
        ("library", "ImportError: no cuBLASLt"),
    ]
    assert found.summary("mlp").geomean == pytest.approx(1000 / 950)
    made_up.is_tuned, made_up.broken = False, {"mlp": TypeError("no gate")}
    found = load_layers(run_layers(tmp_path / "other.json", only=NAME, commit="abc"))
    assert found.summary("mlp") is None
    assert "first choice: no shape measured beside torch" in summary_lines(found)
    assert f"{NAME}, mlp: TypeError: no gate" in summary_lines(found)


def test_a_wrong_result_has_no_speed_and_is_named(made_up, tmp_path, monkeypatch):
    wrong = {**GOOD, "is_good": False}
    monkeypatch.setattr(
        layer_bench, "judged", lambda torch, shape, one, expected: wrong if one.name == "mlp" else GOOD
    )
    found = load_layers(run_layers(tmp_path / "layers.json", only=NAME, commit="abc"))
    assert found.failures == ((NAME, "mlp", "wrong result"),)
    assert found.summary("mlp") is None


def test_predictions_are_in_the_file_with_their_hash_before_anything_is_timed(
    made_up, tmp_path, monkeypatch, capsys
):
    path, seen = tmp_path / "layers.json", []
    choice = SimpleNamespace(label="cublaslt", predicted_ns=126.0, library_ns=126.0)
    chosen = SimpleNamespace(choose=lambda shape, device: choice)
    monkeypatch.setitem(sys.modules, "wavesim_gpu.layers.choose", chosen)
    timed = layer_bench.interleaved

    def looking(contenders, rounds):
        seen.append(json.loads(path.read_text())["registered"])
        return timed(contenders, rounds)

    monkeypatch.setattr(layer_bench, "interleaved", looking)
    found = load_layers(run_layers(path, only=NAME, commit="abc"))
    (registered,) = seen
    assert len(registered["choices"]) == 40
    text = json.dumps(registered["choices"], sort_keys=True)
    assert registered["sha256"] == hashlib.sha256(text.encode()).hexdigest() == found.registered_sha256
    assert registered["sha256"] in capsys.readouterr().err
    assert found.predicted[NAME] == pytest.approx(126 / 105)


def test_a_run_goes_on_with_what_its_file_lacks(made_up, tmp_path, capsys):
    path = tmp_path / "layers.json"
    run_layers(path, only="Llama 3 8B", seconds=0, commit="abc")
    assert "8 shapes are left for --resume" in capsys.readouterr().err
    run_layers(path, only=NAME, commit="abc")
    run_layers(path, only="Llama 3 8B", is_resumed=True)
    found = load_layers(path)
    assert [row.tokens for row in found.of("Llama 3 8B")] == [1, 16, 64, 333, 512, 1024, 2048, 5000]
    assert len(found.seen_calls) == 8
    assert found.results.commit == "abc"


@pytest.mark.parametrize("field", ["shapes_sha256", "kernel_sources"])
def test_a_file_of_other_shapes_or_kernels_is_not_resumed(made_up, tmp_path, field):
    path = run_layers(tmp_path / "layers.json", only=NAME, commit="abc")
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, field: "other"}))
    with pytest.raises(DescriptionError, match="were other, now"):
        run_layers(path, only=NAME, is_resumed=True)


def test_what_breaks_the_gpu_is_written_down_and_ends_the_run(made_up, tmp_path, monkeypatch):
    def broken(*args):
        raise RuntimeError("an illegal memory access")

    monkeypatch.setattr(layer_bench, "judged", broken)
    path = tmp_path / "layers.json"
    with pytest.raises(RuntimeError):
        run_layers(path, only=NAME, commit="abc")
    assert load_layers(path).failures == ((NAME, "all", "RuntimeError: an illegal memory access"),)


def test_a_name_of_no_shape_is_refused_in_one_line(tmp_path, capsys):
    assert main(["layers", "--out", str(tmp_path / "x.json"), "--only", "BERT"]) == 2
    assert capsys.readouterr().err.startswith("--only is 'BERT'; it is in no shape's name, such as 'GPT-3")


def test_tuned_algorithms_of_the_library_make_another_way(monkeypatch):
    choice = SimpleNamespace(label="cublaslt", reason="", algorithms=())
    monkeypatch.setattr(mlp_calls, "way_of", lambda *arrays, **options: choice)
    row = SimpleNamespace(t=lambda: None)
    operands = LayerOperands(x=None, up=row, down=row)
    assert way_label(all_shapes()[0], operands) == "cublaslt"
    choice.algorithms = (("first", "7"),)
    tuned = way_label(all_shapes()[0], operands)
    assert tuned.startswith("cublaslt (algorithms ")
    choice.algorithms = (("first", "8"),)
    assert way_label(all_shapes()[0], operands) != tuned
    choice.reason = "nvcc is missing"
    assert way_label(all_shapes()[0], operands).startswith("cublaslt (nvcc is missing) (algorithms ")
