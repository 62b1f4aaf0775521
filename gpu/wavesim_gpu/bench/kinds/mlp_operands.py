"""An MLP's weights and input as PyTorch's tensors, its result in fp32, and how far an output is from it.

Example: of a model with many layers the next layer's weights are never in the L2. So several sets are made,
which together fill it four times over, and runs in a row take them in turn.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wavesim_gpu.layers.description import MlpShape

MOST_SETS, ALL_SETS_BYTES = 16, 240_000_000  # four times 60 MB, the largest L2 there is
BITS = {"fp16": 11, "bf16": 8}  # of a significand, the hidden one counted
# Errors in units of 2**-bits times the root mean square of the result. An element is rounded five times
# (gate, value, activation, product, result), each by at most one unit; the largest of a hundred million
# elements is six standard deviations away.
MOST_RMS, MOST_ERROR = 3.0, 24.0


@dataclass(frozen=True)
class LayerShape:
    """An MLP of a model for so many tokens, and which of torch's forms it is compared with."""

    mlp: MlpShape
    forms: tuple[str, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "LayerShape":
        """Of a case of a list."""
        own = {name: fields[name] for name in ("k", "n1", "n2", "dtype", "activation")}
        has_biases = fields.get("has_biases", False)
        mlp = MlpShape(
            fields["tokens"],
            **own,
            gate=fields.get("gate"),
            w1_order="column",
            w2_order="column",
            has_b1=has_biases,
            has_b2=has_biases,
        )
        return cls(mlp, tuple(fields["forms"]))

    @property
    def weight_bytes(self) -> int:
        """Of all its matrices."""
        return 2 * (self.mlp.k * self.mlp.products + self.mlp.n1 * self.mlp.n2)

    @property
    def flops(self) -> int:
        """Of both products; multiply and add count as two."""
        return self.mlp.m * self.weight_bytes


@dataclass(frozen=True)
class LayerOperands:
    """x (m, k), `gate` and `up` (n1, k), `down` (n2, n1), as nn.Linear stores them.

    `packed` is gate above up, (2 n1, k). Without a gate both are None; biases are None where there are none.
    """

    x: Any
    up: Any
    down: Any
    gate: Any = None
    packed: Any = None
    b1: Any = None
    b2: Any = None


def set_count(shape: LayerShape) -> int:
    """How many sets of weights fill the L2 four times over."""
    return min(MOST_SETS, math.ceil(ALL_SETS_BYTES / shape.weight_bytes))


def random_layer(torch: Any, shape: LayerShape, seed: int, device: str = "cuda") -> LayerOperands:
    """Normal values; products have a standard deviation of about 1."""
    mlp, generator = shape.mlp, torch.Generator(device).manual_seed(seed)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[mlp.dtype]

    def normal(*size: int, scale: float = 1.0) -> Any:
        return torch.randn(*size, generator=generator, device=device, dtype=dtype).mul_(scale)

    products = normal(mlp.products, mlp.k, scale=mlp.k**-0.5)
    gate, up = products.split(mlp.n1) if mlp.gate else (None, products)
    return LayerOperands(
        x=normal(mlp.m, mlp.k),
        # Matrices of their own, as a model has them, and not halves of one.
        up=up.clone() if mlp.gate else up,
        gate=gate.clone() if mlp.gate else None,
        packed=products if mlp.gate else None,
        down=normal(mlp.n2, mlp.n1, scale=mlp.n1**-0.5),
        b1=normal(mlp.n1, scale=0.1) if mlp.has_b1 else None,
        b2=normal(mlp.n2, scale=0.1) if mlp.has_b2 else None,
    )


def reference(torch: Any, shape: LayerShape, operands: LayerOperands) -> Any:
    """The result (m, n2) in fp32, nothing rounded in between."""
    torch.backends.cuda.matmul.allow_tf32 = False
    middle = product(torch, operands.x, operands.up, operands.b1)
    if operands.gate is None:
        middle = activation(torch, shape)(middle)
    else:
        middle *= activation(torch, shape)(product(torch, operands.x, operands.gate, None))
    return product(torch, middle, operands.down, operands.b2)


def product(torch: Any, a: Any, weight: Any, bias: Any) -> Any:
    """A linear layer in fp32."""
    linear = torch.nn.functional.linear
    return linear(a.float(), weight.float(), None if bias is None else bias.float())


def activation(torch: Any, shape: LayerShape) -> Callable[[Any], Any]:
    """Of the shape's MLP, or of its gate."""
    functional = torch.nn.functional
    if shape.mlp.activation == "gelu":
        return lambda result: functional.gelu(result, approximate="tanh")
    return {"swiglu": functional.silu}[shape.mlp.activation]  # type: ignore[no-any-return]


def verdict(shape: LayerShape, result: Any, expected: Any) -> dict[str, Any]:
    """Whether an output is right: `is_good`, and its errors in roundings, None where they are not finite."""
    unit = 2.0 ** -BITS[shape.mlp.dtype] * expected.square().mean().sqrt().item()
    difference = result.float() - expected
    rms = difference.square().mean().sqrt().item() / unit
    largest = difference.abs().max().item() / unit
    is_finite = math.isfinite(rms) and math.isfinite(largest)
    return {
        "is_good": is_finite and rms <= MOST_RMS and largest <= MOST_ERROR,
        "rms_roundings": round(rms, 3) if is_finite else None,
        "largest_roundings": round(largest, 2) if is_finite else None,
    }
