"""The operator, modules and swapped models on a GPU: compiled, captured, on streams, cast and trained."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch", reason="pip install torch")

from torch import nn  # noqa: E402
from torch_mlps import GatedMlp  # noqa: E402

import wavesim_gpu  # noqa: E402
from wavesim_gpu.layers import torch_formula as formula  # noqa: E402
from wavesim_gpu.layers.description import GATED  # noqa: E402
from wavesim_gpu.layers.torch_formula import MlpOperands  # noqa: E402
from wavesim_gpu.torch import Mlp, mlp, optimize, restore  # noqa: E402

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("torch has no GPU", allow_module_level=True)
SIDES = (136, 256, 512, 384)  # m, k, n1, n2
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
FORMS = [(word, "plain") for word in formula.ACTIVATIONS] + [
    (word, form) for word in GATED for form in ("separate", "packed")
]
FORM_IDS = ["-".join(map(str, form)) for form in FORMS]
BOTH = [torch.float16, torch.bfloat16]


# Of a backward pass's own thread, at its first product; and of the compiler, at products in float32.
OF_PYTORCH = ("Attempting to run cuBLAS, but there was no current CUDA context", "TensorFloat32 tensor cores")


@pytest.fixture(autouse=True)
def without_pytorchs_warnings():
    """PyTorch's compiler uses parts of PyTorch that are deprecated, and advises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        for words in OF_PYTORCH:
            warnings.filterwarnings("ignore", message=words)
        yield


def operands(word, form, dtype=torch.bfloat16, *, m=SIDES[0], column=True, biases=True, seed=0):
    """Random arguments of `mlp` by name."""
    made = torch.Generator("cuda").manual_seed(seed)
    _, k, n1, n2 = SIDES

    def normal(*shape):
        return torch.randn(shape, generator=made, device="cuda")

    def weight(rows, columns):
        value = (normal(columns, rows) if column else normal(rows, columns)) * rows**-0.5
        return value.to(dtype).t() if column else value.to(dtype)

    wide = 2 * n1 if form == "packed" else n1
    found = {"x": normal(m, k).to(dtype), "w1": weight(k, wide), "w2": weight(n1, n2), "activation": word}
    if form == "separate":
        found["gate"] = weight(k, n1)
    if biases:
        found |= {"b1": normal(wide).to(dtype), "b2": normal(n2).to(dtype)}
        found |= {"b_gate": normal(n1).to(dtype)} if form == "separate" else {}
    return found


def expected(given):
    """In float32, from the same values; TF32 off."""
    tensors = {
        name: value.detach().float() if isinstance(value, torch.Tensor) else value
        for name, value in given.items()
    }
    return formula.forward(MlpOperands(**tensors))


def relative_error(got, want) -> float:
    return float(((got.double() - want.double()).norm() / want.double().norm()).detach())


def poisoned():
    """Fills what the allocator will hand out next with NaN."""
    for _ in range(4):
        torch.full((SIDES[0] * 2048,), torch.nan, device="cuda")


@pytest.mark.parametrize("dtype", BOTH, ids=["fp16", "bf16"])
@pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("column", [False, True], ids=["row", "column"])
def test_the_operator_and_the_direct_call_are_right(dtype, form, column):
    given = operands(*form, dtype, column=column)
    want = expected(given)
    with torch.no_grad():
        for call in (mlp, torch.ops.wavesim.mlp):
            poisoned()
            got = call(**given)
            assert (got.shape, got.dtype, got.is_contiguous()) == (want.shape, dtype, True)
            assert relative_error(got, want) < TOLERANCE[dtype]
        assert relative_error(mlp(**(given | {"x": given["x"][0]})), want[0]) < 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
def test_the_operator_passes_torchs_own_examination(form):
    given = operands(*form, torch.float16)
    places = tuple(given.pop(name) for name in ("x", "w1", "w2"))
    found = torch.library.opcheck(torch.ops.wavesim.mlp.default, places, given, atol=0.02, rtol=0.02)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("dtype", BOTH, ids=["fp16", "bf16"])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
def test_gradients_are_near_those_of_float32(dtype, recompute, form):
    given = operands(*form, dtype)
    own = {n: v.detach().requires_grad_() if isinstance(v, torch.Tensor) else v for n, v in given.items()}
    exact = {n: v.detach().float() if isinstance(v, torch.Tensor) else v for n, v in own.items()}
    names = [name for name, value in own.items() if isinstance(value, torch.Tensor)]
    for name in names:
        exact[name].requires_grad_()
    out = mlp(**own, recompute=recompute)
    grad = torch.randn(out.shape, generator=torch.Generator("cuda").manual_seed(9), device="cuda")
    found = torch.autograd.grad(out, [own[name] for name in names], grad.to(dtype))
    want = torch.autograd.grad(
        formula.forward(MlpOperands(**exact)), [exact[name] for name in names], grad.to(dtype).float()
    )
    for name, one, other in zip(names, found, want, strict=True):
        assert relative_error(one, other) < 3 * TOLERANCE[dtype], name


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [mlp, wavesim_gpu.mlp], ids=["torch.mlp", "mlp"])
def test_it_compiles_whole(dynamic, function):
    torch._dynamo.reset()

    def run(given):
        return function(**(given | {"x": given["x"] * 2})) + 1

    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        for m in (136, 200):
            given = operands("swiglu", "separate", m=m)
            want = expected(given | {"x": given["x"] * 2}) + 1
            assert relative_error(compiled(given), want) < TOLERANCE[torch.bfloat16]


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")  # PyTorch's own first capture
def test_cuda_graphs_of_torch_compile_are_right_beside_eager_calls():
    """They warm up in a memory pool of their own, which nothing of ours may stay in."""
    torch._dynamo.reset()
    functions = [
        torch.compile(lambda given: mlp(**given) * 2, fullgraph=True, mode="reduce-overhead")
        for _ in range(2)
    ]
    with torch.no_grad():
        for seed in range(6):  # warmed up, captured, replayed
            for function in functions:
                given = operands("swiglu", "separate", m=136 + 64 * (seed % 2))
                given |= {"x": torch.randn_like(given["x"])}
                torch.compiler.cudagraph_mark_step_begin()
                found = function(given).clone()
                assert relative_error(found, 2 * expected(given)) < TOLERANCE[torch.bfloat16]
                assert relative_error(mlp(**given), expected(given)) < TOLERANCE[torch.bfloat16]


def test_compiled_training_has_right_gradients():
    torch._dynamo.reset()
    given = operands("swiglu", "separate", torch.float16)
    names = [name for name, value in given.items() if isinstance(value, torch.Tensor)]
    given |= {name: given[name].detach().requires_grad_() for name in names}

    def loss(named, recompute):
        return mlp(**named, recompute=recompute).float().pow(2).mean()

    want = torch.autograd.grad(loss(given, False), [given[name] for name in names])
    for recompute in (False, True):
        found = torch.autograd.grad(
            torch.compile(loss, fullgraph=True)(given, recompute), [given[name] for name in names]
        )
        for one, other in zip(found, want, strict=True):
            assert relative_error(one, other) < 0.01


@pytest.mark.parametrize("call", [mlp, torch.ops.wavesim.mlp], ids=["direct", "operator"])
def test_a_captured_graph_replays_on_new_inputs(call):
    given = operands("swiglu", "separate")
    with torch.no_grad():
        call(**given)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = call(**given)
        for seed in (1, 2, 3):
            given["x"].copy_(operands("swiglu", "separate", seed=seed)["x"])
            out.fill_(torch.nan)
            graph.replay()
            torch.cuda.synchronize()
            assert relative_error(out, expected(given)) < TOLERANCE[torch.bfloat16]


def test_side_streams_do_not_meet():
    inputs = [operands("gelu", "plain", seed=seed) for seed in range(4)]
    streams = [torch.cuda.Stream() for _ in inputs]
    wants, found = [expected(given) for given in inputs], []
    torch.cuda.synchronize()
    with torch.no_grad():
        for _ in range(5):
            for stream, given in zip(streams, inputs, strict=True):
                with torch.cuda.stream(stream):
                    found.append(mlp(**given))
    torch.cuda.synchronize()
    for position, got in enumerate(found):
        assert relative_error(got, wants[position % 4]) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("dtype", BOTH, ids=["fp16", "bf16"])
@pytest.mark.parametrize("function", [mlp, wavesim_gpu.mlp], ids=["torch.mlp", "mlp"])
def test_autocast_casts_what_is_float32(dtype, function):
    given = operands("swiglu", "separate", torch.float32)
    with torch.no_grad(), torch.autocast("cuda", dtype):
        got = function(**given)
    assert got.dtype == dtype
    assert relative_error(got, expected(given)) < 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_no_gradient_is_recorded_where_none_is_wanted(off):
    given = operands("relu", "plain")
    given["w1"].requires_grad_()
    with off():
        got = mlp(**given)
    assert not got.requires_grad
    assert relative_error(got, expected(given)) < TOLERANCE[torch.bfloat16]


def test_a_model_swapped_in_training_learns_as_torchs():
    """Trained by torch's own operations, and by the operator, whose backward pass recomputes."""

    def losses(is_swapped, is_recomputed):
        torch.manual_seed(0)
        block = nn.Sequential(GatedMlp(bias=True), nn.Linear(16, 8)).to("cuda", torch.bfloat16)
        x, target = (torch.randn((64, side), device="cuda").bfloat16() for side in (16, 8))
        if is_swapped:
            assert optimize(block).swapped
        block.train(not is_recomputed)
        optimizer = torch.optim.AdamW(block.parameters(), lr=1e-2)
        found = []
        for _ in range(30):
            loss = (block(x) - target).float().pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
        return found

    plain = losses(False, False)
    assert plain[-1] < 0.8 * plain[0]
    assert losses(True, False) == plain
    assert losses(True, True) == pytest.approx(plain, rel=0.05)


def test_a_module_of_ones_own_is_right_and_copies():
    torch.manual_seed(0)
    block = Mlp(nn.Linear(256, 512), nn.Linear(512, 256), gate=nn.Linear(256, 512), activation="swiglu")
    block = block.to("cuda", torch.bfloat16).eval()
    x = torch.randn((3, 40, 256), device="cuda").bfloat16()
    with torch.no_grad():
        want = copy.deepcopy(block).float()(x.float())
        assert relative_error(block(x), want) < TOLERANCE[torch.bfloat16]


MODELS = ["llama", "llama with biases", "qwen2", "gpt2", "vit"]


def logits(model, inputs):
    with torch.no_grad():
        return model(inputs)[0]


@pytest.mark.parametrize("dtype", BOTH, ids=["fp16", "bf16"])
@pytest.mark.parametrize("kind", MODELS)
def test_logits_of_hugging_face_models_stay(kind, dtype):
    pytest.importorskip("transformers", reason="pip install transformers")
    from torch_models import input_of, model_of

    model, inputs = model_of(kind, dtype, "cuda"), input_of(kind, 40, dtype, "cuda")
    want = logits(model, inputs)
    report = optimize(model)
    assert len(report.swapped) == 2
    assert report.kept == ()
    got = logits(model, inputs)
    assert relative_error(got, want) < 2 * TOLERANCE[dtype]
    assert relative_error(logits(copy.deepcopy(model), inputs), got) < TOLERANCE[dtype]
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(inputs)[0]
    out.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert relative_error(out, want) < 2 * TOLERANCE[dtype]
    restore(model)
    assert relative_error(logits(model, inputs), want) == 0


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_swapped_hugging_face_models_compile_whole(kind):
    pytest.importorskip("transformers", reason="pip install transformers")
    from torch_models import input_of, model_of

    torch._dynamo.reset()
    model, inputs = model_of(kind, torch.bfloat16, "cuda"), input_of(kind, 40, torch.bfloat16, "cuda")
    want = logits(model, inputs)
    optimize(model)
    compiled = torch.compile(model, fullgraph=True)
    assert relative_error(logits(compiled, inputs), want) < 2 * TOLERANCE[torch.bfloat16]


def test_tuning_a_model_keeps_its_results():
    model = nn.Sequential(
        Mlp(nn.Linear(512, 1024), nn.Linear(1024, 512), gate=nn.Linear(512, 1024), activation="swiglu")
    )
    model = model.to("cuda", torch.bfloat16).eval()
    x = torch.randn((64, 512), device="cuda").bfloat16()
    with torch.no_grad():
        want = copy.deepcopy(model).float()(x.float())
        report = optimize(model, (64,), tune=True)
        assert report.swapped[0].choices[0].basis in ("measured", "none")
        assert relative_error(model(x), want) < TOLERANCE[torch.bfloat16]
