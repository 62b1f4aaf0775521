"""Calls as contenders, in CUDA graphs of a few each or one by one, over operands that all ranks know.

Example: `library_contender(call, expected)` captures ten calls in a row, checks what the last of them leaves
and times a replay, which all ranks begin together.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wavesim_gpu.bench.kinds.two_gpus.cases import SharedCase, operands_of
from wavesim_gpu.bench.kinds.two_gpus.turns import PeerContender
from wavesim_gpu.driver.device import require_cupy

REPEATS, WARM_UP = 10, 5
LEAST_REPEATS, TIMED_NS = 2, 5e6  # of calls that take long
HOST_CALLS, HELD_CYCLES = 20, 20_000_000  # while the GPU is held, about 10 ms


class _OwnGpu:
    """A rank's own GPU, for operands of the libraries."""

    def __init__(self, rank: int) -> None:
        self.ranks = (rank,)

    def on(self, _rank: int) -> Any:
        return nullcontext(require_cupy())


def rank_tensors(rank: int, case: SharedCase) -> tuple[Tensor, Tensor]:
    """A and B of a rank, bf16."""
    arrays = operands_of(_OwnGpu(rank), case)[rank]  # type: ignore[arg-type]  # all that it asks of a group
    a, b = (torch.as_tensor(entry, device="cuda").view(torch.bfloat16) for entry in (arrays.a, arrays.b))
    return a, b


def library_contender(call: Callable[[], Tensor], expected: Tensor, repeats: int = REPEATS) -> PeerContender:
    """`call` in a graph, as something to check and to time. Collective where `call` is."""
    graph, out, stream = captured(call, repeats)
    return PeerContender(
        # With `call`: its operands are what the graph reads, and nothing else keeps them.
        partial(_library_error, graph, out, expected, stream, call),
        partial(timed, graph.replay, stream.cuda_stream, repeats),
    )


def called(call: Callable[[], Tensor], expected: Tensor, repeats: int = REPEATS) -> PeerContender:
    """A call that the host launches each time, checked and timed as graphs are."""

    def repeated() -> None:
        for _ in range(repeats):
            call()

    stream = torch.cuda.current_stream().cuda_stream
    return PeerContender(lambda: relative(call(), expected), partial(timed, repeated, stream, repeats))


def hosted(call: Callable[[], Tensor], expected: Tensor) -> PeerContender:
    """A call's time on the host: several are launched while the GPU is held, so that none waits for it."""

    def host_ns() -> float:
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda._sleep(HELD_CYCLES)  # noqa: SLF001  # PyTorch has no other name
        began = time.perf_counter_ns()
        for _ in range(HOST_CALLS):
            call()
        took = time.perf_counter_ns() - began
        torch.cuda.synchronize()
        return took / HOST_CALLS

    return PeerContender(lambda: relative(call(), expected), host_ns)


def repeats_of(call: Callable[[], Tensor], agreed: Callable[[float], float]) -> int:
    """How many calls are timed at once, on all ranks alike: fewer where each takes long."""
    for _ in range(WARM_UP):
        call()
    ns = agreed(timed(call, torch.cuda.current_stream().cuda_stream, 1))
    return int(max(LEAST_REPEATS, min(REPEATS, TIMED_NS // ns)))


def captured(call: Callable[[], Any], repeats: int = REPEATS) -> tuple[Any, list[Any], Any]:
    """A graph of so many calls, where their output is, and the stream it runs on."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            call()
    torch.cuda.synchronize()
    graph, out = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(repeats):
            out[:] = [call()]
    return graph, out, stream


def _library_error(graph: Any, out: list[Any], expected: Any, stream: Any, _kept: Any) -> float:
    out[0].fill_(math.nan)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.replay()
    torch.cuda.synchronize()
    return relative(out[0], expected)


def relative(out: Tensor, expected: Tensor) -> float:
    """The largest difference over the largest expected value; NaN where anything is NaN."""
    return float((out.float() - expected).abs().max() / expected.abs().max())


def timed(replay: Callable[[], Any], stream_address: int, repeats: int = REPEATS) -> float:
    """Nanoseconds of one of a graph's calls, all ranks having come to this point first.

    One replay goes ahead untimed: ranks that come from a barrier start up to half a millisecond apart, which
    would be a part of whatever waits for the other rank.
    """
    stream = torch.cuda.ExternalStream(stream_address)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier()
    with torch.cuda.stream(stream):
        replay()
        begin.record(stream)
        replay()
        end.record(stream)
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e6 / repeats
