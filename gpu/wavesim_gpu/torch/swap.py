"""`optimize(model)` swaps a model's MLPs for ours; `restore(model)` undoes it.

Example: `optimize(model)` of a Hugging Face Llama replaces every `LlamaMLP` by a module with the same
parameters, attributes and hooks whose forward pass is `mlp`. Optimizers, state dicts and tied weights see no
difference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device, default_device
from wavesim.safe_io.bounds import MOST_LISTED, shown, whole
from wavesim_gpu.driver.device import query
from wavesim_gpu.layers import mlp as layers_mlp
from wavesim_gpu.layers.choose import Choice, choose
from wavesim_gpu.layers.description import GATED, MlpShape
from wavesim_gpu.layers.torch_formula import MlpOperands
from wavesim_gpu.torch.blocks import mlps_of, parts_of
from wavesim_gpu.torch.expert_modules import experts_of, swapped_experts
from wavesim_gpu.torch.modules import FastForward, MlpParts, original_of, swapped_for
from wavesim_gpu.torch.report import KeptBlock, OptimizeReport, SwappedBlock

TOKENS = (1, 512, 2048)
MOST_TOKENS = 2**24
DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}


def optimize(
    model: nn.Module, tokens: Sequence[int] = TOKENS, *, tune: bool = False, device: Device | None = None
) -> OptimizeReport:
    """Swaps the MLPs of a model that `wavesim_gpu.mlp` computes, and its experts that `wavesim_gpu.moe` does,
    in place, and says which, and which not.

    Nothing is swapped in doubt; the report says why. `tokens`: rows of x (batch times sequence) that gains
    are predicted for, by simulation for the model's GPU, or for `device`. `tune=True` measures the best ways
    at each of them on the GPU, for seconds a shape, and keeps the fastest for this and later processes.
    Which way a call takes is decided at the call by its own rows. A second call changes nothing. Raises
    `DescriptionError` for what is no model, no sequence of numbers of tokens or no `Device`, and for `tune`
    of a model on a CPU.
    """
    if not isinstance(model, nn.Module):
        raise DescriptionError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    _require_lists(tokens, device)
    counts = tuple(whole("tokens", count, 1, MOST_TOKENS) for count in tokens)
    kept, swapped, instead = _sorted_out(model)
    experts = list(experts_of(model))
    kept += [KeptBlock(name, type(module).__name__, reason) for name, module, reason in experts if reason]
    instead |= {id(module): swapped_experts(module) for _, module, reason in experts if not reason}
    target = device or _device(_gpu_of(swapped, tune=tune))
    _put(model, instead)
    ways = _Ways(target, counts, tune=tune)
    blocks = [
        SwappedBlock(name, kind, _shape(module, counts[0]), ways.of(module)) for name, kind, module in swapped
    ]
    fast = tuple(name for name, _, reason in experts if not reason)
    return OptimizeReport(target.name, counts, tuple(blocks), tuple(kept), fast)


def _require_lists(tokens: Any, device: Any) -> None:
    """Refuses a number or text in place of several numbers of tokens, and what is no `Device`."""
    if isinstance(tokens, str) or not isinstance(tokens, Sequence):
        raise DescriptionError(f"tokens is {shown(tokens)}; give a sequence of numbers, such as (1, 512)")
    if not 0 < len(tokens) <= MOST_LISTED:
        raise DescriptionError(f"tokens lists {len(tokens)} numbers; give 1 to {MOST_LISTED}")
    if not isinstance(device, Device | None):
        raise DescriptionError(f'device is {shown(device)}; give a Device, such as wavesim.device("h200")')


def _sorted_out(
    model: nn.Module,
) -> tuple[list[KeptBlock], list[tuple[str, str, Any]], dict[int, nn.Module]]:
    """What is kept; name, class and module of what is swapped; and what is put in whose place, by its id."""
    kept, swapped, instead = [], [], {}
    for name, module in mlps_of(model):
        kind = type(original_of(module) or module).__name__
        is_fast = isinstance(module, FastForward)
        parts = module.wavesim_fault() if isinstance(module, FastForward) else parts_of(module)
        if not name and not is_fast and parts is not None:
            parts = "it is the whole model; put it into another module, or use wavesim_gpu.torch.Mlp"
        if isinstance(parts, MlpParts):
            instead[id(module)] = swapped_for(module, _wavesim_parts=parts, _wavesim_name=name)
            swapped.append((name, kind, instead[id(module)]))
        elif parts:
            kept.append(KeptBlock(name, kind, parts))
        elif is_fast:
            swapped.append((name, kind, module))
    return kept, swapped, instead


def restore(model: nn.Module) -> int:
    """Puts back every module that `optimize` swapped, also in a copy of the model; returns how many."""
    originals = {
        id(module): original_of(module) for module in model.modules() if original_of(module) is not None
    }
    return _put(model, originals)


def _put(model: nn.Module, instead: dict[int, nn.Module]) -> int:
    """Replaces modules, by their id, wherever the model has them."""
    places = [
        (parent, name, instead[id(child)])
        for parent in model.modules()
        for name, child in parent._modules.items()  # noqa: SLF001  # named_children leaves out a second place
        if id(child) in instead
    ]
    for parent, name, child in places:
        parent._modules[name] = child  # noqa: SLF001  # setattr would make it the last, and change the order
    return len({id(child) for _, _, child in places})


def _gpu_of(swapped: Sequence[tuple[str, str, Any]], *, tune: bool) -> torch.device | None:
    devices = {_operands(module).w1.device for _, _, module in swapped}
    on_cpu = [device for device in devices if device.type != "cuda"]
    if tune and on_cpu:
        raise DescriptionError("tune=True measures on a GPU, and the model is on a CPU: model.cuda()")
    return next(iter(devices - set(on_cpu)), None)


def _device(on_gpu: torch.device | None) -> Device:
    """The model's GPU; where it is on none, the one that predictions are for by default."""
    if on_gpu is not None:
        try:
            with torch.cuda.device(on_gpu):
                return query()
        except DeviceError:  # without CuPy, the layers say so when they run
            pass
    return default_device()


class _Ways:
    """Predicted or tuned choices for MLPs, each shape once."""

    def __init__(self, device: Device, tokens: tuple[int, ...], *, tune: bool) -> None:
        self._device, self._tokens, self._tune = device, tokens, tune
        self._found: dict[MlpShape, Choice] = {}

    def of(self, module: Any) -> tuple[Choice, ...]:
        """One for each number of tokens."""
        return tuple(self._choice(module, count) for count in self._tokens)

    def _choice(self, module: Any, tokens: int) -> Choice:
        shape = _shape(module, tokens)
        if shape not in self._found:
            self._found[shape] = _tuned(module, tokens) if self._tune else choose(shape, self._device)
        return self._found[shape]


def _tuned(module: Any, tokens: int) -> Choice:
    operands = _operands(module)
    x = torch.randn((tokens, operands.w1.shape[0]), dtype=operands.w1.dtype, device=operands.w1.device)
    named = operands._replace(x=x)._asdict()
    with torch.no_grad():
        layers_mlp.mlp(**named, tune=True)
        return layers_mlp.way_of(**named)


def _operands(module: Any) -> MlpOperands:
    """The module's weights, without an input."""
    return module.wavesim_operands(None)


def _shape(module: Any, tokens: int) -> MlpShape:
    operands = _operands(module)
    gate = "separate" if operands.gate is not None else "packed" if operands.activation in GATED else None
    orders: Iterator[Any] = ("row" if w.stride(1) == 1 else "column" for w in (operands.w1, operands.w2))
    shape = MlpShape(
        m=tokens,
        k=operands.w1.shape[0],
        n1=operands.w2.shape[0],
        n2=operands.w2.shape[1],
        dtype=DTYPES[operands.w1.dtype],  # type: ignore[arg-type]
        activation=operands.activation,  # type: ignore[arg-type]
        gate=gate,  # type: ignore[arg-type]
    )
    w1_order, w2_order = orders
    return replace(
        shape,
        w1_order=w1_order,
        w2_order=w2_order,
        has_b1=operands.b1 is not None,
        has_b2=operands.b2 is not None,
    )
