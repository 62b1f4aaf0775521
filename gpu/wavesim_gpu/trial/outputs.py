"""Outputs of a step, whatever holds them: their tensors, and how far two runs of them differ.

Example: of a Hugging Face output with `logits` the worst relative error over its tensors, and the share of
rows whose largest logit is the same.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_DEPTH = 8
# Relative, in the Euclidean norm, of the worst tensor. Two right ways to round differ by a few of the last
# bits per layer; what a wrong product gives is of the size of the outputs themselves.
MOST_ERROR = {"bfloat16": 0.05, "float16": 0.02, "float32": 0.01}


@dataclass(frozen=True)
class OutputDifference:
    """Of two runs: the worst tensor's relative error (NaN: not comparable), and the agreement of argmax."""

    relative_error: float
    agreement: float | None
    tensors: int
    bound: float

    @property
    def is_small(self) -> bool:
        """Whether the two runs say the same, as far as their number format can tell."""
        return self.tensors > 0 and self.relative_error <= self.bound


def kept_tensors(outputs: Any) -> dict[str, Any]:
    """The floating tensors of a step's outputs by name, copied: a replay would write over them."""
    return {name: tensor.detach().clone() for name, tensor in _tensors(outputs, "", 0)}


def difference_of(first: Mapping[str, Any], second: Mapping[str, Any]) -> OutputDifference:
    """How far `one` is from `other`; tensors of other names or shapes make the error NaN."""
    bound = min((MOST_ERROR.get(_type(tensor), 0.01) for tensor in second.values()), default=0.0)
    if {name: tensor.shape for name, tensor in first.items()} != {
        name: tensor.shape for name, tensor in second.items()
    }:
        return OutputDifference(math.nan, None, len(second), bound)
    errors = [_relative(first[name], tensor) for name, tensor in second.items()]
    worst = math.nan if any(map(math.isnan, errors)) else max(errors, default=0.0)  # max() passes over NaN
    return OutputDifference(worst, _agreement(first, second), len(second), bound)


def _relative(first: Any, second: Any) -> float:
    scale = second.double().norm()
    error = (first.double() - second.double()).norm()
    return float(error / scale) if float(scale) else float(error)


def _agreement(first: Mapping[str, Any], second: Mapping[str, Any]) -> float | None:
    """Of `logits`, or of a single output that could be such."""
    names = [name for name in second if name.rpartition(".")[2] == "logits"]
    if len(second) == 1 and not names:
        names = [name for name, tensor in second.items() if tensor.dim() > 1 and tensor.shape[-1] > 1]
    if not names:
        return None
    same = first[names[0]].argmax(-1) == second[names[0]].argmax(-1)
    return float(same.float().mean())


def _type(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    import torch  # noqa: PLC0415  # optional

    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield name, value
    elif depth < MOST_DEPTH and isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, entry in items:
            yield from _tensors(entry, f"{name}.{key}" if name else str(key), depth + 1)
