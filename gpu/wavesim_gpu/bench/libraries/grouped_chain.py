"""A MoE layer as PyTorch has it: sort, two `torch._grouped_mm`, an activation between, a weighted sum.

Example: `chain(x, w1, w2, ids, weights)` with w1 and w2 as `wavesim_gpu.moe` takes them; both ways to sum
up, `index_add_` and a gather, are here, as neither is always the faster.
"""

import torch
from torch import Tensor
from torch.nn import functional


def made_rows(x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The experts' outputs in the order of their ids, and that order."""
    flat = ids.flatten()
    order = flat.argsort(stable=True)
    counts = torch.histc(flat.float(), bins=w1.shape[0], min=0, max=w1.shape[0] - 1)
    ends = counts.cumsum(0).to(torch.int32)
    rows = x[order // ids.shape[1]]
    gate, up = torch._grouped_mm(rows, w1.transpose(1, 2), offs=ends).chunk(2, dim=-1)  # noqa: SLF001
    made = torch._grouped_mm(functional.silu(gate) * up, w2.transpose(1, 2), offs=ends)  # noqa: SLF001
    return made, order


def chain_index_add(x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """Sums by `index_add_`, by atomics and in bf16, as Hugging Face's models have it."""
    made, order = made_rows(x, w1, w2, ids)
    scaled = made * weights.flatten()[order, None].to(made.dtype)
    return torch.zeros_like(x).index_add_(0, order // ids.shape[1], scaled)


def chain_gather(x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """Puts rows back in the order of the tokens and sums in fp32."""
    made, order = made_rows(x, w1, w2, ids)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
    by_token = made[back].view(*ids.shape, -1).float()
    return (by_token * weights[..., None].float()).sum(1).to(x.dtype)
