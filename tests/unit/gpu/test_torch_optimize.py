"""`optimize` swaps what it says, results and gradients stay, and `restore` leaves the model as it was."""

import copy
import io
import json
import pickle

import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.device import load

torch = pytest.importorskip("torch", reason="pip install torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_mlps import N1, GatedMlp, K, Model, PackedMlp, PlainMlp, relative_error, x_of  # noqa: E402

from wavesim_gpu.layers.choose import Choice  # noqa: E402
from wavesim_gpu.torch import Mlp, modules, optimize, restore  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def words(report) -> dict[str, str]:
    return {one.name: one.shape.activation for one in report.swapped}


def test_mlps_are_told_by_what_they_do_whatever_their_parts_are_called():
    tanh = lambda: nn.GELU(approximate="tanh")  # noqa: E731
    model = Model(
        GatedMlp(),
        GatedMlp(tanh, bias=True),
        PackedMlp(),
        PlainMlp(),
        PlainMlp(functional.gelu),
        nn.Sequential(nn.Linear(K, N1), nn.SiLU(), nn.Linear(N1, K)),
        PlainMlp(lambda h: h),
    )
    report = optimize(model)
    found = [(one.shape.activation, one.shape.gate, one.shape.has_b1) for one in report.swapped]
    assert found == [
        ("swiglu", "separate", False),
        ("geglu", "separate", True),
        ("geglu-exact", "packed", True),
        ("relu", None, True),
        ("gelu-exact", None, True),
        ("silu", None, True),
        (None, None, True),
    ]
    assert report.swapped[3].shape.n2 == 24
    assert report.kept == ()


def test_results_are_the_same_swapped_and_exactly_the_same_restored():
    model = Model(GatedMlp(), PackedMlp(), PlainMlp())
    before_state = {name: value.clone() for name, value in model.state_dict().items()}
    blocks, x = list(model.blocks), x_of()
    with torch.no_grad():
        want = model(x)
        optimize(model)
        assert all(isinstance(block, modules.FastForward) for block in model.blocks)
        assert all(isinstance(block, type(was)) for block, was in zip(model.blocks, blocks, strict=True))
        got = model(x)
        assert restore(model) == 3
        again = model(x)
    assert list(model.blocks) == blocks
    assert max(map(relative_error, got, want)) < 0.01
    assert all(torch.equal(one, other) for one, other in zip(again, want, strict=True))
    assert list(model.state_dict()) == list(before_state)
    assert restore(model) == 0


def test_parameters_are_the_same_objects_in_the_same_order():
    model = Model(GatedMlp(), PlainMlp())
    own, names = list(model.parameters()), list(model.state_dict())
    optimize(model)
    assert list(map(id, model.parameters())) == list(map(id, own))
    assert list(model.state_dict()) == names
    model.load_state_dict({name: torch.ones_like(value) for name, value in model.state_dict().items()})
    restore(model)
    assert all(bool((value == 1).all()) for value in model.parameters())


def test_the_operator_is_called_and_not_the_linear_layers(monkeypatch):
    calls = []
    fake = modules.mlp
    monkeypatch.setattr(modules, "mlp", lambda *a, **k: calls.append(k) or fake(*a, **k))
    model = Model(GatedMlp())
    optimize(model)
    with torch.no_grad():
        model(x_of())
    assert [call["activation"] for call in calls] == ["swiglu"]
    model(x_of())  # in evaluation, also with gradients
    assert len(calls) == 2
    model.train()(x_of())
    assert len(calls) == 2


def test_an_error_of_an_earlier_call_says_which_layer_it_was_told_to(monkeypatch):
    def failing(*arguments, **named):
        raise DeadlockError((), (), "2 calls failed")

    model = Model(GatedMlp())
    optimize(model)
    with monkeypatch.context() as during, torch.no_grad():
        during.setattr(modules, "mlp", failing)
        with pytest.raises(DeadlockError) as caught:
            model(x_of())
    assert caught.value.__notes__ == ["Told to blocks.0, which was called next."]
    assert restore(model) == 1
    with torch.no_grad():
        assert model(x_of())[0].isfinite().all()


def test_twice_is_harmless():
    model = Model(GatedMlp())
    first = optimize(model)
    own = model.blocks[0]
    second = optimize(model)
    assert model.blocks[0] is own
    assert words(first) == words(second) == {"blocks.0": "swiglu"}
    assert restore(model) == 1
    assert type(model.blocks[0]) is GatedMlp


def test_a_module_in_two_places_stays_one_module():
    block = GatedMlp()
    model = Model(block, block)
    report = optimize(model)
    assert len(report.swapped) == 1
    assert model.blocks[0] is model.blocks[1] is not block
    assert restore(model) == 1
    assert model.blocks[0] is model.blocks[1] is block


def test_tied_weights_stay_tied():
    model = Model(GatedMlp(), GatedMlp())
    model.blocks[1].back.weight = model.blocks[0].back.weight
    optimize(model)
    assert model.blocks[1].back.weight is model.blocks[0].back.weight
    with torch.no_grad():
        model.blocks[0].back.weight.zero_()
        assert not model(x_of())[1].any()


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "torch.save"])
def test_copies_are_swapped_models_of_their_own(way):
    model = Model(GatedMlp(), PlainMlp())
    model.blocks[0].first = torch.mul  # a lambda cannot be pickled
    model.blocks[1]._act = functional.relu
    optimize(model)
    if way == "deepcopy":
        other = copy.deepcopy(model)
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(model))  # noqa: S301  # our own bytes
    else:
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        other = torch.load(buffer, weights_only=False)
    x = x_of()
    with torch.no_grad():
        want = model(x)
        model.blocks[0].back.weight.zero_()
        got = other(x)
    assert all(torch.equal(one, two) for one, two in zip(got, want, strict=True))
    assert isinstance(other.blocks[0], modules.FastForward)
    assert restore(other) == 2
    assert [type(block) for block in other.blocks] == [GatedMlp, PlainMlp]
    assert isinstance(model.blocks[0], modules.FastForward)
    assert other.blocks[0].back.weight.any()


def test_training_is_torchs_own_to_the_last_bit():
    def losses(is_swapped):
        model = Model(GatedMlp(), PlainMlp(), PackedMlp()).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        found = []
        for step in range(6):
            if step == 3 and is_swapped:
                optimize(model)  # in the middle: the optimizer's state is of the same parameters
            loss = sum(out.float().pow(2).mean() for out in model(x_of()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
        return found

    plain, swapped = losses(False), losses(True)
    assert swapped == plain
    assert plain[-1] < plain[0]


def test_gradients_in_evaluation_are_right():
    model = Model(GatedMlp(bias=True), PackedMlp(), PlainMlp(), dtype=torch.bfloat16)
    x = x_of().requires_grad_()

    def gradients():
        loss = sum(out.float().pow(2).sum() for out in model(x))
        return torch.autograd.grad(loss, [x, *model.parameters()])

    want = gradients()
    optimize(model)
    assert max(map(relative_error, gradients(), want)) < 0.05


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_swapped_model_compiles_whole(dynamic):
    model, graphs = Model(GatedMlp(), PackedMlp(), PlainMlp()), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    optimize(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend=backend)
    with torch.no_grad():
        for rows in (6, 10):
            for one, two in zip(compiled(x_of(rows)), model(x_of(rows)), strict=True):
                torch.testing.assert_close(one, two)
        assert graphs[0].code.count("wavesim.mlp") == 3
        restore(model)
        compiled(x_of())
    assert "wavesim.mlp" not in graphs[-1].code


def test_a_models_own_hooks_on_a_block_still_run_and_trials_do_not_meet_them():
    seen = []
    model = Model(GatedMlp())
    model.blocks[0].register_forward_hook(lambda module, arguments, out: seen.append(out.shape))
    optimize(model)
    assert seen == []
    with torch.no_grad():
        model(x_of())
    assert seen == [(2, 3, K)]


def test_the_mode_of_the_swapped_module_is_kept_when_restored():
    model = Model(GatedMlp())
    optimize(model)
    model.train()
    restore(model)
    assert model.blocks[0].training


@pytest.mark.parametrize(
    ("activation", "gated"), [(None, False), ("gelu", False), ("swiglu", False), ("swiglu", True)]
)
def test_a_module_of_ones_own(activation, gated):
    wide = 2 * N1 if activation == "swiglu" and not gated else N1
    gate = nn.Linear(K, N1, bias=False) if gated else None
    block = Mlp(nn.Linear(K, wide), nn.Linear(N1, 24), gate=gate, activation=activation)
    double = copy.deepcopy(block).double()
    want = double.train()(x_of().double())
    block = block.bfloat16().eval()
    assert relative_error(block(x_of()), want) < 0.02
    assert relative_error(block.train()(x_of()), want) < 0.02
    assert set(block.state_dict()) >= {"up.weight", "up.bias", "down.weight", "down.bias"}
    report = optimize(nn.Sequential(block))
    assert [(one.name, one.kind) for one in report.swapped] == [("0", "Mlp")]
    assert relative_error(pickle.loads(pickle.dumps(block.eval()))(x_of()), want) < 0.02  # noqa: S301


def test_parts_of_ones_own_that_do_not_go_together_are_named():
    with pytest.raises(DescriptionError, match="w2 has 24 rows; it must have 40"):
        Mlp(nn.Linear(K, N1), nn.Linear(24, K))
    with pytest.raises(DescriptionError, match="activation is 'mish'"):
        Mlp(nn.Linear(K, N1), nn.Linear(N1, K), activation="mish")


def with_choices(monkeypatch):
    from wavesim_gpu.torch import swap

    def choose(shape, device):
        assert device.name == "h200"
        if shape.m == 1:
            return Choice("cublaslt", 100.0, 100.0, "estimated")
        return Choice("row", 95.0, 100.0, "estimated", None, "", (3.0, 7.0))

    monkeypatch.setattr(swap, "choose", choose)


def test_the_report_says_what_is_swapped_gained_and_kept(monkeypatch):
    with_choices(monkeypatch)
    model = Model(GatedMlp(), GatedMlp(), GatedMlp(nn.Tanh))
    report = optimize(model, (1, 512), device=load("h200"))
    lines = str(report).splitlines()
    assert "2 swapped, 1 kept. Time that each MLP saves over cuBLASLt, on h200." in lines[0]
    assert "Only MLPs are swapped, attention is not" in lines[0]
    assert lines[1].split("  ")[0] == "MLP"
    assert lines[2].startswith("blocks.0 and 1 more")
    assert "cuBLASLt, no gain" in lines[2]
    assert "+5.0 % (+3.0 to +7.0), estimated" in lines[2]
    assert lines[3].startswith("blocks.2 (GatedMlp) kept as it is: its forward pass is none of those")
    read = json.loads(report.to_json())
    assert read["swapped"][1]["choices"][1] == {
        "tokens": 512,
        "way": "row",
        "basis": "estimated",
        "predicted_ns": 95.0,
        "library_ns": 100.0,
        "gain_points": pytest.approx(5.0),
        "interval_points": [3.0, 7.0],
    }


def test_names_from_a_model_stay_text(monkeypatch):
    with_choices(monkeypatch)
    model = nn.Module()
    model.add_module("<img src=x onerror=alert(1)>\x1b[2J", GatedMlp().bfloat16())
    report = optimize(model, device=load("h200"))
    assert "<img" not in report._repr_html_()
    assert "&lt;img" in report._repr_html_()
    assert "\x1b" not in str(report)


def test_a_model_without_mlps_says_so():
    assert str(optimize(nn.Sequential(nn.Linear(4, 4)))).startswith("No MLP swapped: none found.")


def test_optimize_says_what_its_arguments_must_be():
    model = Model(GatedMlp())
    with pytest.raises(DescriptionError, match=r"tokens is 512; give a sequence of numbers"):
        optimize(model, 512)
    with pytest.raises(DescriptionError, match=r"tokens lists 0 numbers"):
        optimize(model, ())
    with pytest.raises(DescriptionError, match=r"device is 'h200'; give a Device, such as"):
        optimize(model, device="h200")
    assert type(model.blocks[0]) is GatedMlp


def test_on_a_gpu_without_predictions_the_report_says_why():
    lines = str(optimize(Model(GatedMlp().bfloat16()), device=load("a100-80gb"))).splitlines()
    why = "no products were timed on the a100-80gb, so nothing can be predicted"
    assert f"1 swapped, 0 kept. cuBLASLt computes them: {why}." in lines[0]
    assert lines[2].endswith("cuBLASLt")
