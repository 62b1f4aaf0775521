"""Products across GPUs with a process per rank: as lists are measured, and as PyTorch operators.

With one GPU both processes have it in turns, so that memory is mapped by CUDA IPC as it is among GPUs.
"""

from types import SimpleNamespace

import pytest

from wavesim_gpu.bench.kinds.two_gpus import PeerMeasurer
from wavesim_gpu.bench.kinds.two_gpus.turns import TOLERANCE
from wavesim_gpu.peers.groups import ProcessPeers

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

ROWS, K, N = 1024, 1408, 1536  # of one rank


@pytest.fixture(scope="module", params=[(0, 0), (0, 1)], ids=["one GPU", "two GPUs"])
def devices(request):
    if torch.cuda.device_count() <= max(request.param):
        pytest.skip("needs two GPUs of one host")
    return request.param


@pytest.fixture
def measured(devices):
    """What rank 0 says of a way under a part of the measuring, both ranks on these GPUs."""
    measurer = PeerMeasurer("test", 3)

    def measure(part, **fields):
        words = {"m": 512, "k": 6144, "n": 4096, "devices": list(devices), "part": part, **fields}
        found = measurer.measure(SimpleNamespace(name="shape", fields=words))
        return found.rows, found.notes

    yield measure
    measurer.close()


@pytest.mark.parametrize("way", ["stores", "exchange"])
def test_replays_of_two_processes_under_skew_give_the_same_right_bits(measured, way):
    (row,), notes = measured("skew", calls=100, ways=[way])
    assert row.correct
    assert notes["skew"]["different_bits"] == 0


@pytest.mark.parametrize("way", ["stores", "exchange"])
def test_a_process_that_ends_in_the_middle_is_named_by_the_one_that_is_left(measured, way):
    _, notes = measured("killed", ways=[way])
    assert "of rank 1" in notes["killed"]["message"]
    assert notes["killed"]["gpu_works"]


def test_every_way_is_right_and_timed_where_there_is_a_link(measured, devices):
    rows, _ = measured("right", m=512, k=1408)
    assert all(row.correct for row in rows)
    if len(set(devices)) == 2:
        rows, notes = measured("both", m=512, k=1408)
        assert {"stores", "sequence", "gemm"} <= {row.way for row in rows if row.ns}
        assert notes["stores"]["needs"]


CUDA = "cuda"
EXCHANGED = (("all-reduce", "bf16", False), ("all-reduce", "fp16", True), ("reduce-scatter", "bf16", True))


def joined(rank, devices, meeting, backend):
    """The group, this rank's calls, and what makes operands that all ranks know."""
    import torch.distributed as dist  # in a process of its own

    from wavesim_gpu.driver.device import require_cupy
    from wavesim_gpu.torch.parallel_calls import calls_of

    torch.cuda.set_device(devices[rank])
    require_cupy().cuda.Device(devices[rank]).use()
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=2)
    calls = calls_of(dist.group.WORLD)
    memory = calls.memory(torch.device(CUDA, devices[rank]))
    memory.peers = ProcessPeers(rank, 2, memory.exchange, may_share=True)
    generator = torch.Generator(CUDA).manual_seed(0)

    def normal(*shape, dtype=torch.bfloat16):
        return torch.randn(shape, generator=generator, device=CUDA, dtype=dtype)

    return dist, calls, normal


def error_of(result, expected):
    return float((result.float() - expected).abs().max() / expected.abs().max())


def choose(calls, kind, x, w, bias=None, way="exchange"):
    from wavesim_gpu.peers.choice import WayChoice  # where there is PyTorch

    calls.chosen[calls.shape_of(kind, x, w, bias)] = WayChoice(way)


def linear_layers(rank, devices, meeting):
    """Exchanged layers of several shapes over one workspace, in turns, and views that TMA cannot take."""
    dist, calls, normal = joined(rank, devices, meeting, "gloo")
    layers = []
    for number, (kind, word, has_bias) in enumerate(EXCHANGED):
        dtype = torch.bfloat16 if word == "bf16" else torch.float16
        rows, n = ROWS if kind == "reduce-scatter" else ROWS - 24, N + 256 * number
        pairs = [[normal(*shape, dtype=dtype) for shape in ((rows, K), (n, K))] for _ in range(2)]
        bias = normal(n, dtype=dtype) if has_bias else None
        total = sum(x.float() @ w.float().T for x, w in pairs) + (bias.float() if has_bias else 0)
        part = total.chunk(2)[rank] if kind == "reduce-scatter" else total
        x, w = pairs[rank]
        if number == 1:  # on one rank views that begin where TMA cannot: both must go the same way
            x, w = (torch.cat([t.new_zeros(1 - rank), t.flatten()])[1 - rank :].view(t.shape) for t in (x, w))
        choose(calls, kind, x, w, bias)
        layers.append((kind, x, w, bias, part, word))
    for _ in range(3):
        for kind, x, w, bias, expected, word in layers:
            out = torch.full_like(expected, float("nan"), dtype=x.dtype)
            result = calls.run(kind, x, w, bias, out)
            torch.cuda.synchronize()
            assert result is out
            assert error_of(result, expected) < TOLERANCE[word], (kind, word)
    assert len(calls.memory(layers[0][1].device).workspaces) == 1
    dist.barrier()


def test_exchanged_layers_of_several_shapes_share_a_workspace_and_are_right(devices, tmp_path):
    import torch.multiprocessing as processes  # only where there is PyTorch

    processes.spawn(linear_layers, (devices, f"{tmp_path}/meeting"), nprocs=2)


def prepared_products(calls, x, w, total, bias):
    """cuBLASLt's GEMM before our sums: rank 0's bias, and a view from where its vectors cannot begin."""
    from wavesim_gpu import row_parallel_linear  # in a process of its own

    odd = torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    for way in ("push", "tiled push", "halves"):
        choose(calls, "all-reduce", x, w, bias, way=way)
        calls.forget()
        for layer in (x, odd, x):
            out = torch.full_like(total, float("nan"), dtype=x.dtype)
            result = row_parallel_linear(layer, w, bias=bias, out=out)
            assert error_of(result, total + bias.float()) < TOLERANCE["bf16"], way
        choose(calls, "reduce-scatter", x, w, way=way)
        part = total.chunk(2)[calls.memory(x.device).rank]
        for _ in range(3):
            assert error_of(row_parallel_linear(x, w, scatter=True), part) < TOLERANCE["bf16"], way


def operators(rank, devices, meeting):
    """One rank of the operators as a user calls them: eager, on two streams, compiled, differentiated."""
    from wavesim.errors import DescriptionError  # in a process of its own
    from wavesim_gpu import column_parallel_linear, row_parallel_linear

    dist, calls, normal = joined(rank, devices, meeting, "cpu:gloo,cuda:nccl")
    xs, ws = [normal(2, ROWS, K) for _ in range(2)], [normal(4096, K) for _ in range(2)]
    x, w = xs[rank], ws[rank]
    total = sum(x.float() @ w.float().T for x, w in zip(xs, ws, strict=True))
    choose(calls, "all-reduce", x, w)
    first = row_parallel_linear(x, w)
    kept = first.clone()
    second = row_parallel_linear(2 * x, w)
    assert error_of(first, total) < TOLERANCE["bf16"]
    assert error_of(second, 2 * total) < TOLERANCE["bf16"]
    assert torch.equal(first, kept)  # the second call wrote elsewhere
    streams = torch.cuda.current_stream(), torch.cuda.Stream()
    streams[1].wait_stream(streams[0])
    summed = []
    for number in range(20):  # one stream's call does not overtake the other's
        with torch.cuda.stream(streams[number % 2]):
            summed.append(row_parallel_linear(x, w))
    torch.cuda.synchronize()
    assert all(torch.equal(one, first) for one in summed)
    assert torch.equal(torch.compile(row_parallel_linear, fullgraph=True)(x, w), first)
    for way in ("library", "two-shot", "one-shot", "push", "tiled push"):
        few = x[0, :16]
        choose(calls, "all-reduce", few, w, way=way)
        calls.forget()
        assert error_of(row_parallel_linear(few, w), total[0, :16]) < TOLERANCE["bf16"], way
    prepared_products(calls, x[0], w, total[0], normal(4096))
    rows = x[0, : ROWS // 2]
    for way in ("library", "fused", "copies"):
        choose(calls, "all-gather", rows, w, way=way)
        calls.forget()
        for _ in range(3):
            expected = torch.cat([one[0, : ROWS // 2] for one in xs]).float() @ w.float().T
            assert error_of(column_parallel_linear(rows, w), expected) < TOLERANCE["bf16"], way
    leaf = x.clone().requires_grad_()
    row_parallel_linear(leaf, w).sum().backward()
    assert error_of(leaf.grad, w.float().sum(0).expand(x.shape)) < TOLERANCE["bf16"]
    with pytest.raises(DescriptionError, match="the ranks call with different shapes"):
        row_parallel_linear(x[0, : ROWS - 8 * rank], w)
    dist.barrier()


def tuned(rank, devices, meeting):
    """A layer whose weight is a parameter is tuned and takes what was fastest."""
    from wavesim_gpu import row_parallel_linear  # in a process of its own
    from wavesim_gpu.torch import tune_parallel_linear

    dist, _, normal = joined(rank, devices, meeting, "cpu:gloo,cuda:nccl")
    xs, ws = [normal(16, K) for _ in range(2)], [normal(4096, K) for _ in range(2)]
    weight, total = (
        torch.nn.Parameter(ws[rank]),
        sum(x.float() @ w.float().T for x, w in zip(xs, ws, strict=True)),
    )
    assert {"push", "library"} <= set(tune_parallel_linear(xs[rank], weight))
    with torch.no_grad():
        assert error_of(row_parallel_linear(xs[rank], weight), total) < TOLERANCE["bf16"]
    dist.barrier()


def graphs(rank, devices, meeting):
    """Two layers in a graph: 10,000 replays with changing operands give the right bits, held up or not."""
    import time  # in a process of its own

    from wavesim_gpu import row_parallel_linear

    dist, calls, normal = joined(rank, devices, meeting, "cpu:gloo,cuda:nccl")
    xs, ws = [normal(ROWS, K) for _ in range(2)], [normal(4096, K) for _ in range(2)]
    x, w, out = xs[rank].clone(), ws[rank], torch.empty(ROWS, 4096, device=CUDA, dtype=torch.bfloat16)
    choose(calls, "all-reduce", x, w)
    right = [row_parallel_linear(sign * x, w).clone() for sign in (1, -1)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        row_parallel_linear(x, w, out=out)
        x.neg_()
    wrong = torch.zeros((), device=CUDA, dtype=torch.int64)
    for number in range(10_000):
        graph.replay()
        wrong += (out != right[number % 2]).sum()
        if number % 1000 == 500 * rank:
            torch.cuda.synchronize()
            time.sleep(0.02)
    assert int(wrong) == 0
    row_parallel_linear(x, w)  # tells of a wait that gave up
    dist.barrier()


def overlapping(rank, devices, meeting):
    """Two graphs that are replayed at the same time take one number of a call: the next call refuses."""
    from wavesim.errors import DeadlockError  # in a process of its own

    in_seconds(3.0)
    _, calls, normal = joined(rank, devices, meeting, "cpu:gloo,cuda:nccl")
    x, w = normal(ROWS, K), normal(4096, K)
    choose(calls, "all-reduce", x, w)
    calls.run("all-reduce", x, w, None, None)
    torch.cuda.synchronize()
    both = []
    for _ in range(2):
        both.append((torch.cuda.CUDAGraph(), torch.cuda.Stream()))
        with torch.cuda.graph(both[-1][0], stream=both[-1][1]):
            for _ in range(50):
                calls.run("all-reduce", x, w, None, None)
    for graph, stream in both:
        with torch.cuda.stream(stream):
            graph.replay()
    torch.cuda.synchronize()
    with pytest.raises(DeadlockError, match=r"at the same time|of rank"):
        calls.run("all-reduce", x, w, None, None)


def in_seconds(limit_s):
    """Waits of this process give up sooner."""
    from wavesim_gpu.peers import options  # in a process of its own
    from wavesim_gpu.torch import parallel_ways

    parallel_ways.options_named = lambda word: options.options_named(word, limit_s=limit_s)


def late(rank, devices, meeting):
    """A rank that comes late is waited for; where it never comes the other says what it waits for."""
    import time  # in a process of its own

    from wavesim.errors import DeadlockError

    in_seconds(3.0)
    dist, calls, normal = joined(rank, devices, meeting, "cpu:gloo,cuda:nccl")
    x, w = normal(ROWS, K), normal(4096, K)
    choose(calls, "all-reduce", x, w)
    first = calls.run("all-reduce", x, w, None, None)
    torch.cuda.synchronize()
    dist.barrier()
    if rank:
        time.sleep(1.0)
    second = calls.run("all-reduce", x, w, None, None)
    torch.cuda.synchronize()
    assert torch.equal(first, second)
    dist.barrier()
    if rank:
        return  # and ends
    lost = calls.run("all-reduce", x, w, None, None)
    torch.cuda.synchronize()
    assert lost.isnan().any()
    with pytest.raises(DeadlockError, match="of rank 1"):
        calls.run("all-reduce", x, w, None, None)


@pytest.mark.parametrize(
    "part", [operators, tuned, graphs, late, overlapping], ids=lambda part: part.__name__
)
def test_the_operators_of_two_gpus(part, devices, tmp_path):
    import torch.multiprocessing as processes  # only where there is PyTorch

    if len(set(devices)) < 2:
        pytest.skip("NCCL takes a GPU for each rank")
    processes.spawn(part, (devices, f"{tmp_path}/meeting"), nprocs=2)
