"""The ways in which torch users write an MLP: what `mlp` is compared with.

Example: "packed" is one product with gate and up projection above each other; "compiled" is what
torch.compile makes of the same lines as "eager".
"""

from collections.abc import Callable
from typing import Any

from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands, LayerShape, activation

Form = Callable[[LayerOperands], Any]


def torch_form(torch: Any, shape: LayerShape, name: str) -> Form:
    """One of: eager, packed, fused bias and GELU, compiled, compiled packed."""
    if name.startswith("compiled"):
        source = {"compiled": "eager", "compiled packed": "packed"}[name]
        function, arguments = _written(torch, shape, source)
        function = torch.compile(function, dynamic=False)
    else:
        function, arguments = _written(torch, shape, name)
    return lambda operands: function(*arguments(operands))


def _written(torch: Any, shape: LayerShape, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of tensors alone, as torch.compile wants it, and what it is called with."""
    linear, act = torch.nn.functional.linear, activation(torch, shape)

    def plain(x: Any, up: Any, down: Any, b1: Any, b2: Any) -> Any:
        return linear(act(linear(x, up, b1)), down, b2)

    def fused(x: Any, up: Any, down: Any, b1: Any, b2: Any) -> Any:
        # cuBLASLt's epilogue; with use_gelu it is the form with tanh on a GPU.
        return linear(torch._addmm_activation(b1, x, up.t(), use_gelu=True), down, b2)  # noqa: SLF001

    def gated(x: Any, gate: Any, up: Any, down: Any) -> Any:
        return linear(act(linear(x, gate)) * linear(x, up), down)

    def packed(x: Any, both: Any, down: Any) -> Any:
        gate, up = linear(x, both).chunk(2, dim=-1)
        return linear(act(gate) * up, down)

    if shape.mlp.gate is None:
        function = {"eager": plain, "fused bias and GELU": fused}[name]
        return function, lambda entry: (entry.x, entry.up, entry.down, entry.b1, entry.b2)
    if name == "packed":
        return packed, lambda entry: (entry.x, entry.packed, entry.down)
    return {"eager": gated}[name], lambda entry: (entry.x, entry.gate, entry.up, entry.down)
