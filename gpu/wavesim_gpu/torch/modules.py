"""Modules that compute an MLP by `mlp` where they can, and as they always did where they cannot.

Example: a `LlamaMLP` that was swapped is an object of a subclass of `LlamaMLP` with the same attributes,
parameters and hooks. Its forward pass calls our operator; in training, with an adapter on a linear layer or
with weights of another kind, `LlamaMLP.forward`. PyTorch's own `parametrize` makes such subclasses too.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from wavesim.errors import DeadlockError
from wavesim_gpu.layers import torch_formula as formula
from wavesim_gpu.layers.description import GATED
from wavesim_gpu.layers.torch_formula import MlpOperands
from wavesim_gpu.torch.direct import mlp

PLAIN = (Tensor, nn.Parameter)
_DTYPES = (torch.float16, torch.bfloat16)
Weights = tuple[Tensor, Tensor | None]  # (in, out), and the bias


@dataclass(frozen=True)
class MlpParts:
    """Which submodules of an MLP are what, and its activation in `wavesim_gpu.mlp`'s words.

    `gate` None with a gated activation: `up` computes the gates and the values side by side. `linear` is the
    class of all of them; `stores_out_in` says whether it keeps its weight as (out, in), as `nn.Linear` does.
    `others` are the names and classes of all other submodules, the dropouts' among them.
    `is_same_in_training`: its forward pass does not look at its own `training`, as one does that calls
    `functional.dropout`.
    """

    up: str
    down: str
    gate: str | None
    activation: str | None
    linear: type
    stores_out_in: bool
    dropouts: tuple[str, ...] = ()
    others: tuple[tuple[str, type], ...] = ()
    is_same_in_training: bool = True

    @property
    def linears(self) -> tuple[str, ...]:
        """Names of the linear layers."""
        return (self.up, self.down) if self.gate is None else (self.up, self.down, self.gate)


def why_not(linear: Any, linear_type: type) -> str:
    """Why a linear layer cannot be read by its weight alone; empty where it can."""
    if (kind := type(linear)) is not linear_type:
        is_namesake = kind.__name__ == linear_type.__name__  # as PyTorch's own quantised Linear is
        return f"a {kind.__module__}.{kind.__name__}" if is_namesake else f"a {kind.__name__}"
    if is_hooked(linear):
        return "with hooks, of an offload or of somebody's own"
    weight, bias = linear._parameters.get("weight"), linear._parameters.get("bias")  # noqa: SLF001
    for tensor in (weight, bias):
        if type(tensor) not in PLAIN and not (tensor is None and weight is not None):
            return f"of a {type(tensor).__name__} as its weight"
        if tensor is not None and tensor.dtype not in _DTYPES:
            return f"of {str(tensor.dtype).removeprefix('torch.')}, not of float16 or bfloat16"
    return ""


def is_hooked(module: Any) -> bool:
    """Whether a call of the module does more than its class says."""
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):  # noqa: SLF001
        return True
    return bool(module._backward_hooks or module._backward_pre_hooks)  # noqa: SLF001


class FastModule:
    """Goes before a module's class and has another forward pass."""

    _wavesim_original: tuple[Any, ...] = ()  # a tuple, as a module would be a submodule

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By the class that it was swapped from, as the subclass has no name to be found by."""
        if not self._wavesim_original:
            return super().__reduce_ex__(protocol)
        original = type(self._wavesim_original[0])
        return empty_module, (original, type(self).__mro__[1]), self.__dict__


class FastForward(FastModule):
    """Goes before a module's class and has its forward pass computed by `mlp` where that is the same."""

    _wavesim_parts: MlpParts
    _wavesim_name = ""

    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        """The module's own, or `mlp` of one tensor."""
        if named or len(arguments) != 1 or not self._takes(arguments[0]):
            return super().forward(*arguments, **named)  # type: ignore[misc]  # of the module's class
        x, w1, w2, gate, word, b1, b_gate, b2 = self.wavesim_operands(arguments[0])
        try:
            return mlp(x, w1, w2, gate=gate, activation=word, b1=b1, b_gate=b_gate, b2=b2, recompute=True)
        except DeadlockError as error:
            error.add_note(f"Told to {self._wavesim_name or type(self).__name__}, which was called next.")
            raise

    def _takes(self: Any, x: Any) -> bool:
        """Whether `mlp` computes this call; if not, the module itself does, errors included."""
        parts, modules = self._wavesim_parts, self._modules
        if self.training and (torch.is_grad_enabled() or not parts.is_same_in_training):
            return False
        # By their own mode: some are switched on alone, for a sample of predictions.
        if parts.dropouts and any(modules[name].training and modules[name].p for name in parts.dropouts):
            return False
        if type(x) not in PLAIN or not (x.is_cuda or x.is_cpu) or self.wavesim_fault():
            return False
        weight = modules[parts.up]._parameters["weight"]  # noqa: SLF001
        return x.dtype == weight.dtype or torch.is_autocast_enabled(x.device.type)

    def wavesim_fault(self: Any) -> str:
        """Why its submodules are no more what they were when this was swapped; empty where they are."""
        parts, modules = self._wavesim_parts, self._modules
        for name in parts.linears:
            if reason := why_not(modules[name], parts.linear):
                return f"{name} is {reason}"
        for name, kind in parts.others:
            child = modules.get(name)
            if type(child) is not kind:
                return f"{name} is a {type(child).__name__}, no longer a {kind.__name__}"
            if is_hooked(child):
                return f"{name} is with hooks"
        return ""

    def wavesim_operands(self: Any, x: Any) -> MlpOperands:
        """The arguments of `mlp` for an input (..., k)."""
        parts, modules = self._wavesim_parts, self._modules
        w1, b1 = _weights(modules[parts.up], parts)
        w2, b2 = _weights(modules[parts.down], parts)
        gate, b_gate = (None, None) if parts.gate is None else _weights(modules[parts.gate], parts)
        return MlpOperands(x, w1, w2, gate, parts.activation, b1, b_gate, b2)


def _weights(linear: Any, parts: MlpParts) -> Weights:
    weight, bias = linear._parameters["weight"], linear._parameters["bias"]  # noqa: SLF001
    return (weight.t() if parts.stores_out_in else weight), bias


@cache
def fast_class(original: type, forward: type = FastForward) -> type:
    """The subclass of a module's class whose forward pass is another's, by default `FastForward`'s."""
    return type(f"Fast{original.__name__}", (forward, original), {"__module__": original.__module__})


def empty_module(original: type, forward: type = FastForward) -> Any:
    """An object of such a subclass, with no attributes yet."""
    made: Any = fast_class(original, forward)
    return made.__new__(made)


Module = TypeVar("Module", bound=nn.Module)


def swapped_for(original: Module, forward: type = FastForward, **attributes: Any) -> Module:
    """A module that shares everything with `original` but its forward pass. `original` stays as it is."""
    swapped: Any = empty_module(type(original), forward)
    swapped.__dict__.update(original.__dict__)  # the same dicts of parameters, submodules and hooks
    swapped.__dict__.update(_wavesim_original=(original,), **attributes)
    return swapped


def original_of(module: Any) -> Any:
    """What a module was swapped from, in the mode (training or not) that it has now; None if it was not."""
    if not isinstance(module, FastModule) or not module._wavesim_original:  # noqa: SLF001
        return None
    original = module._wavesim_original[0]  # noqa: SLF001
    original.training = module.training  # type: ignore[attr-defined]  # it is a module too
    return original


class _PlainMlp(nn.Module):
    """An MLP of linear layers `up`, `down` and, or None, `gate`."""

    def __init__(
        self, up: nn.Linear, down: nn.Linear, gate: nn.Linear | None, activation: str | None
    ) -> None:
        super().__init__()
        self.up, self.down, self.gate, self.activation = up, down, gate, activation

    def forward(self, x: Tensor) -> Tensor:
        """The result (..., n2) of x (..., k), by the linear layers."""
        if self.activation not in GATED:
            return self.down(formula.ACTIVATIONS[self.activation].forward(self.up(x)))
        values = self.up(x)
        gates, values = values.chunk(2, dim=-1) if self.gate is None else (self.gate(x), values)
        middle = formula.ACTIVATIONS[GATED[str(self.activation)]].forward(gates) * values
        return self.down(middle)


class Mlp(FastForward, _PlainMlp):
    """An MLP module for models of one's own: down(activation(up(x))), or down(act(gate(x)) * up(x)).

    `up`, `down` and `gate` are `nn.Linear`, with biases or without; without `gate`, a gated activation takes
    the first half of `up`'s columns as the gates. `activation` as `wavesim_gpu.mlp` takes it. In training, on
    other types than fp16 and bf16 and where a layer was replaced, the linear layers themselves compute it.
    Raises `DescriptionError` where the sides or the activation do not go together.
    """

    def __init__(
        self,
        up: nn.Linear,
        down: nn.Linear,
        *,
        gate: nn.Linear | None = None,
        activation: str | None = None,
    ) -> None:
        super().__init__(up, down, gate, activation)
        name = None if gate is None else "gate"
        self._wavesim_parts = MlpParts("up", "down", name, activation, nn.Linear, stores_out_in=True)
        x = torch.empty((0, up.in_features), device="meta")
        gate_weight = None if gate is None else gate.weight.t()
        formula.require_description(MlpOperands(x, up.weight.t(), down.weight.t(), gate_weight, activation))
