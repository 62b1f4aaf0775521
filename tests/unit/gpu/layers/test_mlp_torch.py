"""`wavesim_gpu.mlp` where PyTorch has a part in the call: on a CPU, as PyTorch has no GPU in these tests."""

import threading
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")

import wavesim_gpu  # noqa: E402  # not where PyTorch is missing
from wavesim.errors import DescriptionError  # noqa: E402
from wavesim_gpu.driver.tensors import Tensor  # noqa: E402
from wavesim_gpu.layers import mlp as calls  # noqa: E402
from wavesim_gpu.layers import prepared  # noqa: E402
from wavesim_gpu.layers.choose import Choice  # noqa: E402
from wavesim_gpu.layers.torch_formula import MlpOperands, forward  # noqa: E402


def operands(dtype=torch.float16):
    generator = torch.Generator().manual_seed(0)
    sides = ((4, 8), (16, 8), (8, 16))
    x, up, down = (torch.randn(one, generator=generator).to(dtype) for one in sides)
    return x, up.t(), down.t()


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # of PyTorch, by its own compiler
def test_a_compiled_function_has_it_whole_as_its_first_call_too():
    x, w1, w2 = operands()
    compiled = torch.compile(
        lambda *arrays: wavesim_gpu.mlp(*arrays, activation="gelu") * 2, fullgraph=True, backend="aot_eager"
    )
    with torch.no_grad():
        got = compiled(x, w1, w2)
        assert torch.equal(got, forward(MlpOperands(x, w1, w2, activation="gelu")) * 2)


def test_where_a_gradient_is_wanted_there_is_one():
    x, w1, w2 = operands(torch.float32)
    x.requires_grad_()
    wavesim_gpu.mlp(x, w1, w2).sum().backward()
    assert torch.allclose(x.grad, (w1 @ w2).sum(1).expand(4, 8), atol=1e-4)
    with pytest.raises(DescriptionError, match="out is given where a gradient is wanted"):
        wavesim_gpu.mlp(x, w1, w2, out=torch.empty(4, 8))


def test_autocast_casts_and_meta_tensors_have_shapes():
    x, w1, w2 = operands(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert wavesim_gpu.mlp(x, w1, w2).dtype == torch.bfloat16
    shapes = [torch.empty(one.shape, device="meta", dtype=torch.float16) for one in (x, w1, w2)]
    got = wavesim_gpu.mlp(*shapes)
    assert (got.shape, got.device.type) == ((4, 8), "meta")


def test_what_cannot_be_computed_is_refused_by_name():
    x, w1, w2 = operands()
    with pytest.raises(DescriptionError, match=r"x is on cpu; .*x.cuda"):
        wavesim_gpu.mlp(x, w1, w2)

    class Quantised(torch.Tensor):
        pass

    with pytest.raises(DescriptionError, match=r"x is a .*Quantised, which keeps its elements"):
        wavesim_gpu.mlp(x.as_subclass(Quantised), w1, w2)


class Way:
    """Notes its calls."""

    label, scratch_bytes = "noted", 100

    def __init__(self):
        self.calls, self.threads = [], []

    def bytes(self, count):
        self.threads.append(threading.get_ident())
        return torch.empty(count, dtype=torch.uint8)

    def run(self, call):
        self.calls.append(call)


@pytest.fixture
def way(monkeypatch):
    """What every call takes; PyTorch's CPU tensors pass for a GPU's."""
    noted = Way()
    prepared.forget()
    monkeypatch.setattr(
        prepared, "_first", lambda layout: prepared.LoadedMlp(layout.shape, Choice("noted"), noted)
    )

    def tensor_of(name, array):
        place, strides = array.data_ptr(), tuple(array.stride())
        return Tensor(array, place, tuple(array.shape), "fp16", -1, "torch", strides)

    stand_ins = {
        "tensor_of": tensor_of,
        "on_device_of": lambda tensor: nullcontext(),
        "is_capturing": lambda tensor: False,
        "_stream_of": lambda device: 7,
        "_current_device": lambda: -1,
        "_is_torch_capturing": lambda: False,
        "_empty": lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype),
        "_bytes_of_torch": lambda count, device: noted.bytes(count),
        "_scratch": {},
    }
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(calls, name, stand_in, raising=False)
    yield noted
    prepared.forget()


def test_the_second_call_of_a_layout_looks_at_nothing_but_its_key(way, monkeypatch):
    x, w1, w2 = operands()
    results = [wavesim_gpu.mlp(x, w1, w2)]
    monkeypatch.setattr(calls, "_checked", None)
    results.append(wavesim_gpu.mlp(x, w1, w2, limit_s=1))
    first, second = way.calls
    assert [call.out for call in way.calls] == [result.data_ptr() for result in results]
    assert (first.x, first.w1, first.w2, first.stream) == (x.data_ptr(), w1.data_ptr(), w2.data_ptr(), 7)
    assert (first.limit_ns, second.limit_ns) == (30 * 10**9, 10**9)
    assert first.scratch == second.scratch


def test_a_stream_has_scratch_memory_of_its_own_that_grows(way, monkeypatch):
    x, w1, w2 = operands()
    for stream in (7, 8, 7):
        monkeypatch.setattr(calls, "_stream_of", lambda device, stream=stream: stream)
        wavesim_gpu.mlp(x, w1, w2)
    first, second, third = (call.scratch for call in way.calls)
    assert first == third != second
    way.scratch_bytes = 5000
    prepared.forget()
    wavesim_gpu.mlp(x, w1, w2)
    assert calls._scratch[-1, 7].size == 5000


def test_memory_that_is_kept_is_of_no_pool_that_the_calling_thread_allocates_from(way, monkeypatch):
    """Of a captured call it is of the graph's pool."""
    wavesim_gpu.mlp(*operands())
    monkeypatch.setattr(calls, "_is_torch_capturing", lambda: True)
    wavesim_gpu.mlp(*operands())
    assert [thread == threading.get_ident() for thread in way.threads] == [False, True]


def test_much_memory_is_not_kept(way, monkeypatch):
    monkeypatch.setattr(calls, "MOST_SCRATCH_BYTES", 50)
    wavesim_gpu.mlp(*operands())
    assert calls._scratch == {}
    assert len(way.calls) == 1


def test_an_argument_whose_memory_was_freed_is_refused(way):
    x, w1, w2 = operands()
    wavesim_gpu.mlp(x, w1, w2)
    w1.untyped_storage().resize_(0)
    with pytest.raises(DescriptionError, match="has no memory: its storage was freed"):
        wavesim_gpu.mlp(x, w1, w2)
    assert len(way.calls) == 1


def test_a_backward_pass_refuses_what_was_overwritten(way):
    x, w1, w2 = operands()
    out, weight = torch.zeros(4, 8).half(), torch.ones(8, requires_grad=True)
    product = out * weight
    with torch.no_grad():
        assert wavesim_gpu.mlp(x, w1, w2, out=out) is out
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        inference = torch.zeros(4, 8).half()
        assert wavesim_gpu.mlp(x, w1, w2, out=inference) is inference


def test_another_type_stride_or_option_is_another_layout(way):
    x, w1, w2 = operands()
    wavesim_gpu.mlp(x, w1, w2)
    wavesim_gpu.mlp(x, w1.contiguous(), w2)
    wavesim_gpu.mlp(x[::2], w1, w2)
    wavesim_gpu.mlp(x, w1, w2, b2=torch.zeros(8).half())
    assert len(prepared.layouts) == 4
    assert [call.w1_stride for call in way.calls] == [8, 16, 8, 8]
    assert [call.x_stride for call in way.calls] == [8, 8, 16, 8]


@pytest.mark.parametrize("activation", [None, "gelu", "gelu-exact", "relu", "silu", "swiglu", "geglu"])
def test_pytorchs_operations_compute_the_same_mlp(activation):
    x, w1, w2 = operands(torch.float64)
    gated = activation in ("swiglu", "geglu")
    acts = {
        None: lambda v: v,
        "gelu": lambda v: 0.5 * v * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (v + 0.044715 * v**3))),
        "gelu-exact": lambda v: 0.5 * v * (1 + torch.erf(v / 2**0.5)),
        "relu": lambda v: v.clamp(min=0),
        "silu": lambda v: v / (1 + torch.exp(-v)),
    }
    act = acts[{"swiglu": "silu", "geglu": "gelu"}.get(activation, activation)]
    b1, b2 = torch.randn(16, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    if gated:
        gate, b_gate = torch.randn_like(w1), torch.randn_like(b1)
        want = (act(x @ gate + b_gate) * (x @ w1 + b1)) @ w2 + b2
        packed, both = torch.cat([gate, w1], 1), torch.cat([b_gate, b1])
        ways = [
            forward(MlpOperands(x, w1, w2, gate, activation, b1, b_gate, b2)),
            forward(MlpOperands(x, packed, w2, activation=activation, b1=both, b2=b2)),
        ]
    else:
        want = act(x @ w1 + b1) @ w2 + b2
        ways = [forward(MlpOperands(x, w1, w2, activation=activation, b1=b1, b2=b2))]
    assert all(torch.allclose(got, want) for got in ways)
