"""What libraries do for the same product: cuBLAS then NCCL, NCCL in chunks, PyTorch's symmetric memory.

Example: `reducing_ways(a, b, group)["sequence"]` is `torch.mm` and `dist.all_reduce`; "chunks:4" cuts the
rows into four and reduces each on a second stream while the next is multiplied. Each is a function of no
arguments that a CUDA graph captures, and returns its output. PyTorch's own are there where it has them, in
bf16.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Call = Callable[[], Tensor]
CHUNKS = (2, 4, 8)


def reducing_ways(a: Tensor, b: Tensor, group: Any) -> Mapping[str, Call]:
    """Of an all-reduce after a (m, k) x b (k, n)."""
    found: dict[str, Call] = {"sequence": _sequence(a, b, group)}
    found |= {f"chunks:{count}": _chunks(a, b, group, count) for count in CHUNKS if a.shape[0] >= 64 * count}
    if a.dtype == torch.bfloat16:
        found |= _symmetric(a, b, group)
    return found


def scattering_ways(a: Tensor, b: Tensor, group: Any) -> Mapping[str, Call]:
    """Of a reduce-scatter after the product."""
    ranks = dist.get_world_size(group)
    product, out = a.new_empty(a.shape[0], b.shape[1]), a.new_empty(a.shape[0] // ranks, b.shape[1])

    def sequence() -> Tensor:
        torch.mm(a, b, out=product)
        dist.reduce_scatter_tensor(out, product, group=group)
        return out

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

    def fused() -> Tensor:
        return torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group.group_name)[1][0]

    return {"sequence": sequence, "fused": fused}


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
    import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415  # not in every build of PyTorch

    shared = symmetric.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    symmetric.rendezvous(shared, group.group_name)
    reduce = torch.ops.symm_mem

    def one_shot() -> Tensor:
        torch.mm(a, b, out=shared)
        return reduce.one_shot_all_reduce(shared, "sum", group.group_name)

    def two_shot() -> Tensor:
        torch.mm(a, b, out=shared)
        return reduce.two_shot_all_reduce_(shared, "sum", group.group_name)

    return {"symmetric one-shot": one_shot, "symmetric two-shot": two_shot}
