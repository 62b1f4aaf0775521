"""`mlp` for PyTorch: straight to our kernels, or through the operator where PyTorch has a part in the call.

Example: in `torch.no_grad()` on a GPU the call is `wavesim_gpu.mlp`; the operator would take 6 us more of
the host's time. Under torch.compile, autocast or a tracer, the operator is called.
"""

from typing import Any

import torch
from torch import Tensor

from wavesim_gpu.layers import mlp as layers_mlp
from wavesim_gpu.layers.torch_formula import MlpOperands, Optional
from wavesim_gpu.layers.torch_operator import needs_gradient, operation, register_on_gpu


def mlp(  # noqa: PLR0913  # an MLP has as many parts
    x: Tensor,
    w1: Tensor,
    w2: Tensor,
    *,
    gate: Optional = None,
    activation: str | None = None,
    b1: Optional = None,
    b_gate: Optional = None,
    b2: Optional = None,
    recompute: bool = False,
) -> Tensor:
    """`wavesim_gpu.mlp` for PyTorch: differentiable, and right under torch.compile, autocast and graphs.

    x (..., k), w1 (k, n1), w2 (n1, n2), `gate` (k, n1) or w1 (k, 2 n1), biases (n1) and (n2); pass
    `linear.weight.t()` of an `nn.Linear`. Returns (..., n2). Where a gradient is needed, PyTorch's own
    operations compute all of it, so training is what it was; with `recompute` the forward pass is on our
    kernels, keeps nothing but its arguments, and the backward pass computes the first product again. On a CPU
    it is PyTorch's operations too. Raises `DescriptionError` for arguments that do not go together.
    """
    operands = MlpOperands(x, w1, w2, gate, activation, b1, b_gate, b2)
    if torch.compiler.is_compiling() or not _is_direct(operands):
        return operation(operands, recompute=recompute)
    return _on_gpu(*operands)


def _is_direct(operands: MlpOperands) -> bool:
    """Whether the layers may have the call: they see to modes and transforms, not to autocast."""
    if not operands.x.is_cuda or torch.is_autocast_enabled("cuda"):
        return False
    return not needs_gradient(operands)


def _on_gpu(
    x: Tensor,
    w1: Tensor,
    w2: Tensor,
    gate: Optional = None,
    activation: Any = None,
    b1: Optional = None,
    b_gate: Optional = None,
    b2: Optional = None,
) -> Tensor:
    out = layers_mlp.mlp(
        x if x.dim() > 1 else x[None], w1, w2, gate=gate, activation=activation, b1=b1, b_gate=b_gate, b2=b2
    )
    return out if x.dim() > 1 else out[0]


register_on_gpu(_on_gpu)
