"""Linear layers over a process group, with gloo on the CPU: results, shapes, the fallback, and bad calls."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import wavesim_gpu  # noqa: E402
from wavesim.errors import DescriptionError  # noqa: E402

RANKS = 2


def _rank(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    x, w = torch.randn(6, 16), torch.randn(10, 16)
    part = slice(8 * rank, 8 * rank + 8)
    summed = wavesim_gpu.row_parallel_linear(x[:, part], w[:, part])
    torch.testing.assert_close(summed, x @ w.T, rtol=1e-4, atol=1e-4)
    outputs = slice(5 * rank, 5 * rank + 5)
    gathered = wavesim_gpu.column_parallel_linear(x[3 * rank : 3 * rank + 3], w[outputs])
    torch.testing.assert_close(gathered, x @ w[outputs].T, rtol=1e-4, atol=1e-4)
    cube = wavesim_gpu.row_parallel_linear(x[:, part].reshape(2, 3, 8), w[:, part], dist.group.WORLD)
    torch.testing.assert_close(cube, (x @ w.T).reshape(2, 3, 10), rtol=1e-4, atol=1e-4)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        fake = wavesim_gpu.column_parallel_linear(torch.empty(4, 16), torch.empty(10, 16))
    assert fake.shape == (8, 10)
    for wrong, word in (
        ((x, w[:, :8]), "x's last side"),
        ((x.half(), w), "must be alike"),
        ((x.requires_grad_(), w), "no gradient"),
    ):
        with pytest.raises(DescriptionError, match=word):
            wavesim_gpu.row_parallel_linear(*wrong)
    with pytest.raises(DescriptionError, match="has 3 dimensions"):
        wavesim_gpu.column_parallel_linear(torch.randn(2, 2, 16), w)
    alone = [dist.new_group([one]) for one in range(RANKS)][rank]
    with pytest.raises(DescriptionError, match="the group has 1 rank"):
        wavesim_gpu.row_parallel_linear(torch.randn(2, 16), w, alone)
    dist.destroy_process_group()


def test_two_processes_sum_gather_and_refuse(tmp_path):
    mp.spawn(_rank, (str(tmp_path / "meeting"),), nprocs=RANKS)


def test_a_view_that_begins_where_tma_cannot_is_copied_and_others_are_not():
    from wavesim_gpu.torch.parallel import aligned  # where there is PyTorch

    whole = torch.arange(33, dtype=torch.float16)
    for view in (whole[:32], whole[8:32]):
        assert aligned(view).data_ptr() == view.data_ptr()
    for view in (whole[1:33], whole.view(3, 11).T):
        found = aligned(view)
        assert found.data_ptr() % 16 == 0
        assert found.is_contiguous()
        assert torch.equal(found, view)


def test_calls_on_two_streams_come_one_after_the_other(monkeypatch):
    from wavesim_gpu.peers.choice import PeerChoice  # where there is PyTorch
    from wavesim_gpu.torch import parallel

    waited = []

    class Stream:
        cuda_stream = 0

        def wait_stream(self, other):
            waited.append((self, other))

    one, other = Stream(), Stream()
    x, w = torch.zeros(128, 1408, dtype=torch.float16), torch.zeros(4096, 1408, dtype=torch.float16)
    calls = parallel._Calls(SimpleNamespace(rank_count=RANKS, ranks=(0,)))
    program = SimpleNamespace(run_on=lambda _: torch.zeros(128, 4096, dtype=torch.float16))
    monkeypatch.setattr(parallel, "_choice", lambda *_: PeerChoice("stores", (128, 256)))
    monkeypatch.setattr(calls, "_program", lambda *_: program)
    for stream in (one, one, other, other, one):
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _, own=stream: own)
        assert calls.run("row_parallel_linear", x, w).shape == (128, 4096)
    assert waited == [(other, one), (one, other)]


def test_launches_are_kept_by_shape_so_that_layers_of_two_shapes_do_not_drive_each_other_out(monkeypatch):
    from wavesim.work.collective import Collective  # where there is PyTorch
    from wavesim_gpu.peers.options import CallOptions
    from wavesim_gpu.peers.problem import SharedGemm
    from wavesim_gpu.torch import parallel

    made = []
    monkeypatch.setattr(parallel, "PROGRAMS_KEPT", 2)
    monkeypatch.setattr(parallel, "SharedGemmProgram", lambda _, problem, *__, **___: made.append(problem))
    monkeypatch.setattr(parallel, "_device_array", lambda tensor: tensor)
    stream = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    group = SimpleNamespace(rank_count=RANKS, ranks=(0,), allocate=lambda layout: layout)
    calls, options = parallel._Calls(group), CallOptions()
    up, down = (SharedGemm(256, n, 1408, Collective("all-reduce")) for n in (4096, 8192))
    x, weights = torch.zeros(8), [torch.zeros(8) for _ in range(3)]
    for _ in range(3):
        for problem in (up, down):
            for w in weights[:2]:
                calls._program(problem, x, w, options)
    assert made == [up, up, down, down]
    calls._program(up, x, weights[2], options)
    calls._program(down, x, weights[0], options)
    calls._program(up, x, weights[1], options)
    assert made[4:] == [up]  # in the place of the first of its shape


def test_without_a_process_group_the_call_says_what_to_do():
    with pytest.raises(DescriptionError, match="init_process_group"):
        wavesim_gpu.row_parallel_linear(torch.randn(2, 8), torch.randn(4, 8))
