"""What libraries do for the same product: cuBLAS then NCCL, NCCL in chunks, PyTorch's
symmetric memory.

Example: `reducing_ways(a, b, group)["sequence"]` is `torch.mm` and `dist.all_reduce`; "chunks:4" cuts the
rows into four and reduces each on a second stream while the next is multiplied. Each is a function of no
arguments that a CUDA graph captures, and returns its output. PyTorch's own are there where it has them, in
bf16. `NEEDS` says what each takes for granted.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wavesim_gpu.torch.parallel import column_parallel_linear, row_parallel_linear, tune_parallel_linear

Call = Callable[[], Tensor]
CHUNKS = (2, 4, 8)
_SYMMETRIC = "peer access, PyTorch's symmetric memory, a copy of the output there"
NEEDS: Mapping[str, str] = {  # by the beginning of a way's name
    "sequence": "NCCL",
    "chunks": "NCCL, a second stream",
    "fused": f"{_SYMMETRIC}, whole rows for each rank",
    "symmetric": f"{_SYMMETRIC}, bf16",
}


def reducing_ways(a: Tensor, b: Tensor, group: Any) -> Mapping[str, Call]:
    """Of an all-reduce after a (m, k) x b (k, n)."""
    result: dict[str, Call] = {"sequence": _sequence(a, b, group)}
    result |= {f"chunks:{count}": _chunks(a, b, group, count) for count in CHUNKS if a.shape[0] >= 64 * count}
    if a.dtype == torch.bfloat16:
        result |= _symmetric(a, b, group)
    if a.shape[0] % dist.get_world_size(group) == 0:
        result["fused"] = _fused_reduce(a, b, group)
    return result


def scattering_ways(a: Tensor, b: Tensor, group: Any) -> Mapping[str, Call]:
    """Of a reduce-scatter after the product."""
    ranks = dist.get_world_size(group)
    product, out = a.new_empty(a.shape[0], b.shape[1]), a.new_empty(a.shape[0] // ranks, b.shape[1])

    def sequence() -> Tensor:
        torch.mm(a, b, out=product)
        dist.reduce_scatter_tensor(out, product, group=group)
        return out

    _symmetric_memory()

    def fused() -> Tensor:
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group.group_name)

    return {"sequence": sequence, "fused": fused}


def gathering_ways(a: Tensor, b: Tensor, group: Any) -> Mapping[str, Call]:
    """Of an all-gather of a's rows ahead of the product."""
    rows = a.new_empty(a.shape[0] * dist.get_world_size(group), a.shape[1])
    out = a.new_empty(rows.shape[0], b.shape[1])

    def sequence() -> Tensor:
        dist.all_gather_into_tensor(rows, a, group=group)
        return torch.mm(rows, b, out=out)

    _symmetric_memory()

    def fused() -> Tensor:
        return torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group.group_name)[1][0]

    return {"sequence": sequence, "fused": fused}


def linear_ways(x: Tensor, w: Tensor, group: Any, kind: str) -> Mapping[str, Call]:
    """Of a linear layer whose weight is shared out: our operator, tuned here, and the libraries'."""
    tune_parallel_linear(x, w, group, collective=kind)
    makers = {"all-reduce": reducing_ways, "reduce-scatter": scattering_ways, "all-gather": gathering_ways}
    libraries = makers[kind](x, w.t(), group)
    scatters = {} if kind == "all-gather" else {"scatter": kind == "reduce-scatter"}
    operator = column_parallel_linear if kind == "all-gather" else row_parallel_linear
    return {"operator": partial(operator, x, w, group, **scatters)} | {
        name: call for name, call in libraries.items() if not name.startswith("chunks")
    }


def needs_of(way: str) -> str:
    """What a way needs beside CUDA; of ours, peer access."""
    return next((needs for name, needs in NEEDS.items() if way.startswith(name)), "peer access, sm_90")


def _sequence(a: Tensor, b: Tensor, group: Any) -> Call:
    out = a.new_empty(a.shape[0], b.shape[1])

    def call() -> Tensor:
        torch.mm(a, b, out=out)
        dist.all_reduce(out, group=group)
        return out

    return call


def _chunks(a: Tensor, b: Tensor, group: Any, count: int) -> Call:
    out, beside = a.new_empty(a.shape[0], b.shape[1]), torch.cuda.Stream()

    def call() -> Tensor:
        first = torch.cuda.current_stream()
        for rows, part in zip(a.chunk(count), out.chunk(count), strict=True):
            torch.mm(rows, b, out=part)
            beside.wait_stream(first)
            with torch.cuda.stream(beside):
                dist.all_reduce(part, group=group)
        first.wait_stream(beside)
        return out

    return call


def _symmetric(a: Tensor, b: Tensor, group: Any) -> dict[str, Call]:
    """Without multicast, which TORCH_SYMM_MEM_DISABLE_MULTICAST keeps off."""
    shared = _shared((a.shape[0], b.shape[1]), a, group)
    reduce = torch.ops.symm_mem

    def one_shot() -> Tensor:
        torch.mm(a, b, out=shared)
        return reduce.one_shot_all_reduce(shared, "sum", group.group_name)

    def two_shot() -> Tensor:
        torch.mm(a, b, out=shared)
        return reduce.two_shot_all_reduce_(shared, "sum", group.group_name)

    return {"symmetric one-shot": one_shot, "symmetric two-shot": two_shot}


def _symmetric_memory() -> Any:
    """The module that brings `torch.ops.symm_mem` its operators; not in every build of PyTorch."""
    import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415

    return symmetric


def _shared(shape: tuple[int, ...], like: Tensor, group: Any) -> Tensor:
    """Memory that all ranks of the group see."""
    symmetric = _symmetric_memory()
    shared: Tensor = symmetric.empty(shape, dtype=like.dtype, device=like.device)
    symmetric.rendezvous(shared, group.group_name)
    return shared


def _fused_reduce(a: Tensor, b: Tensor, group: Any) -> Call:
    """PyTorch has no fused product and all-reduce: its reduce-scatter, then the library's all-gather."""
    out = a.new_empty(a.shape[0], b.shape[1])

    def call() -> Tensor:
        part = torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group.group_name)
        dist.all_gather_into_tensor(out, part, group=group)
        return out

    return call
