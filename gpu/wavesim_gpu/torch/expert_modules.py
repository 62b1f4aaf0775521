"""Experts of Hugging Face's models (Mixtral, Qwen3-MoE, DeepSeek-V2 and alike) by `wavesim_gpu.moe`.

Example: a `MixtralExperts` keeps all experts' weights in two tensors and gets the router's choice as
arguments. It is told by what it does: with random weights in float64 its forward pass must agree with our
formula to a millionth. Swapped, it has the same parameters and calls `moe` where that computes the same.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.moe.shape import MoeShape
from wavesim_gpu.torch.expert_layers import moe, reference_moe
from wavesim_gpu.torch.modules import PLAIN, FastModule, is_hooked, swapped_for

UP, DOWN = "gate_up_proj", "down_proj"
TRIAL_SIDE, TRIAL_TOKENS, TRIAL_ERROR = 8, 5, 1e-6
HOPPER = (9, 0)


class FastExperts(FastModule):
    """Goes before a module's class and has its forward pass computed by `moe` where that is the same."""

    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        """The module's own, or `moe` of hidden states, the experts' numbers and their weights."""
        if named or len(arguments) != 3 or not _takes(self, *arguments):
            return super().forward(*arguments, **named)  # type: ignore[misc]  # of the module's class
        x, ids, weights = (argument.contiguous() for argument in arguments)
        weights = weights if weights.dtype == torch.bfloat16 else weights.float()
        return moe(x, self.gate_up_proj, self.down_proj, ids, weights)


def _takes(module: Any, *arguments: Any) -> bool:
    """Whether `moe` computes this call; it has no gradient."""
    weights = module._parameters[UP], module._parameters[DOWN]  # noqa: SLF001
    tensors = (*arguments, *weights)
    if any(type(tensor) not in PLAIN or not tensor.is_cuda for tensor in tensors):
        return False
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    x, ids, _ = arguments
    is_known = all(tensor.dtype == torch.bfloat16 for tensor in (x, *weights)) and x.dim() == 2
    return is_known and ids.dim() == 2 and torch.cuda.get_device_capability(x.device) == HOPPER


def experts_of(model: nn.Module) -> Iterator[tuple[str, Any, str]]:
    """The modules that look like experts, by qualified name, and why they are kept as they are, or "".

    Those that are swapped already are among them.
    """
    for name, module in model.named_modules():
        if {UP, DOWN} <= module._parameters.keys():  # noqa: SLF001
            whole = "" if name else "it is the whole model; put it into another module"
            yield name, module, "" if isinstance(module, FastExperts) else whole or why_not_experts(module)


def why_not_experts(module: Any) -> str:
    """Why a module is kept as it is; empty where `moe` computes what it does."""
    up, down = module._parameters[UP], module._parameters[DOWN]  # noqa: SLF001
    others = [name for name, entry in module._parameters.items() if entry is not None]  # noqa: SLF001
    if is_hooked(module) or any(map(is_hooked, module.children())):
        return "it has hooks"
    if type(up) not in PLAIN or type(down) not in PLAIN or up.dim() != 3 or down.dim() != 3:
        return "its weights are no plain tensors of (experts, rows, columns)"
    if sorted(others) != sorted((UP, DOWN)):
        return f"it has parameters besides its weights: {', '.join(sorted(set(others) - {UP, DOWN}))}"
    (experts, hidden, inner), dtype = down.shape, up.dtype
    if tuple(up.shape) != (experts, 2 * inner, hidden):
        return f"{UP} is {tuple(up.shape)}, and {DOWN} {tuple(down.shape)}: columns first"
    if dtype != torch.bfloat16 or down.dtype != torch.bfloat16:
        return f"of {str(dtype).removeprefix('torch.')}, not of bfloat16"
    fault = _fault(experts, hidden, inner)
    return fault if fault or _agrees(module, experts) else "it does not compute down(silu(gate(x)) * up(x))"


def _fault(experts: int, hidden: int, inner: int) -> str:
    """Why our kernels do not take such sizes; empty where they do."""
    try:
        MoeShape(1, experts, 1, hidden, inner)
    except DescriptionError as error:
        return str(error)
    return ""


def _agrees(module: Any, experts: int) -> bool:
    """By a trial of the module's own forward pass, with small matrices."""
    random = torch.Generator().manual_seed(0)
    shapes = {UP: (experts, 2 * TRIAL_SIDE, TRIAL_SIDE), DOWN: (experts, TRIAL_SIDE, TRIAL_SIDE)}
    weights = {
        name: torch.randn(shape, generator=random, dtype=torch.float64) for name, shape in shapes.items()
    }
    tried = copy(module)
    tried.__dict__["_parameters"] = {
        name: nn.Parameter(weight, requires_grad=False) for name, weight in weights.items()
    }
    if hasattr(module, "config"):
        tried.__dict__["config"] = copy(module.config)
        tried.config._experts_implementation = "eager"  # noqa: SLF001  # the one that takes float64
    x = torch.randn((TRIAL_TOKENS, TRIAL_SIDE), generator=random, dtype=torch.float64)
    ids = torch.randint(experts, (TRIAL_TOKENS, 2), generator=random)
    shares = torch.rand((TRIAL_TOKENS, 2), generator=random, dtype=torch.float64)
    try:
        with torch.no_grad():
            own = tried(x, ids, shares)
    except Exception:  # noqa: BLE001  # whatever a module of somebody else's raises, it is not ours to compute
        return False
    expected = reference_moe(x, weights[UP], weights[DOWN], ids, shares)
    is_alike = isinstance(own, Tensor) and own.shape == expected.shape
    return bool(is_alike and (own - expected).norm() <= TRIAL_ERROR * expected.norm())


def swapped_experts(module: Any) -> Any:
    """A module that shares everything with this one but its forward pass; itself if it is one."""
    return module if isinstance(module, FastExperts) else swapped_for(module, FastExperts)
