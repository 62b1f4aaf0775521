"""`wavesim_gpu.mlp` on other people's arrays: as PyTorch computes it, on the caller's stream, in graphs."""

from types import SimpleNamespace

import pytest

import wavesim_gpu
from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.tensors import tensor_of

TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2}
SIZES = (384, 1024, 1536, 768)


@pytest.fixture(scope="module")
def torch():
    try:
        require_cupy()
    except DeviceError as error:
        pytest.skip(str(error))
    return pytest.importorskip("torch")


def operands(torch, sizes=SIZES, dtype="float16", seed=0, device="cuda"):
    m, k, n1, n2 = sizes
    generator = torch.Generator(device).manual_seed(seed)
    shapes = (((m, k), 1.0), ((k, n1), k**-0.5), ((n1, n2), n1**-0.5))
    return [
        (torch.randn(shape, generator=generator, device=device) * scale).to(getattr(torch, dtype))
        for shape, scale in shapes
    ]


def expected(torch, x, w1, w2, activation=None):
    middle = (x.double() @ w1.double()).to(x.dtype).double()
    if activation == "gelu":
        exact = torch.nn.functional.gelu(x.double() @ w1.double(), approximate="tanh")
        middle = exact.to(x.dtype).double()
    return middle @ w2.double()


def relative_error(got, want) -> float:
    return float((got.double() - want).norm() / want.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("activation", [None, "gelu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_it_equals_torch(torch, dtype, activation):
    x, w1, w2 = operands(torch, dtype=dtype)
    got = wavesim_gpu.mlp(x, w1, w2, activation=activation)
    assert (got.shape, got.dtype, got.device) == ((384, 768), x.dtype, x.device)
    assert relative_error(got, expected(torch, x, w1, w2, activation)) < TOLERANCE[dtype]


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(1, 1024, 1536, 768), (1000, 2048, 4096, 1024), (1536, 4096, 4096, 4096)])
def test_it_equals_torch_at_other_sizes(torch, sizes):
    x, w1, w2 = operands(torch, sizes)
    got = wavesim_gpu.mlp(x, w1, w2)
    assert relative_error(got, expected(torch, x, w1, w2)) < TOLERANCE["float16"]


@pytest.mark.gpu
def test_leading_sides_are_rows(torch):
    x, w1, w2 = operands(torch)
    got = wavesim_gpu.mlp(x.reshape(3, 128, 1024), w1, w2)
    assert got.shape == (3, 128, 768)
    assert bool((got.reshape(384, 768) == wavesim_gpu.mlp(x, w1, w2)).all())


@pytest.mark.gpu
def test_work_goes_to_the_current_stream(torch):
    x, w1, w2 = operands(torch)
    wavesim_gpu.mlp(x, w1, w2)
    late = torch.zeros_like(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)  # on another stream mlp would read zeros
        got = wavesim_gpu.mlp(late, w1, w2)
        doubled = got * 2
    torch.cuda.current_stream().wait_stream(stream)
    assert relative_error(doubled / 2, expected(torch, x, w1, w2)) < TOLERANCE["float16"]


@pytest.mark.gpu
def test_calls_on_several_streams_do_not_meet(torch):
    x, w1, w2 = operands(torch)
    wavesim_gpu.mlp(x, w1, w2)
    inputs = [operands(torch, seed=seed)[0] for seed in range(4)]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    results = []
    for _ in range(10):
        for stream, own in zip(streams, inputs, strict=True):
            with torch.cuda.stream(stream):
                results.append((own, wavesim_gpu.mlp(own, w1, w2)))
    torch.cuda.synchronize()
    for own, got in results:
        assert relative_error(got, expected(torch, own, w1, w2)) < TOLERANCE["float16"]


def captured(torch, x, w1, w2):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = wavesim_gpu.mlp(x, w1, w2, activation="gelu") + 0
    return graph, out


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["chosen", "stream", "pdl+row", "persistent:row"])
def test_a_captured_graph_replays_on_new_inputs(torch, plan, monkeypatch):
    from wavesim_gpu.layers import mlp, prepared
    from wavesim_gpu.layers.candidates import MlpCandidate
    from wavesim_gpu.layers.description import MlpShape

    x, w1, w2 = operands(torch, seed=7)
    monkeypatch.setattr(prepared, "_forced", {})
    mlp.forget_all()
    if plan != "chosen":
        forced = MlpCandidate.read(f"hopper {plan} row 128x128 128x128")
        prepared.force(MlpShape(*SIZES, "fp16", "gelu"), forced)
    wavesim_gpu.mlp(x, w1, w2, activation="gelu")
    graph, out = captured(torch, x, w1, w2)
    for seed in (8, 9, 10):
        x.copy_(operands(torch, seed=seed)[0])
        out.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize()
        assert relative_error(out, expected(torch, x, w1, w2, "gelu")) < TOLERANCE["float16"]
        wavesim_gpu.mlp(x, w1, w2, activation="gelu")  # between replays, and beside the next one
    found = mlp.way_of(x, w1, w2, activation="gelu").candidate
    assert plan == "chosen" or found.plan().name == plan
    mlp.forget_all()


@pytest.mark.gpu
def test_two_graphs_of_the_same_shapes_replay_side_by_side(torch):
    x, w1, w2 = operands(torch)
    wavesim_gpu.mlp(x, w1, w2, activation="gelu")
    inputs = [operands(torch, seed=seed)[0] for seed in (1, 2)]
    graphs = [captured(torch, own, w1, w2) for own in inputs]
    streams = [torch.cuda.Stream() for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream, (graph, _) in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for own, (_, out) in zip(inputs, graphs, strict=True):
        want = expected(torch, own, w1, w2, "gelu")
        assert relative_error(out, want) < TOLERANCE["float16"]


@pytest.mark.gpu
def test_a_capture_before_tuning_says_what_to_do(torch):
    x, w1, w2 = operands(torch, (256, 512, 512, 512))
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(DescriptionError, match="call it once before"), torch.cuda.graph(graph):  # noqa: PT012
        x.add_(0)  # PyTorch warns of an empty graph
        wavesim_gpu.mlp(x, w1, w2)
    torch.cuda.synchronize()
    assert relative_error(wavesim_gpu.mlp(x, w1, w2), expected(torch, x, w1, w2)) < TOLERANCE["float16"]


@pytest.mark.gpu
def test_cupy_numba_and_dlpack_arrays_do_too(torch):
    cupy = pytest.importorskip("cupy")
    x, w1, w2 = operands(torch)
    want = expected(torch, x, w1, w2)
    torch.cuda.synchronize()
    arrays = [cupy.from_dlpack(tensor) for tensor in (x, w1, w2)]
    got = wavesim_gpu.mlp(*arrays)
    assert isinstance(got, cupy.ndarray)
    assert relative_error(torch.from_dlpack(got), want) < TOLERANCE["float16"]

    class OnlyDlpack:
        def __init__(self, tensor):
            self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

    got = wavesim_gpu.mlp(*(OnlyDlpack(tensor) for tensor in (x, w1, w2)))
    assert relative_error(torch.from_dlpack(got), want) < TOLERANCE["float16"]
    cuda = pytest.importorskip("numba.cuda")
    got = wavesim_gpu.mlp(*(cuda.as_cuda_array(array) for array in arrays))
    assert relative_error(torch.from_dlpack(got), want) < TOLERANCE["float16"]


@pytest.mark.gpu
def test_it_runs_on_the_tensors_own_gpu(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    for device in ("cuda:1", "cuda:0"):
        x, w1, w2 = operands(torch, device=device)
        got = wavesim_gpu.mlp(x, w1, w2)
        assert got.device == x.device
        assert relative_error(got, expected(torch, x, w1, w2)) < TOLERANCE["float16"]
    far = operands(torch, device="cuda:1")
    with pytest.raises(DescriptionError, match="w1 is on GPU 0 and x on GPU 1"):
        wavesim_gpu.mlp(far[0], w1, w2)


@pytest.mark.gpu
def test_no_backward_pass_is_said(torch):
    x, w1, w2 = operands(torch)
    w1.requires_grad_()
    with pytest.raises(DescriptionError, match="no backward"):
        wavesim_gpu.mlp(x, w1, w2)
    with torch.no_grad():
        assert wavesim_gpu.mlp(x, w1, w2).shape == (384, 768)


class FakeTensor:
    """What is looked at of a PyTorch tensor, for machines that have none."""

    requires_grad = False

    def __init__(self, shape, dtype="torch.float16", address=4096, device="cuda", index=0, is_row_major=True):
        self.shape, self.dtype, self._address, self._is_row_major = shape, dtype, address, is_row_major
        self.device = SimpleNamespace(type=device, index=index)

    def is_contiguous(self):
        return self._is_row_major

    def stride(self):
        return (1, self.shape[0])

    def data_ptr(self):
        return self._address


FakeTensor.__module__ = "torch"
RIGHT = {"x": (64, 128), "w1": (128, 256), "w2": (256, 512)}


@pytest.mark.parametrize(
    ("name", "fault", "match"),
    [
        ("w1", {"dtype": "torch.float32"}, "w1 is of float32; it must be of float16 or bfloat16"),
        ("x", {"device": "cpu"}, "x is on .*it must be on a GPU"),
        ("w2", {"is_row_major": False}, r"w2 has strides .*row-major: w2.contiguous\(\)"),
        ("x", {"address": 4098}, "x starts at 0x1002; it must be aligned to 16 bytes"),
        ("w2", {"dtype": "torch.bfloat16"}, "w2 is of bf16, x of fp16"),
        ("w1", {"index": 1}, "w1 is on GPU 1 and x on GPU 0"),
        ("w1", {"shape": (127, 256)}, "w1 has 127 rows; it must have 128, the columns of x"),
        ("w2", {"shape": (255, 512)}, "w2 has 255 rows; it must have 256, the columns of w1"),
        ("x", {"shape": (128,)}, r"x has shape \(128,\); it must be a matrix"),
        ("w1", {"shape": (2, 128, 256)}, r"w1 has shape \(2, 128, 256\)"),
        ("x", {"shape": (0, 128)}, "not empty"),
    ],
)
def test_a_wrong_argument_is_named(name, fault, match):
    made = {key: {"shape": shape} for key, shape in RIGHT.items()}
    made[name] |= fault
    with pytest.raises(DescriptionError, match=match) as caught:
        wavesim_gpu.mlp(*(FakeTensor(**made[key]) for key in RIGHT))
    assert "\n" not in str(caught.value)


def test_a_tensor_is_taken_as_it_is():
    found = tensor_of("x", FakeTensor((64, 128), dtype="torch.bfloat16", index=3))
    assert (found.shape, found.dtype, found.device, found.library) == ((64, 128), "bf16", 3, "torch")
