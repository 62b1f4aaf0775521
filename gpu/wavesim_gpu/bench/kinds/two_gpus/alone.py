"""The product alone and the all-reduce alone, of a library and of ours: what an overlap could hide.

Example: of 2,048 x 4,096 x 8,192 "gemm" is cuBLAS's product, "all-reduce" NCCL's of its output, and "gemm
ours 128x256" our persistent kernel in that tile, whose outputs stay. "gemm stored 128x256" stores them to
the GPUs that would add them, and nobody does; "all-reduce ours" is our whole call with a K of 64, which takes
next to nothing to multiply.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wavesim_gpu.bench.kinds.two_gpus.cases import SharedCase, expected_of, operands_of, relative_error
from wavesim_gpu.bench.kinds.two_gpus.graphs import (
    REPEATS,
    captured,
    library_contender,
    rank_tensors,
    relative,
)
from wavesim_gpu.bench.kinds.two_gpus.graphs import timed as timed_graph
from wavesim_gpu.bench.kinds.two_gpus.turns import PeerContender
from wavesim_gpu.bench.kinds.two_gpus.variants import LIMIT_S, TWO_SHOT, problems_of
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import Hopper
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.options import CallOptions
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.programs import SharedGemmProgram
from wavesim_gpu.run.operands import random_operands
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import reference, relative_errors

SHALLOW_K = 64
ON_ALL_SMS = CallOptions("stores", reduce_blocks=0, limit_s=LIMIT_S)


def parts_alone(
    rank: int,
    case: SharedCase,
    group: PeerGroup,
    library: Any,
    takes: Callable[[str], bool],
    *,
    in_all_tiles: bool,
) -> dict[str, PeerContender]:
    """Those that `takes` is true of; our product in the first tile only, or in all, stored too.

    Collective: all ranks make them in one order.
    """
    problem = case.problem
    a, b = rank_tensors(rank, case)
    shallow = SharedCase(replace(problem, k=SHALLOW_K, split_k=1), case.seed)
    makers: dict[str, Callable[[], PeerContender]] = {
        "gemm": lambda: library_contender(partial(torch.mm, a, b, out=_empty(a, b)), a.float() @ b.float()),
        "all-reduce": lambda: _reduced(a.new_empty(problem.m, problem.n), library),
        "all-reduce ours": lambda: _shared(rank, shallow, group),
    }
    for tried in problems_of((problem.m, problem.k, problem.n), TWO_SHOT, problem.ranks):
        tile, whole = f"{tried.tile_m}x{tried.tile_n}", replace(case, problem=tried)
        makers[f"gemm ours {tile}"] = partial(_product, tried)
        if not in_all_tiles:
            break
        makers[f"gemm stored {tile}"] = partial(_shared, rank, whole, group, only_gemm=True)
    return {name: make() for name, make in makers.items() if takes(name)}


def _empty(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def _reduced(out: Tensor, library: Any) -> PeerContender:
    """NCCL's all-reduce in place: ones become the number of ranks; then zeros are added up."""
    ranks = dist.get_world_size(library)

    def call() -> Tensor:
        dist.all_reduce(out, group=library)
        return out

    graph, _, stream = captured(call)

    def error() -> float:
        out.fill_(1.0)
        call()
        torch.cuda.synchronize()
        result = relative(out, torch.full_like(out, ranks, dtype=torch.float32))
        out.zero_()
        torch.cuda.synchronize()
        return result

    return PeerContender(error, partial(timed_graph, graph.replay, stream.cuda_stream))


def _shared(rank: int, case: SharedCase, group: PeerGroup, *, only_gemm: bool = False) -> PeerContender:
    """Our call, checked whole; `only_gemm`: then its GEMM alone is timed, and the program not used again."""
    cupy, operands = require_cupy(), operands_of(group, case)
    program = SharedGemmProgram(group, case.problem, operands, ON_ALL_SMS)

    def error() -> float:
        program.poison()
        program.enqueue()
        program.check()
        return relative_error(cupy, program.outs[rank], expected_of(cupy, case, rank), case.problem.dtype)

    launch = program.launchers(REPEATS)[rank]
    if only_gemm:
        launch = _gemm_graph(program, rank)
    return PeerContender(error, partial(timed_graph, launch, program.streams[rank][0].ptr))


def _gemm_graph(program: SharedGemmProgram, rank: int) -> Callable[[], None]:
    """A graph of the GEMM's launches, without the kernels that add."""
    stream = program.streams[rank][0]
    gemm = program.ranks[rank].products[0].launch
    with program.group.on(rank), stream:
        stream.begin_capture()
        for _ in range(REPEATS):
            gemm.enqueue(program.streams[rank])
        graph = stream.end_capture()
    return partial(graph.launch, stream)


def _product(problem: SharedGemm) -> PeerContender:
    """The same product in the same tiles on one GPU, in our persistent kernel."""
    operands = random_operands(
        problem.pipeline, partial_bytes=Hopper().partial_bytes(problem.gemm, problem.plan)
    )
    program = Program(problem.pipeline, problem.plan, operands, default=Hopper.name)

    def error() -> float:
        operands.poison(program.streams[0])
        program.enqueue()
        program.synchronize()
        return max(relative_errors(operands, reference(operands, Hopper.name)).values())

    return PeerContender(error, partial(timed_graph, program.launcher(REPEATS), program.streams[0].ptr))
