"""Which modules of a model are MLPs that `mlp` computes, told by what they do and not by their names.

Example: a module of three linear layers and an activation is given random weights in float64 and a random
input; only if its own forward pass and one of ours agree to a millionth is it that MLP. Whatever is unusual
about it, an adapter, quantised weights, a hook, is a reason to keep it as it is.
"""

from collections import OrderedDict
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import permutations
from math import prod
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import one_line
from wavesim_gpu.layers import torch_formula as formula
from wavesim_gpu.layers.description import GATED
from wavesim_gpu.layers.torch_formula import MlpOperands
from wavesim_gpu.torch.modules import FastForward, MlpParts, is_hooked, why_not

CONV1D = ("transformers.pytorch_utils", "Conv1D")  # GPT-2's linear layer, which stores (in, out)
LINEAR_WORDS = ("Linear", "Conv1D", "lora", "Lora")  # in the names of classes that stand for a linear layer
TRIAL_ROWS = 5
TRIAL_SCALES = (1.0, 12.0)  # the second reaches where clipped activations are clipped
TRIAL_ERROR = 1e-6
PERIOD = 16381  # a prime: no row of a matrix is the one above it


def mlps_of(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that look like MLPs, by qualified name: two or three linear layers and nothing else that
    has parameters. Those that are swapped already are among them.
    """
    for name, module in model.named_modules():
        if isinstance(module, FastForward) or _looks_like_an_mlp(module):
            yield name, module


def _looks_like_an_mlp(module: nn.Module) -> bool:
    if isinstance(module, nn.ModuleList | nn.ModuleDict):  # these have no forward pass
        return False
    if any(True for _ in module.parameters(recurse=False)) or any(
        True for _ in module.buffers(recurse=False)
    ):
        return False
    others = [child for child in module.children() if not _stands_for_linear(child)]
    is_light = not any(any(True for _ in child.parameters()) or any(child.children()) for child in others)
    return is_light and len(_linears(module)) in (2, 3)


def _stands_for_linear(child: nn.Module) -> bool:
    return isinstance(child, nn.Linear) or any(word in type(child).__name__ for word in LINEAR_WORDS)


def _linears(module: nn.Module) -> dict[str, nn.Module]:
    return {name: child for name, child in module.named_children() if _stands_for_linear(child)}


def parts_of(module: nn.Module) -> MlpParts | str | None:
    """The parts of an MLP-like module, the reason to leave it, or None."""
    linears = _linears(module)
    first = next(iter(linears.values()))
    is_conv = (type(first).__module__, type(first).__name__) == CONV1D
    linear_type = type(first) if is_conv else nn.Linear
    for name, linear in linears.items():
        if reason := _fault(linear, linear_type):
            return f"{name} is {reason}"
    for name, child in _others(module):
        if is_hooked(child):
            return f"{name} is with hooks"
    if reason := _fault_of_the_whole(module, linears):
        return reason
    return _recognised(module, linears, linear_type)


def _fault(linear: Any, linear_type: type) -> str:
    if reason := why_not(linear, linear_type):
        return reason
    if linear.weight.is_meta:
        return "on no device, without values"
    return "" if linear.weight.is_cuda or linear.weight.is_cpu else f"on {linear.weight.device}"


def _fault_of_the_whole(module: Any, linears: dict[str, Any]) -> str:
    if "forward" in vars(module):
        return "its forward pass was replaced, by an offload or by somebody's own"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "it is compiled by itself; optimize the model before it is"
    if getattr(getattr(module, "config", None), "pretraining_tp", 1) not in (None, 1):
        return f"its config has pretraining_tp {module.config.pretraining_tp}"
    kinds = {(linear.weight.dtype, linear.weight.device) for linear in linears.values()}
    if len(kinds) > 1:
        return "its weights are of different types or on different devices"
    shares = [module.get_submodule(name).p for name in _dropouts(module)]
    if module.training and any(shares):
        return f"it drops {max(shares):g} of its values in training; call model.eval() before"
    return ""


def _others(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, child) for name, child in module.named_children() if not _stands_for_linear(child)]


def _dropouts(module: nn.Module) -> tuple[str, ...]:
    children = module.named_children()
    return tuple(name for name, child in children if isinstance(child, nn.modules.dropout._DropoutNd))  # noqa: SLF001


def _recognised(module: nn.Module, linears: dict[str, Any], linear_type: type) -> MlpParts | str | None:
    """The one form of ours that gives what the module's own forward pass gives, on random weights."""
    candidates = list(_candidates(module, linears, linear_type))
    if not candidates:
        return None
    weights = _random_weights(linears, candidates[0])
    result, errors = [], []
    for width in sorted({_width(weights, parts) for parts in candidates}):
        alike = [parts for parts in candidates if _width(weights, parts) == width]
        try:
            result += _agreeing(module, weights, alike, in_training=module.training)
        except Exception as error:  # noqa: BLE001  # whatever a stranger's forward pass raises
            errors.append(error)
    if len(result) == 1:
        others = tuple((name, type(child)) for name, child in _others(module))
        return replace(result[0], others=others, is_same_in_training=_has_one_mode(module, weights, result))
    if len(linears) + len(_dropouts(module)) == len(list(module.children())):
        return None  # without an activation it is more likely to be attention
    shown = ", ".join(type(c).__name__ for c in module.children() if not _stands_for_linear(c))
    reason = f"its forward pass is none of those that are known (with {shown or 'no activation module'})"
    return one_line(f"{reason}: {errors[-1]}" if errors and not result else reason)


def _has_one_mode(module: nn.Module, weights: dict[str, Tensor], parts: list[MlpParts]) -> bool:
    """Whether it computes the same when it is told the opposite of training or not."""
    try:
        with torch.random.fork_rng(devices=()):  # what it draws, for a dropout, is not the caller's
            return bool(_agreeing(module, weights, parts, in_training=not module.training))
    except Exception:  # noqa: BLE001  # whatever a stranger's forward pass raises
        return False


def _agreeing(
    module: nn.Module, weights: dict[str, Tensor], alike: list[MlpParts], *, in_training: bool
) -> list[MlpParts]:
    """Those of some forms of one input width that give what the module's own forward pass gives."""
    bare, agreeing = _without_hooks(module), alike
    bare.training = in_training  # alone: its submodules stay in their own mode
    before = dict(vars(bare))
    for scale in TRIAL_SCALES:
        x = _random((1, TRIAL_ROWS, _width(weights, alike[0]))) * scale
        with torch.no_grad():
            want = torch.func.functional_call(bare, weights, (x,))
        agreeing = [parts for parts in agreeing if _agrees(_ours(parts, weights, x), want)]
    if stored := [name for name, value in vars(bare).items() if before.get(name, bare) is not value]:
        raise DescriptionError(f"it stores {stored[0]} in itself, which somebody may read")
    return agreeing


def _without_hooks(module: nn.Module) -> nn.Module:
    """The module, whose hooks are not to see a trial."""
    bare = copy(module)
    bare._forward_hooks, bare._forward_pre_hooks = OrderedDict(), OrderedDict()  # noqa: SLF001
    return bare


def _candidates(module: nn.Module, linears: dict[str, Any], linear_type: type) -> Iterator[MlpParts]:
    """Every assignment of its layers that the sides allow, with every activation."""
    stores_out_in = linear_type is nn.Linear
    sides = {
        name: tuple(linear.weight.shape)[:: -1 if stores_out_in else 1] for name, linear in linears.items()
    }
    for up, down, *gates in permutations(linears):
        if gates and sides[gates[0]] != sides[up]:
            continue
        wide = sides[up][1] / sides[down][0]
        if wide not in ((1,) if gates else (1, 2)):
            continue
        words = formula.ACTIVATIONS if wide == 1 and not gates else GATED
        for word in words:
            gate = gates[0] if gates else None
            yield MlpParts(up, down, gate, word, linear_type, stores_out_in, _dropouts(module))


def _random_weights(linears: dict[str, Any], parts: MlpParts) -> dict[str, Tensor]:
    """Weights and biases by their names in the module, in float64; small ones of `nn.Linear`."""
    sides = {side for linear in linears.values() for side in linear.weight.shape}
    middle = linears[parts.down].weight.shape[1 if parts.stores_out_in else 0]
    small = {side: 8 + 3 * i for i, side in enumerate(sorted(sides - {2 * middle}))}
    small.setdefault(2 * middle, 2 * small[middle])
    weights = {}
    for name, linear in linears.items():
        # Conv1D reshapes to its own number of columns.
        sizes = tuple(small[s] if parts.stores_out_in else s for s in linear.weight.shape)
        columns, rows = sizes if parts.stores_out_in else sizes[::-1]
        weights[f"{name}.weight"] = _random(sizes, name) * rows**-0.5
        if linear.bias is not None:
            weights[f"{name}.bias"] = _random((columns,), name)
    return weights


def _random(shape: tuple[int, ...], name: str = "") -> Tensor:
    """Numbers of the name's own; a long array repeats them, as drawing many would take long."""
    count, begin = prod(shape), crc32(name.encode()) % PERIOD
    numbers = _normal().repeat(count // PERIOD + 2)
    return numbers[begin : begin + count].reshape(shape)


@cache
def _normal() -> Tensor:
    return torch.randn(PERIOD, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _width(weights: dict[str, Tensor], parts: MlpParts) -> int:
    return weights[f"{parts.up}.weight"].shape[1 if parts.stores_out_in else 0]


def _ours(parts: MlpParts, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    def matrix(name: str) -> Tensor:
        weight = weights[f"{name}.weight"]
        return weight.t() if parts.stores_out_in else weight

    def bias(name: str | None) -> Tensor | None:
        return weights.get(f"{name}.bias")

    gate = None if parts.gate is None else matrix(parts.gate)
    biases = bias(parts.up), bias(parts.gate), bias(parts.down)
    operands = MlpOperands(x, matrix(parts.up), matrix(parts.down), gate, parts.activation, *biases)
    with torch.no_grad():
        return formula.forward(operands)


def _agrees(got: Tensor, want: Any) -> bool:
    if not isinstance(want, Tensor) or want.shape != got.shape or not want.is_floating_point():
        return False
    return bool((got - want).norm() <= TRIAL_ERROR * want.norm())
