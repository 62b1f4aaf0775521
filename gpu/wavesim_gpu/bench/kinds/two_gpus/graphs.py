"""CUDA graphs of a few calls each, as contenders: what a library does, over operands that all ranks know.

Example: `library_contender(call, expected)` captures ten calls in a row, checks what the last of them leaves
and times a replay, which all ranks begin together.
"""

import math
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


def library_contender(call: Callable[[], Tensor], expected: Tensor) -> PeerContender:
    """`call` in a graph, as something to check and to time. Collective where `call` is."""
    graph, out, stream = captured(call)
    return PeerContender(
        # With `call`: its operands are what the graph reads, and nothing else keeps them.
        partial(_library_error, graph, out, expected, stream, call),
        partial(timed, graph.replay, stream.cuda_stream),
    )


def called(call: Callable[[], Tensor], expected: Tensor) -> PeerContender:
    """A call that the host launches each time, checked and timed as graphs are."""

    def repeated() -> None:
        for _ in range(REPEATS):
            call()

    stream = torch.cuda.current_stream().cuda_stream
    return PeerContender(lambda: relative(call(), expected), partial(timed, repeated, stream))


def captured(call: Callable[[], Any]) -> tuple[Any, list[Any], Any]:
    """A graph of `REPEATS` calls, where their output is, and the stream it runs on."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            call()
    torch.cuda.synchronize()
    graph, out = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(REPEATS):
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


def timed(replay: Callable[[], None], stream_address: int) -> float:
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
    return float(begin.elapsed_time(end)) * 1e6 / REPEATS
