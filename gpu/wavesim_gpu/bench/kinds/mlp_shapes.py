"""The MLPs that `layers` measures: models of published sizes at numbers of tokens written down beforehand.

Example: "Llama 3 8B" at 512 tokens is x (512, 4096), gate and up projections of 14336 columns, down to 4096,
in bf16, with SwiGLU. `shapes_hash()` goes into the results, so that a list changed afterwards shows.
"""

import hashlib
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from wavesim.safe_io.documents import read_toml
from wavesim_gpu.layers.description import MlpShape

PATH = Path(__file__).with_name("mlp_shapes.toml")


@dataclass(frozen=True)
class LayerShape:
    """An MLP of a model for so many tokens, and which of torch's forms it is compared with."""

    model: str
    tokens: int
    mlp: MlpShape
    forms: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as "Llama 3 8B M=512"."""
        return f"{self.model} M={self.tokens}"

    @property
    def weight_bytes(self) -> int:
        """Of all its matrices."""
        return 2 * (self.mlp.k * self.mlp.products + self.mlp.n1 * self.mlp.n2)

    @property
    def flops(self) -> int:
        """Of both products; multiply and add count as two."""
        return self.tokens * self.weight_bytes


def all_shapes(*, are_packed: bool = False) -> list[LayerShape]:
    """All of the file's, in the order of measuring: the first of every model, then the second, ...

    With `are_packed` those with a gate, its weight and the values' in one matrix, and torch's forms of that.
    """
    models = [_shapes_of(model) for model in read_toml(PATH)["model"]]
    shapes = [shape for shape in chain.from_iterable(zip_longest(*models)) if shape is not None]
    return [_packed(shape) for shape in shapes if shape.mlp.gate] if are_packed else shapes


def _packed(shape: LayerShape) -> LayerShape:
    forms = tuple(form for form in shape.forms if "packed" in form)
    return replace(shape, mlp=replace(shape.mlp, gate="packed"), forms=forms)


def shapes_hash() -> str:
    """SHA-256 of the file."""
    return hashlib.sha256(PATH.read_bytes()).hexdigest()


def _shapes_of(model: dict[str, Any]) -> list[LayerShape]:
    return [
        LayerShape(
            model["name"],
            tokens,
            MlpShape(
                tokens,
                model["k"],
                model["n1"],
                model["n2"],
                model["dtype"],
                model["activation"],
                gate="separate" if model["has_gate"] else None,
                w1_order="column",
                w2_order="column",
                has_b1=model["has_biases"],
                has_b2=model["has_biases"],
            ),
            tuple(model["forms"]),
        )
        for tokens in model["tokens"]
    ]
