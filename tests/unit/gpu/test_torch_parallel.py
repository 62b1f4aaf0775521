"""Linear layers over a process group, with gloo on the CPU: results, shapes, the fallback, and bad calls."""

import warnings
from functools import partial

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
    x, w, bias = torch.randn(6, 16), torch.randn(10, 16), torch.randn(10)
    part, rows, outputs = (slice(side * rank, side * rank + side) for side in (8, 3, 5))
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)
    row, column = wavesim_gpu.row_parallel_linear, wavesim_gpu.column_parallel_linear
    close(row(x[:, part], w[:, part]), x @ w.T)
    close(row(x[:, part], w[:, part], bias=bias), x @ w.T + bias)
    close(row(x[:, part], w[:, part], scatter=True), (x @ w.T)[rows])
    close(column(x[rows], w[outputs]), x @ w[outputs].T)
    close(column(x[rows], w[outputs], bias=bias[outputs]), x @ w[outputs].T + bias[outputs])
    close(row(x[:, part].reshape(2, 3, 8), w[:, part], dist.group.WORLD), (x @ w.T).reshape(2, 3, 10))
    out = torch.empty(6, 10)
    assert row(x[:, part], w[:, part], out=out) is out
    close(out, x @ w.T)
    with torch.autocast("cpu", torch.bfloat16):
        assert row(x[:, part], w[:, part]).dtype == torch.bfloat16
    _require_gradients(rank, x, w, bias, close)
    compiled = torch.compile(lambda x, w: row(x, w, scatter=True), backend="aot_eager", fullgraph=True)
    close(compiled(x[:, part], w[:, part]), (x @ w.T)[rows])
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert column(torch.empty(4, 16), torch.empty(10, 16)).shape == (8, 10)
    for call, wrong, named, word in (
        (row, (x, w[:, :8]), {}, "x's last side"),
        (row, (x.half(), w), {}, "must be alike"),
        (row, (x, w), {"bias": bias[:4]}, r"bias is \(4,\)"),
        (row, (x, w), {"out": out[:4]}, r"out is \(4, 10\)"),
        (row, (x[:5], w), {"scatter": True}, "5 rows"),
        (row, (x.clone().requires_grad_(), w), {"out": out}, "a gradient is needed"),
        (row, (torch.randn(2, 2, 16), w), {"scatter": True}, "has 3 dimensions"),
        (column, (torch.randn(2, 2, 16), w), {}, "has 3 dimensions"),
    ):
        with pytest.raises(DescriptionError, match=word):
            call(*wrong, **named)
    alone = [dist.new_group([one]) for one in range(RANKS)][rank]
    with pytest.raises(DescriptionError, match="the group has 1 rank"):
        row(torch.randn(2, 16), w, alone)
    dist.destroy_process_group()


def _require_gradients(rank, x, w, bias, close):
    """Of each operator those of one process that has everything, or this rank's part of them."""
    weight = torch.randn(6, 10)
    leaves = [one.clone().requires_grad_() for one in (x, w, bias)]
    ((leaves[0] @ leaves[1].T + leaves[2]) * weight).sum().backward()
    whole = [one.grad for one in leaves]
    part, rows, outputs = (slice(side * rank, side * rank + side) for side in (8, 3, 5))
    for scatter in (False, True):
        own = [one.clone().requires_grad_() for one in (x[:, part], w[:, part], bias)]
        result = wavesim_gpu.row_parallel_linear(own[0], own[1], bias=own[2], scatter=scatter)
        (result * (weight[rows] if scatter else weight)).sum().backward()
        for tensor, expected in zip(own, (whole[0][:, part], whole[1][:, part], whole[2]), strict=True):
            close(tensor.grad, expected)
    own = [one.clone().requires_grad_() for one in (x[rows], w[outputs], bias[outputs])]
    (wavesim_gpu.column_parallel_linear(own[0], own[1], bias=own[2]) * weight[:, outputs]).sum().backward()
    for tensor, expected in zip(own, (whole[0][rows], whole[1][outputs], whole[2][outputs]), strict=True):
        close(tensor.grad, expected)


def test_two_processes_sum_scatter_gather_differentiate_and_refuse(tmp_path):
    mp.spawn(_rank, (str(tmp_path / "meeting"),), nprocs=RANKS)


def test_a_view_that_begins_where_tma_cannot_is_copied_and_others_are_not():
    from wavesim_gpu.torch.parallel_ways import aligned  # where there is PyTorch

    whole = torch.arange(33, dtype=torch.float16)
    for view in (whole[:32], whole[8:32]):
        assert aligned(view).data_ptr() == view.data_ptr()
    for view in (whole[1:33], whole.view(3, 11).T):
        found = aligned(view)
        assert found.data_ptr() % 16 == 0
        assert found.is_contiguous()
        assert torch.equal(found, view)


def test_a_call_on_another_stream_waits_for_the_stream_before_but_not_while_it_is_captured(monkeypatch):
    from wavesim_gpu.torch.group_memory import GroupMemory  # where there is PyTorch

    waited = []

    class Stream:
        def wait_stream(self, other):
            waited.append((self, other))

    memory, first, second = GroupMemory(None, torch.device("cpu")), Stream(), Stream()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for number, stream in ((1, first), (2, second), (1, first)):
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _, own=stream: own)
        memory.follow(number)
        assert memory.latest == number
    assert waited == [(second, first), (first, second)]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    memory.follow(2)
    assert memory.latest == 1
    assert len(waited) == 2


def test_ranks_that_call_with_different_shapes_are_refused_by_name():
    from wavesim_gpu.peers.choice import LinearShape  # where there is PyTorch
    from wavesim_gpu.torch.parallel_ways import require_alike

    told = [LinearShape("all-reduce", m, 4096, 1408, "bf16") for m in (1024, 1024)]
    require_alike(told)
    with pytest.raises(DescriptionError, match=r"the ranks call with different shapes.*m=1024.*m=2048"):
        require_alike([told[0], LinearShape("all-reduce", 2048, 4096, 1408, "bf16")])


def test_what_one_rank_cannot_make_all_leave_to_the_library_and_say_so_once(monkeypatch):
    from wavesim_gpu.peers.choice import LIBRARY, LinearShape, WayChoice  # where there is PyTorch
    from wavesim_gpu.torch import parallel_calls

    def library(*_):
        return torch.zeros(1)

    def made(choice, *_):
        if choice.way != LIBRARY:
            raise RuntimeError("no peer access")
        return library

    monkeypatch.setattr(parallel_calls.dist, "get_world_size", lambda _: RANKS)
    monkeypatch.setattr(parallel_calls, "made_way", made)
    monkeypatch.setattr(parallel_calls.GroupMemory, "exchange", lambda _, mine: [mine, mine])
    calls = parallel_calls.GroupCalls(None)
    shape, w = LinearShape("all-reduce", 2048, 4096, 1408, "bf16"), torch.zeros(1)
    with pytest.warns(UserWarning, match="exchange is not possible here .no peer access."):
        assert calls.made(WayChoice("exchange"), shape, w, w, None) is library
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert calls.made(WayChoice("exchange"), shape, w, w, None) is library


def test_without_a_process_group_the_call_says_what_to_do():
    with pytest.raises(DescriptionError, match="init_process_group"):
        wavesim_gpu.row_parallel_linear(torch.randn(2, 8), torch.randn(4, 8))
