"""`moe`: a mixture-of-experts layer as a PyTorch operator, with no word from the host about the routing.

Example: `wavesim_gpu.moe(x, w1, w2, topk_ids, topk_weights)` after a router's `topk`; in a CUDA graph the
replays route anew each time. Importing this needs PyTorch, and no GPU.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from wavesim.errors import DescriptionError
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.tensors import allowed_while_capturing, on_device, stream_at
from wavesim_gpu.kernels.moe.moe_launch import MoeLaunch, MoeReport, usual_plan
from wavesim_gpu.kernels.moe.parameters import MoeAddresses
from wavesim_gpu.kernels.moe.shape import MoeShape

CALLS_KEPT, ALIGNMENT = 512, 16
IDS, WEIGHTS = (torch.int32, torch.int64), (torch.float32, torch.bfloat16)

_LIBRARY = torch.library.Library("wavesim", "FRAGMENT")
_LIBRARY.define(
    "moe(Tensor x, Tensor w1, Tensor w2, Tensor topk_ids, Tensor topk_weights, str plan) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides),
)


def moe(
    x: Tensor, w1: Tensor, w2: Tensor, topk_ids: Tensor, topk_weights: Tensor, *, plan: str = ""
) -> Tensor:
    """The weighted sum over a token's experts of `down(silu(gate(x)) * up(x))`. bf16, forward only.

    x (tokens, hidden), w1 (experts, 2 inner, hidden) with the gate's rows before the up projection's, w2
    (experts, hidden, inner), `topk_ids` (tokens, top k) int32 or int64, `topk_weights` the same of fp32 or
    bf16. Sums are fp32 in the order of the token's choices: the same result every time. A token with an id
    that no expert has gets NaN, and `check_moe` raises. `plan`, as a word, by default the one that was the
    fastest for so many rows. Raises `DescriptionError` for shapes and types.
    """
    return torch.ops.wavesim.moe.default(x, w1, w2, topk_ids, topk_weights, plan)


def check_moe() -> None:
    """Waits for the GPU; raises for the first call since the last check that had an id out of range, or a
    wait longer than its limit.
    """
    _report(torch.cuda.current_device()).check()


def shape_of(x: Tensor, w1: Tensor, w2: Tensor, topk_ids: Tensor, topk_weights: Tensor) -> MoeShape:
    """The layer's sizes. Raises `DescriptionError` for arguments that do not go together."""
    for name, tensor, sides in (("x", x, 2), ("w1", w1, 3), ("w2", w2, 3), ("topk_ids", topk_ids, 2)):
        if tensor.dim() != sides:
            raise DescriptionError(f"{name} has shape {tuple(tensor.shape)}; it must have {sides} sides")
    tokens, hidden = x.shape
    experts, _, inner = w2.shape
    expected = {
        "w1": (w1, (experts, 2 * inner, hidden)),
        "w2": (w2, (experts, hidden, inner)),
        "topk_ids": (topk_ids, (tokens, topk_ids.shape[1])),
        "topk_weights": (topk_weights, tuple(topk_ids.shape)),
    }
    for name, (tensor, expected_shape) in expected.items():
        if tuple(tensor.shape) != expected_shape:
            raise DescriptionError(
                f"{name} has shape {tuple(tensor.shape)}; with x {tuple(x.shape)}, w2 {tuple(w2.shape)} and "
                f"topk_ids {tuple(topk_ids.shape)} it must be {expected_shape}"
            )
    kinds: dict[str, tuple[Tensor, tuple[torch.dtype, ...]]] = {
        name: (tensor, (torch.bfloat16,)) for name, tensor in (("x", x), ("w1", w1), ("w2", w2))
    }
    kinds |= {"topk_ids": (topk_ids, IDS), "topk_weights": (topk_weights, WEIGHTS)}
    for name, (tensor, types) in kinds.items():
        if tensor.dtype not in types:
            raise DescriptionError(
                f"{name} is of {tensor.dtype}; it must be of {' or '.join(map(str, types))}: cast it"
            )
        if tensor.device != x.device:
            raise DescriptionError(f"{name} is on {tensor.device}, x on {x.device}; move it there")
        if not tensor.is_contiguous():
            raise DescriptionError(f"{name} has strides {tensor.stride()}; call {name}.contiguous()")
        if tensor.is_cuda and tensor.data_ptr() % ALIGNMENT and name[0] != "t":
            raise DescriptionError(f"{name} is at {tensor.data_ptr():#x}; TMA needs 16 bytes: {name}.clone()")
    return MoeShape(tokens, experts, topk_ids.shape[1], hidden, inner)


def reference_moe(x: Tensor, w1: Tensor, w2: Tensor, topk_ids: Tensor, topk_weights: Tensor) -> Tensor:
    """The same by PyTorch's own operations, expert by expert, in fp32. It looks at the ids on the host."""
    sums = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in topk_ids.unique().tolist():
        token, choice = (topk_ids == expert).nonzero(as_tuple=True)
        gate, up = (x[token].float() @ w1[expert].float().t()).chunk(2, dim=-1)
        made = (functional.silu(gate) * up) @ w2[expert].float().t()
        sums.index_add_(0, token, made * topk_weights[token, choice, None].float())
    return sums


@lru_cache(maxsize=16)
def _report(device: int) -> MoeReport:
    with on_device(device):
        return MoeReport()


@lru_cache(maxsize=CALLS_KEPT)
def _launch(device: int, shape: MoeShape, addresses: MoeAddresses, plan: str) -> MoeLaunch:
    with on_device(device):
        return MoeLaunch(shape, addresses, parse_plan(plan) if plan else usual_plan(shape))


def _on_gpu(x: Tensor, w1: Tensor, w2: Tensor, topk_ids: Tensor, topk_weights: Tensor, plan: str) -> Tensor:
    out = torch.empty_like(x)
    if x.shape[0] == 0:
        return out
    shape, device = shape_of(x, w1, w2, topk_ids, topk_weights), x.device.index
    scratch = torch.empty(shape.places["bytes"], dtype=torch.uint8, device=x.device)
    tensors = {"x": x, "w1": w1, "w2": w2, "ids": topk_ids, "weights": topk_weights}
    places = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    with allowed_while_capturing():
        addresses = MoeAddresses(
            **places,
            out=out.data_ptr(),
            scratch=scratch.data_ptr(),
            report=_report(device).address,
            are_ids_long=topk_ids.dtype == torch.int64,
            are_weights_bf16=topk_weights.dtype == torch.bfloat16,
        )
        launch = _launch(device, shape, addresses, plan)
    launch.enqueue(stream_at(int(torch.cuda.current_stream(device).cuda_stream)))
    return out


def _on_cpu(x: Tensor, w1: Tensor, w2: Tensor, topk_ids: Tensor, topk_weights: Tensor, _plan: str) -> Tensor:
    shape = shape_of(x, w1, w2, topk_ids, topk_weights)
    wrong = topk_ids[(topk_ids < 0) | (topk_ids >= shape.experts)]
    if wrong.numel():
        raise DescriptionError(
            f"topk_ids has {int(wrong[0])}; the layer has experts 0 to {shape.experts - 1}"
        )
    return reference_moe(x, w1, w2, topk_ids, topk_weights).to(x.dtype)


def _shapes_alone(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


_LIBRARY.impl("moe", _on_gpu, "CUDA")
_LIBRARY.impl("moe", _on_cpu, "CPU")
torch.library.register_fake("wavesim::moe", _shapes_alone, lib=_LIBRARY)
