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


def linear_layers(rank, devices, meeting):
    """One rank of both operators, against the library's product in fp32."""
    import torch.distributed as dist  # in a process of its own

    from wavesim_gpu.driver.device import require_cupy
    from wavesim_gpu.torch.parallel import _Calls

    torch.cuda.set_device(devices[rank])
    require_cupy().cuda.Device(devices[rank]).use()
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)

    def exchange(mine):
        told = [None, None]
        dist.all_gather_object(told, mine)
        return told

    calls = _Calls(ProcessPeers(rank, 2, exchange, may_share=True))
    for name, rows in (("row_parallel_linear", ROWS), ("column_parallel_linear", ROWS // 2)):
        for seed in range(2):
            # Both ranks make both operands: each knows what must come out.
            generator = torch.Generator("cuda").manual_seed(seed)
            pairs = [
                [
                    torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
                    for shape in ((rows, K), (N, K))
                ]
                for _ in range(2)
            ]
            x, w = pairs[rank]
            if seed:  # on one rank a view that begins where TMA cannot: both must go the same way
                x = torch.cat([x.new_zeros(1 - rank), x.flatten()])[1 - rank :].view(x.shape)
            found = calls.run(name, x, w)
            torch.cuda.synchronize()
            if name == "row_parallel_linear":
                expected = sum(one.float() @ other.float().T for one, other in pairs)
            else:
                expected = torch.cat([one for one, _ in pairs]).float() @ w.float().T
            error = float((found.float() - expected).abs().max() / expected.abs().max())
            assert error < TOLERANCE["bf16"], (name, error)
    dist.barrier()


def test_linear_layers_over_a_process_group_are_right(devices, tmp_path):
    import torch.multiprocessing as processes  # only where there is PyTorch

    processes.spawn(linear_layers, (devices, f"{tmp_path}/meeting"), nprocs=2)


def operators(rank, devices, meeting):
    """One rank of the operators as a user calls them: over peer memory, by the library, and refused."""
    import torch.distributed as dist  # in a process of its own

    from wavesim.errors import DescriptionError
    from wavesim_gpu import column_parallel_linear, row_parallel_linear
    from wavesim_gpu.torch import parallel

    torch.cuda.set_device(devices[rank])
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{meeting}", rank=rank, world_size=2)
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)

    xs, ws = [normal(2, 128, K) for _ in range(2)], [normal(4096, K) for _ in range(2)]
    total = sum(x.float() @ w.float().T for x, w in zip(xs, ws, strict=True))

    def error(found, expected):
        return float((found.float() - expected).abs().max() / expected.abs().max())

    first = row_parallel_linear(xs[rank], ws[rank])
    kept = first.clone()
    second = row_parallel_linear(2 * xs[rank], ws[rank])
    assert error(first, total) < TOLERANCE["bf16"]
    assert error(second, 2 * total) < TOLERANCE["bf16"]
    assert torch.equal(first, kept)  # the second call wrote elsewhere
    streams = torch.cuda.current_stream(), torch.cuda.Stream()
    streams[1].wait_stream(streams[0])
    summed = []
    for number in range(20):  # one stream's call does not overtake the other's
        with torch.cuda.stream(streams[number % 2]):
            summed.append(row_parallel_linear(xs[rank], ws[rank]))
    torch.cuda.synchronize()
    assert all(torch.equal(one, first) for one in summed)
    (calls,) = [parallel._calls(dist.group.WORLD.group_name)]
    assert len(calls.memories) == 1  # both went over peer memory
    few = row_parallel_linear(xs[rank][0, :16], ws[rank])
    assert error(few, total[0, :16]) < TOLERANCE["bf16"]
    assert len(calls.memories) == 1  # by the library
    rows = column_parallel_linear(xs[rank][0], ws[rank])
    expected = torch.cat([x[0] for x in xs]).float() @ ws[rank].float().T
    assert error(rows, expected) < TOLERANCE["bf16"]
    with pytest.raises(DescriptionError, match="no gradient"):
        row_parallel_linear(xs[rank].requires_grad_(), ws[rank])
    alone = [dist.new_group([one]) for one in range(2)][rank]
    with pytest.raises(DescriptionError, match="the group has 1 rank"):
        row_parallel_linear(xs[rank].detach(), ws[rank], alone)
    dist.barrier()


def test_the_operators_of_two_gpus_are_right_and_refuse_what_they_cannot_do(devices, tmp_path):
    import torch.multiprocessing as processes  # only where there is PyTorch

    if len(set(devices)) < 2:
        pytest.skip("NCCL takes a GPU for each rank")
    processes.spawn(operators, (devices, f"{tmp_path}/meeting"), nprocs=2)
