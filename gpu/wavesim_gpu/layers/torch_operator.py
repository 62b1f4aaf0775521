"""The operator `wavesim::mlp`: what PyTorch's compiler, autograd, autocast and tracers see of an MLP.

Example: `torch.compile(fullgraph=True)` sees one operator with known shapes; autocast casts its arguments;
autograd computes its backward pass by PyTorch's own operations. `torch.library.Library` registers it: a call
of a `torch.library.custom_op` takes 12 us more on the host. `direct.py` adds what runs on a GPU.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from wavesim_gpu.layers import torch_formula as formula
from wavesim_gpu.layers.torch_formula import MlpOperands

_LIBRARY = torch.library.Library("wavesim", "DEF")
_LIBRARY.define(
    "mlp(Tensor x, Tensor w1, Tensor w2, Tensor? gate=None, str? activation=None, Tensor? b1=None, "
    "Tensor? b_gate=None, Tensor? b2=None) -> Tensor",
    # Of weights the order is what a plan is chosen by: a compiler must not hand over others.
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides),
)
_operator = torch.ops.wavesim.mlp.default


def operation(operands: MlpOperands, *, recompute: bool = False) -> Tensor:
    """The result (..., n2) of arguments on any device, with a gradient where one is needed.

    With a gradient, PyTorch's own operations compute all of it, so that training is what it was; with
    `recompute` the operator does, which keeps nothing but its arguments.
    """
    if needs_gradient(operands) and not recompute:
        formula.require_description(operands)
        return formula.forward(operands)
    return _operator(*operands)


def needs_gradient(operands: MlpOperands) -> bool:
    """Whether PyTorch records what is computed from these."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands.tensors)


def register_on_gpu(run: Any) -> None:
    """Has the operator call `run` with the arguments on a GPU, in the operator's order."""
    _LIBRARY.impl("mlp", run, "CUDA")


def _on_cpu(*arguments: Any) -> Tensor:
    operands = MlpOperands(*arguments)
    formula.require_description(operands)
    return formula.forward(operands).contiguous()


def _shapes_alone(*arguments: Any, **named: Any) -> Tensor:
    """What the compiler knows of the result: its sides, its type, dense and row-major."""
    operands = MlpOperands(*arguments, **named)
    formula.require_description(operands)
    return operands.x.new_empty((*operands.x.shape[:-1], operands.w2.shape[1]))


class _Recomputed(torch.autograd.Function):
    """Forward on our kernels; backward from the arguments alone."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        operands = MlpOperands(*arguments)
        ctx.activation = operands.activation
        ctx.save_for_backward(*operands.tensors)
        return _below_autograd(operands)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = ctx.saved_tensors
        operands = MlpOperands(*(*tensors[:4], ctx.activation, *tensors[4:]))
        return formula.backward(operands, grads[0], ctx.needs_input_grad)


def _below_autograd(operands: MlpOperands) -> Tensor:
    with torch._C._AutoDispatchBelowAutograd():  # noqa: SLF001  # as torch.library.register_autograd does
        return _operator(*operands)


def _recorded(*arguments: Any) -> Tensor:
    operands = MlpOperands(*arguments)
    if forward_ad._current_level >= 0:  # noqa: SLF001  # PyTorch's operations have derivatives that go forward
        return formula.forward(operands)
    if needs_gradient(operands):
        return _Recomputed.apply(*operands)
    return _below_autograd(operands)


def _casting(device: str) -> Any:
    key = getattr(torch._C.DispatchKey, f"Autocast{device.upper()}")  # noqa: SLF001
    keys = torch._C.DispatchKeySet(key)  # noqa: SLF001

    def cast(*arguments: Any) -> Tensor:
        dtype = torch.get_autocast_dtype(device)
        own = [
            argument.to(dtype) if isinstance(argument, Tensor) and argument.is_floating_point() else argument
            for argument in arguments
        ]
        with torch._C._ExcludeDispatchKeyGuard(keys):  # noqa: SLF001  # as torch.library.register_autocast does
            return _operator(*own)

    return cast


_LIBRARY.impl("mlp", _on_cpu, "CPU")
_LIBRARY.impl("mlp", _recorded, "Autograd")
_LIBRARY.impl("mlp", _casting("cuda"), "AutocastCUDA")
_LIBRARY.impl("mlp", _casting("cpu"), "AutocastCPU")
torch.library.register_fake("wavesim::mlp", _shapes_alone, lib=_LIBRARY)
