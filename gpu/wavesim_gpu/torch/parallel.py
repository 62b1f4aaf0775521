"""Linear layers whose weights are shared out over a process group, as PyTorch operators.

Example: after an MLP's second GEMM, `row_parallel_linear(x, w, group)` is x W^T summed over the ranks, each
of which has a part of K; with `scatter=True` each keeps its part of the rows (sequence parallelism), which
`column_parallel_linear(x, w, group)` gathers again for the next GEMM. A layer's first call chooses a way
(parallel_calls.py) and prepares it; the later ones, a CUDA graph's and torch.compile's too, launch it. The
backward passes are PyTorch's GEMMs and collectives.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives
from torch.distributed.distributed_c10d import _resolve_process_group

from wavesim.errors import DescriptionError
from wavesim.work.collective import KINDS
from wavesim_gpu.torch.parallel_calls import calls_of
from wavesim_gpu.torch.parallel_tuning import tuned_times

_LIBRARY = torch.library.Library("wavesim", "FRAGMENT")
ROW, COLUMN = "row_parallel_linear", "column_parallel_linear"
_has_autocast = getattr(torch._C, "_is_any_autocast_enabled", bool)  # noqa: SLF001  # of one call, without a device
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(
    f"{ROW}(Tensor x, Tensor w, str group, Tensor? bias=None, bool scatter=False) -> Tensor", tags=_TAGS
)
_LIBRARY.define(f"{COLUMN}(Tensor x, Tensor w, str group, Tensor? bias=None) -> Tensor", tags=_TAGS)


def row_parallel_linear(
    x: Tensor,
    w: Tensor,
    group: Any = None,
    *,
    bias: Tensor | None = None,
    scatter: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X (..., k) times w (n, k) transposed, summed over the group's ranks: (..., n) on each.

    k is this rank's part. `bias` (n,), the same on all ranks, is added once. With `scatter` x is (m, k) and
    each rank gets its m / ranks rows. `group` is a process group, by default that of all ranks. All ranks
    call it with the same shapes. The result is written to `out` where that is given, which is for inference.
    Raises `DescriptionError`, and `DeadlockError` where an earlier call has waited too long for another rank.
    """
    if scatter and x.dim() != 2:
        raise DescriptionError(
            f"{ROW}: x has {x.dim()} dimensions; with scatter it must have 2, whose rows are shared out. "
            "Flatten it"
        )
    return _call(ROW, "reduce-scatter" if scatter else "all-reduce", x, w, bias, out, group)


def column_parallel_linear(
    x: Tensor, w: Tensor, group: Any = None, *, bias: Tensor | None = None, out: Tensor | None = None
) -> Tensor:
    """X (m, k), this rank's rows, gathered from all ranks, times w (n, k) transposed: (m * ranks, n).

    n is this rank's part, and so is that of `bias`. Else as `row_parallel_linear`.
    """
    if x.dim() != 2:
        raise DescriptionError(
            f"{COLUMN}: x has {x.dim()} dimensions; it must have 2, whose rows are gathered. Flatten it"
        )
    return _call(COLUMN, "all-gather", x, w, bias, out, group)


def tune_parallel_linear(
    x: Tensor,
    w: Tensor,
    group: Any = None,
    *,
    bias: Tensor | None = None,
    collective: str = "all-reduce",
) -> dict[str, float]:
    """Times every way of a layer on this machine, us by its name, and keeps the fastest for later calls.

    `collective` is "all-reduce", "reduce-scatter" or "all-gather". All ranks call it. Ours is kept only where
    it is faster than every library's by 2 % or more.
    """
    if collective not in KINDS:
        raise DescriptionError(f"collective is {collective!r}; it must be one of {', '.join(KINDS)}")
    group = _group(group, COLUMN if collective == "all-gather" else ROW)
    return tuned_times(group, collective, x, w, bias)


def _call(
    name: str, kind: str, x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None, group: Any
) -> Tensor:
    is_compiling = torch.compiler.is_compiling()
    if _has_autocast() and torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, w, bias = x.to(dtype), w.to(dtype), None if bias is None else bias.to(dtype)
    has_gradient = torch.is_grad_enabled() and (
        x.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad)
    )
    if not is_compiling and not has_gradient and type(x) in (Tensor, torch.nn.Parameter):
        return calls_of(_group(group, name)).run(kind, x, w, bias, out)
    if out is not None and has_gradient:
        raise DescriptionError(f"{name}: out is for inference; here a gradient is needed. Leave out out=")
    words = (str(_group(group, name).group_name), bias)
    operator = getattr(torch.ops.wavesim, name).default
    result = operator(x, w, *words) if name == COLUMN else operator(x, w, *words, kind == "reduce-scatter")
    return result if out is None else out.copy_(result)


def _group(group: Any, name: str) -> Any:
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise DescriptionError(
            f"{name}: there is no process group. Call torch.distributed.init_process_group"
        )
    return group


# ---- The operators: what compilers, graphs and autograd see. ----


def _run_row(x: Tensor, w: Tensor, group: str, bias: Any = None, scatter: Any = False) -> Tensor:
    kind = "reduce-scatter" if scatter else "all-reduce"
    return calls_of(_resolve_process_group(group)).run(kind, x, w, bias, None)


def _run_column(x: Tensor, w: Tensor, group: str, bias: Any = None) -> Tensor:
    return calls_of(_resolve_process_group(group)).run("all-gather", x, w, bias, None)


def _shape_of_row(x: Tensor, w: Tensor, group: str, _bias: Any = None, scatter: Any = False) -> Tensor:
    if not scatter:
        return x.new_empty((*x.shape[:-1], w.shape[0]))
    return x.new_empty((x.shape[0] // dist.get_world_size(_resolve_process_group(group)), w.shape[0]))


def _shape_of_column(x: Tensor, w: Tensor, group: str, _bias: Any = None) -> Tensor:
    ranks = dist.get_world_size(_resolve_process_group(group))
    return x.new_empty((x.shape[0] * ranks, w.shape[0]))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001  # named by PyTorch
    x, w, ctx.group, bias, *scatter = inputs
    ctx.scatter, ctx.has_bias = any(scatter), bias is not None
    ctx.save_for_backward(x, w)


def _gathered(rows: Tensor, group: str) -> Tensor:
    return collectives.wait_tensor(
        collectives.all_gather_tensor(rows.contiguous(), 0, _resolve_process_group(group))
    )


def _back_through_row(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """The sum's gradient is every rank's; of scattered rows it is gathered first."""
    x, w = ctx.saved_tensors
    grad = _gathered(grad, ctx.group) if ctx.scatter else grad
    flat = grad.reshape(-1, grad.shape[-1])
    grad_w = flat.t() @ x.reshape(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None
    grad_x = grad @ w if ctx.needs_input_grad[0] else None
    return grad_x, grad_w, None, flat.sum(0) if ctx.has_bias else None, None


def _back_through_column(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """Every rank has used all rows: their gradients are summed, and each rank keeps those of its own."""
    x, w = ctx.saved_tensors
    grad_w = grad.t() @ _gathered(x, ctx.group) if ctx.needs_input_grad[1] else None
    grad_x = None
    if ctx.needs_input_grad[0]:
        group = _resolve_process_group(ctx.group)
        grad_x = collectives.all_reduce(grad @ w, "sum", group)
        grad_x = (
            collectives.wait_tensor(grad_x).chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()
        )
    return grad_x, grad_w, None, grad.sum(0) if ctx.has_bias else None


for _name, _run, _shape, _back in (
    (ROW, _run_row, _shape_of_row, _back_through_row),
    (COLUMN, _run_column, _shape_of_column, _back_through_column),
):
    for _device in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _run, _device)
    torch.library.register_fake(f"wavesim::{_name}", _shape, lib=_LIBRARY)
    torch.library.register_autograd(f"wavesim::{_name}", _back, setup_context=_keep, lib=_LIBRARY)
