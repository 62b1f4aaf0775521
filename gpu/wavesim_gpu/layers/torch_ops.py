"""An MLP in PyTorch's own operations: where neither our kernels nor cuBLASLt can be had, or rows are odd.

Example: x begins at an address that is no multiple of 16 bytes, as `buffer[1:]` may; TMA cannot read it, and
PyTorch's operations can.
"""

from typing import Any

from wavesim_gpu.layers.description import GATED


def in_torch_ops(  # noqa: PLR0913  # what an MLP has
    x: Any,
    w1: Any,
    w2: Any,
    *,
    gate: Any = None,
    activation: str | None = None,
    b1: Any = None,
    b_gate: Any = None,
    b2: Any = None,
    out: Any = None,
) -> Any:
    """As `mlp` computes it, checked arguments; into `out` where it is given."""
    middle = _product(x, w1, b1)
    if activation in GATED:
        gates, values = (_product(x, gate, b_gate), middle) if gate is not None else middle.chunk(2, -1)
        middle = activated(gates, GATED[activation]) * values
    else:
        middle = activated(middle, activation)
    result = _product(middle, w2, b2)
    return result if out is None else out.copy_(result)


def _product(x: Any, weight: Any, bias: Any) -> Any:
    import torch  # noqa: PLC0415  # there: the arguments are its tensors

    return torch.nn.functional.linear(x, weight.t(), bias)


def activated(x: Any, word: str | None) -> Any:
    """An activation that is not gated, by its word; None leaves x as it is."""
    import torch  # noqa: PLC0415  # there: x is one of its tensors

    if word is None:
        return x
    if word in ("gelu", "gelu-exact"):
        return torch.nn.functional.gelu(x, approximate="tanh" if word == "gelu" else "none")
    return {"relu": torch.relu, "silu": torch.nn.functional.silu}[word](x)
