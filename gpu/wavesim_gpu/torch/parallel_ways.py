"""The ways in which a linear layer over a process group is computed, each prepared once per layer and shape.

Example: of an all-reduce in bf16, `LIBRARY` is cuBLAS and NCCL, `TWO_SHOT` cuBLAS into symmetric memory and
PyTorch's all-reduce there, `PUSH` cuBLAS and our all-reduce (peers/push.py), `EXCHANGE` our one kernel
(peers/exchange_linear.py). A way takes (x, w, bias, out), x of two dimensions, and returns the result, in
`out` where that is given. Making one is a collective call and never happens while a graph is captured.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import linear

from wavesim.errors import DescriptionError, DeviceError
from wavesim.work.collective import Collective
from wavesim.workloads.tried_tiles import split_of
from wavesim_gpu.driver.device import query
from wavesim_gpu.kernels.gemm.sm90.parameters import ALIGNMENT
from wavesim_gpu.peers.choice import (
    COPIES,
    FUSED,
    HALVES,
    LIBRARY,
    ONE_SHOT,
    PUSH,
    TILED,
    TWO_SHOT,
    LinearShape,
    WayChoice,
)
from wavesim_gpu.peers.exchange_linear import ExchangeLinear
from wavesim_gpu.peers.options import LIMIT_S, options_named
from wavesim_gpu.peers.problem import SharedGemm, in_halves
from wavesim_gpu.peers.push import PushedSums, form_of, form_of_halves
from wavesim_gpu.peers.regions import ELEMENT
from wavesim_gpu.peers.tiled_linear import TiledLinear
from wavesim_gpu.torch.group_memory import DTYPES_OF, UNTIMED, GroupMemory
from wavesim_gpu.torch.layer_product import takes_product

Run = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001  # without an object per call


def made_way(choice: WayChoice, shape: LinearShape, memory: GroupMemory, w: Tensor, bias: Any) -> Run:
    """A way for layers of that shape; ours for those weights."""
    if choice.exchanges:
        return _exchange(choice, shape, memory, w, bias)
    if choice.way in (PUSH, TILED):
        return _push(choice, shape, memory, w, bias)
    if choice.way == HALVES:
        return _halves(shape, memory, w, bias)
    makers: dict[str, Callable[[LinearShape, GroupMemory], Run]] = {
        LIBRARY: _library,
        ONE_SHOT: partial(_symmetric, "one_shot_all_reduce_out"),
        TWO_SHOT: partial(_symmetric, "two_shot_all_reduce_out"),
        FUSED: _fused,
        COPIES: _copies,
    }
    return makers[choice.way](shape, memory)


def _product(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    if out is None:
        return linear(x, w, bias)
    return torch.mm(x, w.t(), out=out) if bias is None else torch.addmm(bias, x, w.t(), out=out)


def _library(shape: LinearShape, memory: GroupMemory) -> Run:
    """The library's GEMM and collective; a bias of sums is rank 0's."""
    group, rank = memory.group, memory.rank

    def summed(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        out = _product(x, w, bias if rank == 0 else None, out)
        dist.all_reduce(out, group=group)
        return out

    def scattered(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        product = _product(x, w, bias if rank == 0 else None)
        if not x.is_cuda:  # gloo has no reduce-scatter
            dist.all_reduce(product, group=group)
            part = product.chunk(shape.ranks)[rank].clone()
            return part if out is None else out.copy_(part)
        out = product.new_empty(product.shape[0] // shape.ranks, product.shape[1]) if out is None else out
        dist.reduce_scatter_tensor(out, product, group=group)
        return out

    def gathered(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        rows = x.new_empty((x.shape[0] * shape.ranks, x.shape[1]))
        dist.all_gather_into_tensor(rows, x.contiguous(), group=group)
        return _product(rows, w, bias, out)

    return {"all-reduce": summed, "reduce-scatter": scattered, "all-gather": gathered}[shape.kind]


def _symmetric(name: str, shape: LinearShape, memory: GroupMemory) -> Run:
    """The GEMM's outputs go to symmetric memory, PyTorch's all-reduce from there to where they are wanted."""
    dtype, rank, group = DTYPES_OF[shape.dtype], memory.rank, memory.group.group_name
    shared = memory.symmetric(shape.m * shape.n, dtype)[: shape.m * shape.n].view(shape.m, shape.n)
    reduce = getattr(torch.ops.symm_mem, name).default

    def run(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        if (stream := _raw_stream(memory.device.index)) != memory.latest:  # type: ignore[misc]  # on a GPU
            memory.follow(stream)
        _product(x, w, bias if rank == 0 else None, shared)
        out = torch.empty_like(shared) if out is None else out
        reduce(shared, "sum", group, out)
        return out

    return run


def _fused(shape: LinearShape, memory: GroupMemory) -> Run:
    """PyTorch's own, where its pipelined GEMM pays."""
    import torch.distributed._symmetric_memory  # noqa: PLC0415  # brings the operators

    group, ops = memory.group.group_name, torch.ops.symm_mem

    def scattered(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        part = ops.fused_matmul_reduce_scatter(x.contiguous(), w.t(), "sum", 0, group)
        part = part if bias is None else part.add_(bias)
        return part if out is None else out.copy_(part)

    def gathered(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        product = ops.fused_all_gather_matmul(x.contiguous(), [w.t()], 0, group)[1][0]
        product = product if bias is None else product.add_(bias)
        return product if out is None else out.copy_(product)

    return gathered if shape.kind == "all-gather" else scattered


def _copies(shape: LinearShape, memory: GroupMemory) -> Run:
    """An all-gather by the copy engine into symmetric memory, where the GEMM reads all rows."""
    import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415  # not in every build

    dtype, rank, rows = DTYPES_OF[shape.dtype], memory.rank, shape.m // shape.ranks
    shared = memory.symmetric(shape.m * shape.k, dtype)
    handle = symmetric.rendezvous(shared, memory.group.group_name)
    own = slice(rank * rows, (rank + 1) * rows)
    places = [handle.get_buffer(to, (shape.m, shape.k), dtype)[own] for to in range(shape.ranks)]
    gathered = shared[: shape.m * shape.k].view(shape.m, shape.k)

    def run(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        if (stream := _raw_stream(memory.device.index)) != memory.latest:  # type: ignore[misc]  # on a GPU
            memory.follow(stream)
        handle.barrier(channel=0)  # all have read what came in the call before
        for place in places:
            place.copy_(x, non_blocking=True)
        handle.barrier(channel=1)
        return _product(gathered, w, bias, out)

    return run


def _exchange(choice: WayChoice, shape: LinearShape, memory: GroupMemory, w: Tensor, bias: Any) -> Run:
    problem = problem_of(shape, choice)
    if shape.has_bias and memory.rank:
        problem = replace(problem, has_bias=False)  # rank 0 adds it
    # A view that begins where TMA cannot is copied at every call, on this rank alone.
    w_place, bias_place = _place(w), None if bias is None else _place(bias)
    space = memory.workspace(problem.m * problem.n * ELEMENT, problem.tiles)
    linear = ExchangeLinear(
        space, memory.rank, problem, options_named(choice.way), w_place.data_ptr(),
        0 if bias_place is None else bias_place.data_ptr(),
    )  # fmt: skip
    rows = shape.m // (shape.ranks if shape.kind == "reduce-scatter" else 1)
    size, launch, index = (rows, shape.n), linear.launch, w.device.index
    # Only what is copied to is kept: weights are their owner's to free.
    copied = [place if place is not given else None for place, given in ((w_place, w), (bias_place, bias))]
    has_copies = any(place is not None for place in copied)
    del w_place, bias_place

    def run(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        if (stream := _raw_stream(index)) != memory.latest:  # type: ignore[misc]  # on a GPU
            memory.follow(stream)
        if has_copies:
            for place, given in zip(copied, (w, bias), strict=True):
                if place is not None:
                    place.copy_(given)
        x = aligned(x)
        made = out
        if out is None or out.data_ptr() % ALIGNMENT:
            made = x.new_empty(size)
        launch(x.data_ptr(), made.data_ptr(), stream)  # type: ignore[union-attr]  # set just above
        return made if made is out or out is None else out.copy_(made)

    return run


def _push(choice: WayChoice, shape: LinearShape, memory: GroupMemory, w: Tensor, bias: Tensor | None) -> Run:
    """A GEMM, the library's or ours, then a kernel that stores its outputs to the other ranks and adds."""
    scatters, adds_bias = shape.kind == "reduce-scatter", memory.rank == 0
    elements = shape.m * shape.n // (shape.ranks if scatters else 1)
    form = form_of(elements, shape.ranks, shape.dtype, query().sm_count, scatters=scatters)
    space = memory.workspace(elements * ELEMENT, form.parts * form.shares)
    dtype: Any = shape.dtype
    sums = PushedSums(space, memory.rank, elements, dtype, scatters=scatters, limit_s=LIMIT_S)
    push, index, current = sums.launch, memory.device.index, cast("Callable[[int], int]", _raw_stream)
    multiply = _prepared(choice, shape, memory, w, bias if adds_bias else None)
    part, empty = (shape.m // shape.ranks, shape.n), memory.empty_of(shape)

    def run(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        if (stream := current(index)) != memory.latest:
            memory.follow(stream)
        given = out if out is not None and out.data_ptr() % ALIGNMENT == 0 else None
        made = product = empty() if given is None or scatters else given
        at = product.data_ptr()
        if multiply is None:
            _product(x, w, bias if adds_bias else None, product)
        else:
            multiply(aligned(x).data_ptr(), at, stream)
        if scatters:
            made = product.new_empty(part) if given is None else given
        push(at, made.data_ptr() if scatters else at, stream)
        return made if out is None or made is out else out.copy_(made)

    return run


def _prepared(
    choice: WayChoice, shape: LinearShape, memory: GroupMemory, w: Tensor, bias: Tensor | None
) -> Callable[[int, int, int], None] | None:
    """The GEMM's launch, by addresses; None where its vectors do not fit here, and PyTorch makes it."""
    if not takes_product(w, bias):
        return None
    if choice.way == TILED:
        memory.met()
        return TiledLinear(shape, choice.tile, w.data_ptr(), 0 if bias is None else bias.data_ptr()).launch
    algorithm, _ = memory.algorithms.get(shape, UNTIMED)
    with suppress(DeviceError):  # a cuBLASLt that cannot be loaded, or that refuses the shape
        return memory.product(shape, w, bias, algorithm).launch
    return None


def _halves(shape: LinearShape, memory: GroupMemory, w: Tensor, bias: Tensor | None) -> Run:
    """The other rank's rows, which the copy engine takes there under own ones; then a kernel adds."""
    if not takes_product(w, bias):
        raise DescriptionError("halves are made by cuBLASLt, whose vectors begin at multiples of 16 bytes")
    scatters, rank, half = shape.kind == "reduce-scatter", memory.rank, replace(shape, m=shape.m // 2)
    size, part, index = (shape.m, shape.n), (half.m, shape.n), memory.device.index
    elements = half.m * shape.n * (1 if scatters else 2)
    form = form_of_halves(elements, shape.dtype, scatters=scatters)
    space = memory.workspace(shape.m * shape.n * ELEMENT, 2 * form.parts)
    dtype: Any = shape.dtype
    sums = PushedSums(space, rank, elements, dtype, scatters=scatters, in_halves=True, limit_s=LIMIT_S)
    multiply, add, copy = (
        memory.product(half, w, None if rank else bias).launch,
        sums.launch,
        memory.copy_beside,
    )
    there, size_of_half = sums.half_there, half.m * shape.n * ELEMENT
    rows_apart = half.m * shape.k * ELEMENT  # of x

    def run(x: Tensor, _w: Tensor, _bias: Tensor | None, out: Tensor | None) -> Tensor:
        if (stream := _raw_stream(index)) != memory.latest:  # type: ignore[misc]  # on a GPU
            memory.follow(stream)
        x = aligned(x)
        given = out if out is not None and out.data_ptr() % ALIGNMENT == 0 else None
        product = x.new_empty(size) if given is None or scatters else given
        rows, outputs = x.data_ptr(), product.data_ptr()
        theirs = outputs + (1 - rank) * size_of_half
        multiply(rows + (1 - rank) * rows_apart, theirs, stream)
        with copy(there, theirs, size_of_half):
            multiply(rows + rank * rows_apart, outputs + rank * size_of_half, stream)
        made = product
        if scatters:
            made = product.new_empty(part) if given is None else given
        add(outputs, made.data_ptr(), stream)
        return made if made is out or out is None else out.copy_(made)

    return run


def problem_of(shape: LinearShape, choice: WayChoice) -> SharedGemm:
    """What our kernel computes. Raises `DescriptionError`."""
    m, n, k = shape.size
    split_k = split_of(shape.size, choice.tile)
    problem = SharedGemm(
        *(m, n, k, Collective(shape.kind), shape.ranks, shape.dtype, *choice.tile, split_k),  # type: ignore[arg-type]
        b_order="column",
        has_bias=shape.has_bias,
    )
    return in_halves(problem)


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, dense, from an address that TMA takes; a copy where it begins elsewhere.

    Where a view begins may differ from rank to rank, and must not decide whether a rank takes part.
    """
    if tensor.data_ptr() % ALIGNMENT == 0 and tensor.is_contiguous():
        return tensor
    dense = tensor.contiguous()
    return dense if dense.data_ptr() % ALIGNMENT == 0 else dense.clone()


def require_alike(told: list[Any]) -> None:
    """Raises `DescriptionError` on all ranks where they call with different shapes."""
    if len(set(told)) > 1:
        raise DescriptionError(
            f"the ranks call with different shapes, types or biases: {', '.join(map(str, told))}. Give every "
            "rank the same"
        )


def _place(tensor: Tensor) -> Tensor:
    whole = aligned(tensor)
    return tensor if whole.data_ptr() == tensor.data_ptr() else whole
