"""`wavesim::mlp` is right as PyTorch's operators must be: compiled, differentiated, cast, distributed."""

import math
import subprocess
import sys

import pytest

from wavesim.errors import DescriptionError

torch = pytest.importorskip("torch", reason="pip install torch")

from wavesim_gpu.layers import torch_formula as formula  # noqa: E402
from wavesim_gpu.layers.description import GATED  # noqa: E402
from wavesim_gpu.torch import mlp  # noqa: E402

SIDES = (6, 10, 14, 9)  # m, k, n1, n2: no two alike, so that none can stand for another
ACTIVATIONS = {
    None: lambda h: h,
    "relu": torch.relu,
    "silu": lambda h: h * torch.sigmoid(h),
    "gelu-exact": lambda h: h * 0.5 * (1 + torch.erf(h / math.sqrt(2))),
    "gelu": lambda h: h * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))),
}
CASES = [(word, form) for word in ACTIVATIONS for form in ("plain",)]
CASES += [(word, form) for word in GATED for form in ("separate", "packed")]


def operands(form, dtype=torch.float64, biases=True, column=True, requires_grad=False, sides=SIDES):
    """Random arguments by name."""
    m, k, n1, n2 = sides
    made = torch.Generator().manual_seed(0)
    wide = 2 * n1 if form == "packed" else n1
    shapes = {"x": (2, m // 2, k), "w1": (k, wide), "w2": (n1, n2)}
    if form == "separate":
        shapes["gate"] = (k, n1)
    if biases:
        shapes |= {"b1": (wide,), "b2": (n2,)} | ({"b_gate": (n1,)} if form == "separate" else {})
    found = {}
    for name, shape in shapes.items():
        is_turned = column and len(shape) == 2
        value = torch.randn(shape[::-1] if is_turned else shape, generator=made, dtype=torch.float64)
        value = (value / (shape[0] ** 0.5 if len(shape) == 2 else 1)).to(dtype).requires_grad_(requires_grad)
        found[name] = value.t() if is_turned else value
    return found


def expected(x, w1, w2, gate=None, activation=None, b1=0.0, b_gate=0.0, b2=0.0):
    """In float64, in words of the definition."""
    values = x.double() @ w1.double() + b1
    if activation not in GATED:
        return ACTIVATIONS[activation](values) @ w2.double() + b2
    if gate is None:
        gates, values = values[..., : w2.shape[0]], values[..., w2.shape[0] :]
    else:
        gates = x.double() @ gate.double() + b_gate
    return (ACTIVATIONS[GATED[activation]](gates) * values) @ w2.double() + b2


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def case(request):
    return request.param


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_it_is_what_it_says(case, biases, column):
    word, form = case
    given = operands(form, biases=biases, column=column)
    want = expected(**given, activation=word)
    for got in (
        mlp(**given, activation=word),
        torch.ops.wavesim.mlp(**given, activation=word),
        torch.ops.wavesim.mlp(**(given | {"x": given["x"][0, 0]}), activation=word),
    ):
        torch.testing.assert_close(got, want if got.dim() == 3 else want[0, 0])


def test_the_operator_passes_torchs_own_examination(case):
    word, form = case
    given = operands(form, dtype=torch.float32, column=False, requires_grad=True)
    named = {name: value for name, value in given.items() if name not in ("x", "w1", "w2")}
    found = torch.library.opcheck(
        torch.ops.wavesim.mlp.default,
        (given["x"], given["w1"], given["w2"]),
        named | {"activation": word},
    )
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("biases", [False, True])
def test_first_and_second_derivatives_are_right(case, biases):
    word, form = case
    given = operands(form, biases=biases, column=False, requires_grad=True, sides=(2, 3, 4, 3))
    names = list(given)

    def run(*values):
        return mlp(**dict(zip(names, values, strict=True)), activation=word, recompute=True)

    assert torch.autograd.gradcheck(run, tuple(given.values()))
    assert torch.autograd.gradgradcheck(run, tuple(given.values()), fast_mode=True)


@pytest.mark.parametrize("recompute", [False, True])
def test_only_what_needs_a_gradient_gets_one(recompute):
    given = operands("separate")
    for wanted in given:
        own = {name: value.detach().requires_grad_(name == wanted) for name, value in given.items()}
        mlp(**own, activation="swiglu", recompute=recompute).sum().backward()
        assert {name for name, value in own.items() if value.grad is not None} == {wanted}


def test_recomputing_keeps_nothing_but_the_arguments():
    given = operands("separate", requires_grad=True, column=False)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        mlp(**given, activation="swiglu", recompute=True)
    assert {t.data_ptr() for t in kept} == {t.data_ptr() for t in given.values()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_stay_near_the_reference(case, dtype):
    word, form = case
    given = operands(form, dtype=dtype, requires_grad=True)
    double = {name: value.detach().double().requires_grad_() for name, value in given.items()}
    got, want = mlp(**given, activation=word, recompute=True), expected(**double, activation=word)
    assert got.dtype == dtype
    assert relative_error(got, want) < 0.01
    leaves = {name: value for name, value in given.items() if value.is_leaf}
    found = torch.autograd.grad(got.float().sum(), list(leaves.values()))
    exact = torch.autograd.grad(want.sum(), [double[name] for name in leaves])
    for one, other in zip(found, exact, strict=True):
        assert relative_error(one, other) < 0.02


def relative_error(got, want) -> float:
    return float(((got.double() - want).norm() / want.norm()).detach())


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_whole_and_meets_the_operator(case, dynamic):
    word, form = case
    given = operands(form, dtype=torch.bfloat16)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda **named: mlp(**named, activation=word) + 1, fullgraph=True, dynamic=dynamic, backend=backend
    )
    with torch.no_grad():
        for rows in (3, 5):
            given["x"] = torch.randn(2, rows, SIDES[1], dtype=torch.bfloat16)
            torch.testing.assert_close(compiled(**given), mlp(**given, activation=word) + 1)
    assert len(graphs) == (1 if dynamic else 2)
    assert all("wavesim.mlp" in graph.code for graph in graphs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Warning only once for all operators", "ignore::DeprecationWarning")
def test_inductor_hands_the_weights_over_in_their_order():
    """Also where it computes an argument itself: orders decide which kernel runs."""
    from wavesim_gpu.layers import torch_operator

    seen = []

    def spy(*arguments):
        seen.append([t.stride() for t in arguments[:3]])
        return torch.empty((*arguments[0].shape[:-1], arguments[2].shape[1]), dtype=arguments[0].dtype)

    torch._dynamo.reset()
    with torch.library._scoped_library("wavesim", "IMPL") as own:
        own.impl("mlp", spy, "CPU", allow_override=True)
        x, w1, w2 = (torch.randn(side) for side in ((4, 16), (32, 16), (16, 32)))
        run = torch.compile(lambda x, w1, w2: mlp(x * 2, w1.t(), w2.t() + 0) + 1, fullgraph=True)
        with torch.no_grad():
            assert run(x, w1, w2).shape == (4, 16)
    assert seen == [[(16, 1), (1, 16), (1, 32)]]
    assert torch_operator._operator is torch.ops.wavesim.mlp.default


@pytest.mark.parametrize("recompute", [False, True])
def test_compiled_training_has_the_same_gradients(recompute):
    given = operands("separate", requires_grad=True, column=False)
    torch._dynamo.reset()

    def loss(**named):
        return (mlp(**named, activation="swiglu", recompute=recompute) ** 2).sum()

    want = torch.autograd.grad(loss(**given), list(given.values()))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(**given), list(given.values()))
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("gradient", [False, True])
def test_autocast_casts_as_for_torchs_own_products(gradient):
    given = operands("separate", dtype=torch.float32, requires_grad=gradient, column=False)
    for call in (mlp, torch.ops.wavesim.mlp):
        with torch.autocast("cpu", torch.bfloat16):
            got = call(**given, activation="swiglu")
        assert got.dtype == torch.bfloat16
        assert relative_error(got, expected(**given, activation="swiglu")) < 0.01
        if gradient:
            found = torch.autograd.grad(got.float().sum(), list(given.values()))
            assert all(one.dtype == torch.float32 for one in found)
    with torch.autocast("cpu", torch.bfloat16, enabled=False):
        assert mlp(**given, activation="swiglu").dtype == torch.float32


def test_no_gradient_is_recorded_where_none_is_wanted():
    given = operands("plain", requires_grad=True, column=False)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert not mlp(**given, activation="relu").requires_grad
            assert not torch.ops.wavesim.mlp(**given).requires_grad


def test_shapes_are_known_without_values():
    given = {name: value.to("meta") for name, value in operands("packed", dtype=torch.float16).items()}
    got = mlp(**given, activation="geglu")
    assert (got.device.type, got.shape, got.stride()) == ("meta", (2, 3, 9), (27, 9, 1))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"activation": "tanh"}, "activation is 'tanh'; it must be None or one of relu, silu"),
        ({"activation": "silu", "gate": torch.ones(10, 14)}, "gate is given with activation 'silu'"),
        ({"b_gate": torch.ones(14)}, "b_gate is given without gate"),
        ({"w1": torch.ones(11, 14)}, "w1 has 11 rows; it must have 10, the columns of x"),
        ({"w2": torch.ones(13, 9)}, "w2 has 13 rows; it must have 14"),
        ({"activation": "swiglu"}, "w2 has 14 rows; it must have 7"),
        ({"activation": "swiglu", "gate": torch.ones(10, 7)}, r"gate is \(10, 7\); it must be \(10, 14\)"),
    ],
)
@pytest.mark.parametrize("recompute", [False, True])
def test_arguments_that_do_not_go_together_are_named(change, match, recompute):
    given = operands("plain", dtype=torch.float32, biases=False, requires_grad=True, column=False) | change
    with pytest.raises(DescriptionError, match=match):
        mlp(**given, recompute=recompute)


TWO_PROCESSES = """
import sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from wavesim_gpu.torch import mlp  # noqa: E402

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 12), torch.nn.Linear(12, 8)
    def forward(self, x):
        weights = x, self.up.weight.t(), self.down.weight.t()
        return mlp(*weights, activation="gelu", b1=self.up.bias, b2=self.down.bias, recompute=True)

def gradients(module, x):
    module(x).pow(2).mean().backward()
    return [p.grad.clone() for p in module.parameters()]

def work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    layer, x = Layer(), torch.randn(6, 8)
    alone = gradients(layer, x)
    layer.zero_grad()
    shared = gradients(torch.nn.parallel.DistributedDataParallel(layer), x[3 * rank: 3 * rank + 3])
    torch.testing.assert_close(shared, alone)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
    print("same")
"""


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO_PROCESSES)
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "same", done.stderr[-2000:]


def test_the_librarys_own_mlp_meets_the_operator_where_it_is_traced():
    import wavesim_gpu

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    given = operands("separate", dtype=torch.bfloat16)
    compiled = torch.compile(
        lambda **named: wavesim_gpu.mlp(**named, activation="swiglu"), fullgraph=True, backend=backend
    )
    with torch.no_grad():
        torch.testing.assert_close(compiled(**given), mlp(**given, activation="swiglu"))
    assert "wavesim.mlp" in graphs[0].code


def test_every_word_is_known():
    assert set(formula.WORDS) == {word for word, _ in CASES if word}


@pytest.mark.filterwarnings("ignore:.*script:DeprecationWarning")  # of PyTorch, by its own functions
@pytest.mark.parametrize("activation", [None, "gelu", "silu"])
def test_derivatives_that_go_forward_are_right(activation):
    """Of `torch.func`, and of PyTorch's dual numbers, with a gradient wanted or not."""
    given, tangent = operands("plain"), torch.ones(2, 3, 10, dtype=torch.float64)
    x = given.pop("x")
    want = torch.func.jvp(lambda x: expected(x, **given, activation=activation), (x,), (tangent,))[1]
    got = torch.func.jvp(lambda x: mlp(x, **given, activation=activation), (x,), (tangent,))[1]
    assert torch.allclose(got, want)
    with torch.autograd.forward_ad.dual_level():
        for recompute in (False, True):
            x.requires_grad_(recompute)
            dual = torch.autograd.forward_ad.make_dual(x, tangent)
            result = mlp(dual, **given, activation=activation, recompute=recompute)
            assert torch.allclose(torch.autograd.forward_ad.unpack_dual(result).tangent, want)
