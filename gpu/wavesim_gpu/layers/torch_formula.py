"""What an MLP computes, in PyTorch's own operations: forward, and backward from nothing but its inputs.

Example: on a CPU, and in training, `wavesim_gpu.torch.mlp` is `forward` here. `backward` computes the
intermediate matrices again, so a forward pass on our kernels keeps none of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from wavesim.errors import DescriptionError
from wavesim_gpu.layers.description import GATED

Optional: TypeAlias = Tensor | None
_aten = torch.ops.aten


class MlpOperands(NamedTuple):
    """One call's arguments: x (..., k), w1 (k, n1), w2 (n1, n2), gate (k, n1), biases (n1) and (n2).

    With a gated activation and no `gate`, w1 is (k, 2 n1) and b1 (2 n1): the gate's columns come first.
    """

    x: Tensor
    w1: Tensor
    w2: Tensor
    gate: Optional = None
    activation: str | None = None
    b1: Optional = None
    b_gate: Optional = None
    b2: Optional = None

    @property
    def tensors(self) -> tuple[Optional, ...]:
        """The arguments that are tensors, in order; None where there is none."""
        return (*self[:4], *self[5:])


class _Activation(NamedTuple):
    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]  # of the gradient and the input


def _silu_backward(grad: Tensor, h: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return _aten.silu_backward(grad, h)
    share = torch.sigmoid(h)  # PyTorch's own, as here, is differentiable only when written out
    return grad * share * (1 + h * (1 - share))


ACTIVATIONS: dict[str | None, _Activation] = {
    None: _Activation(lambda h: h, lambda grad, _: grad),
    "relu": _Activation(functional.relu, lambda grad, h: _aten.threshold_backward(grad, h, 0)),
    "silu": _Activation(functional.silu, _silu_backward),
    "gelu-exact": _Activation(functional.gelu, _aten.gelu_backward),
    "gelu": _Activation(
        lambda h: functional.gelu(h, approximate="tanh"),
        lambda grad, h: _aten.gelu_backward(grad, h, approximate="tanh"),
    ),
}
WORDS = (*(word for word in ACTIVATIONS if word), *GATED)


def require_description(operands: MlpOperands) -> None:
    """Raises `DescriptionError` where activation, gate and sides do not go together."""
    word, gate = operands.activation, operands.gate
    if word is not None and word not in WORDS:
        raise DescriptionError(f"activation is {word!r}; it must be None or one of {', '.join(WORDS)}")
    if gate is not None and word not in GATED:
        raise DescriptionError(f"gate is given with activation {word!r}; use one of {', '.join(GATED)}")
    if operands.b_gate is not None and gate is None:
        raise DescriptionError("b_gate is given without gate; of packed weights b1 holds both biases")
    columns = operands.w1.shape[1] // (2 if word in GATED and gate is None else 1)
    sides = (
        ("w1", operands.w1.shape[0], operands.x.shape[-1], "the columns of x"),
        ("w2", operands.w2.shape[0], columns, "the columns that the activation leaves of w1"),
    )
    for name, result, wanted, of in sides:
        if result != wanted:
            raise DescriptionError(f"{name} has {result} rows; it must have {wanted}, {of}")
    if gate is not None and gate.shape != operands.w1.shape:
        raise DescriptionError(f"gate is {tuple(gate.shape)}; it must be {tuple(operands.w1.shape)}, as w1")


def forward(operands: MlpOperands) -> Tensor:
    """The result (..., n2), of x's element type."""
    middle = _activated(operands, *_first(operands))
    return functional.linear(middle, operands.w2.t(), operands.b2)


def _first(operands: MlpOperands) -> tuple[Tensor, Tensor | None]:
    """Before the activation: the values, and the gates if there are any."""
    values = functional.linear(operands.x, operands.w1.t(), operands.b1)
    if operands.activation not in GATED:
        return values, None
    if operands.gate is None:
        gates, values = values.chunk(2, dim=-1)
        return values, gates
    return values, functional.linear(operands.x, operands.gate.t(), operands.b_gate)


def _activated(operands: MlpOperands, values: Tensor, gates: Tensor | None) -> Tensor:
    if gates is None:
        return ACTIVATIONS[operands.activation].forward(values)
    return ACTIVATIONS[GATED[str(operands.activation)]].forward(gates) * values


def backward(operands: MlpOperands, grad: Tensor, needed: tuple[bool, ...]) -> tuple[Any, ...]:
    """Gradients of the arguments in their order, None where not needed. `grad` is the result's (..., n2)."""
    need = MlpOperands(*needed)  # type: ignore[arg-type]
    values, gates = _first(operands)
    middle = _activated(operands, values, gates) if need.w2 else None
    d_middle = grad @ operands.w2.t()
    d_w2 = _rows(middle).t() @ _rows(grad) if middle is not None else None
    d_values, d_gates = _through_activation(operands, d_middle, values, gates)
    d_x = d_values @ operands.w1.t() if need.x else None
    if need.x and operands.gate is not None:
        d_x = d_x + d_gates @ operands.gate.t()
    x = _rows(operands.x)
    return (
        d_x,
        x.t() @ _rows(d_values) if need.w1 else None,
        d_w2,
        x.t() @ _rows(d_gates) if need.gate else None,
        None,
        _rows(d_values).sum(0) if need.b1 else None,
        _rows(d_gates).sum(0) if need.b_gate else None,
        _rows(grad).sum(0) if need.b2 else None,
    )


def _through_activation(
    operands: MlpOperands, grad: Tensor, values: Tensor, gates: Tensor | None
) -> tuple[Tensor, Any]:
    """Gradients of what w1's product is, both halves of packed weights, and of a separate gate's product."""
    if gates is None:
        return ACTIVATIONS[operands.activation].backward(grad, values), None
    function = ACTIVATIONS[GATED[str(operands.activation)]]
    d_gates = function.backward(grad * values, gates)
    d_values = grad * function.forward(gates)
    return (torch.cat((d_gates, d_values), -1), None) if operands.gate is None else (d_values, d_gates)


def _rows(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])
