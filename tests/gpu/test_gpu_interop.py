"""`wavesim_gpu.mlp` on other people's arrays: as PyTorch computes it, on the caller's stream, in graphs."""

import pytest

import wavesim_gpu
from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.layers import mlp as mlp_calls
from wavesim_gpu.layers import prepared
from wavesim_gpu.layers.candidates import FUSED, IN_TURN, ROWS, MlpCandidate
from wavesim_gpu.layers.choose import LIBRARY
from wavesim_gpu.layers.description import MlpShape

TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2}
SIZES = (384, 1024, 1536, 768)
WAYS = {
    LIBRARY: None,
    "in turn": f"hopper {IN_TURN} grouped:4 128x128 64x128",
    "rows": f"hopper {ROWS} grouped:4 128x192 64x128",
    "fused": f"hopper {FUSED} grouped:4 128x128 128x128",
}


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


@pytest.fixture
def force(torch):
    """Has `mlp` of SIZES take a way of `WAYS`."""

    def forced(way, activation=None, dtype="fp16"):
        word = WAYS[way]
        candidate = MlpCandidate.read(word) if word else None
        prepared.force(MlpShape(*SIZES, dtype, activation), candidate)

    yield forced
    prepared._forced.clear()
    prepared.forget()


@pytest.mark.gpu
@pytest.mark.parametrize("activation", [None, "gelu"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_equals_torch_and_is_the_one_that_was_asked_for(torch, force, way, activation):
    force(way, activation)
    x, w1, w2 = operands(torch, seed=3)
    assert mlp_calls.way_of(x, w1, w2, activation=activation).label == (WAYS[way] or LIBRARY)
    for seed in (3, 4, 5):
        x = operands(torch, seed=seed)[0]
        got = wavesim_gpu.mlp(x, w1, w2, activation=activation)
        assert relative_error(got, expected(torch, x, w1, w2, activation)) < TOLERANCE["float16"]
    wavesim_gpu.check()


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
def test_a_captured_graph_replays_on_new_inputs(torch, force, way):
    force(way, "gelu")
    x, w1, w2 = operands(torch, seed=7)
    wavesim_gpu.mlp(x, w1, w2, activation="gelu")
    graph, out = captured(torch, x, w1, w2)
    for seed in (8, 9, 10):
        x.copy_(operands(torch, seed=seed)[0])
        out.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize()
        assert relative_error(out, expected(torch, x, w1, w2, "gelu")) < TOLERANCE["float16"]
        wavesim_gpu.mlp(x, w1, w2, activation="gelu")  # between replays, and beside the next one


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
def test_threads_on_one_stream_do_not_write_into_each_others_intermediates(torch, force, way):
    from concurrent.futures import ThreadPoolExecutor

    force(way)
    _, w1, w2 = operands(torch)
    inputs = [operands(torch, seed=seed)[0] for seed in range(4)]
    wanted = [wavesim_gpu.mlp(x, w1, w2) for x in inputs]
    torch.cuda.synchronize()

    def calls(which):
        return [(which, wavesim_gpu.mlp(inputs[which], w1, w2)) for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        found = [pair for pairs in pool.map(calls, range(4)) for pair in pairs]
    torch.cuda.synchronize()
    assert all(bool((got == wanted[which]).all()) for which, got in found)


@pytest.mark.gpu
def test_odd_addresses_rows_and_batches_are_as_torch_has_them(torch, force):
    force("rows")
    x, w1, w2 = operands(torch)
    want = expected(torch, x, w1, w2)
    memory = torch.empty(384 * 1024 + 1, dtype=torch.float16, device="cuda")
    odd = memory[1:].view(384, 1024)
    wide = torch.zeros((384, 1025), dtype=torch.float16, device="cuda")[:, :1024]
    turned = torch.empty((1024, 384), dtype=torch.float16, device="cuda").t()
    middle = torch.zeros((3, 200, 1024), dtype=torch.float16, device="cuda")[:, :128]
    for given in (odd, wide, turned, middle):
        given.copy_(x.reshape(given.shape))
        got = wavesim_gpu.mlp(given, w1, w2)
        assert got.shape == (*given.shape[:-1], 768)
        assert relative_error(got.reshape(384, 768), want) < TOLERANCE["float16"]


@pytest.mark.gpu
def test_out_is_written_and_nothing_beside_it(torch, force):
    force("fused")
    x, w1, w2 = operands(torch)
    memory = torch.full((3 * 384, 768), 7.0, dtype=torch.float16, device="cuda")
    out = memory[384:768]
    assert wavesim_gpu.mlp(x, w1, w2, out=out) is out
    assert relative_error(out, expected(torch, x, w1, w2)) < TOLERANCE["float16"]
    assert bool((memory[:384] == 7).all())
    assert bool((memory[768:] == 7).all())
    with pytest.raises(DescriptionError, match="out overlaps x"):
        wavesim_gpu.mlp(x, w1[:, :1024], w1[:, :1024], out=x)


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
def test_a_capture_before_the_first_call_says_what_to_do(torch):
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
