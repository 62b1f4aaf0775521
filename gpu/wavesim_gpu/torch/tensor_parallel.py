"""`parallelize(model, group)` shares out a decoder's layers over a process group: tensor parallelism.

Example: of a Hugging Face Llama each of two ranks keeps half of the heads and half of the MLP's inner
columns; `o_proj` and `down_proj` become `row_parallel_linear`, whose all-reduce is the only communication.
Norms, embeddings and the output layer stay whole on every rank. Training works; its collectives are NCCL's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import linear

from wavesim.errors import DescriptionError
from wavesim_gpu.torch.parallel import row_parallel_linear

# By what a module must have: the products whose outputs are shared out, then the one that sums.
LAYERS = (("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj"))


class ColumnPart(nn.Linear):
    """A rank's outputs of a linear layer whose input all ranks have."""

    group: Any

    def forward(self, x: Tensor) -> Tensor:
        """(..., k) to (..., n / ranks)."""
        if torch.is_grad_enabled() and x.requires_grad:
            x = _SharedInput.apply(x, self.group)
        return linear(x, self.weight, self.bias)


class RowPart(nn.Linear):
    """A rank's inputs of a linear layer, whose outputs are summed over the ranks."""

    group: Any

    def forward(self, x: Tensor) -> Tensor:
        """(..., k / ranks) to (..., n)."""
        return row_parallel_linear(x, self.weight, self.group, bias=self.bias)


class _SharedInput(torch.autograd.Function):
    """An input that all ranks use: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        total = grads[0].clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


@dataclass(frozen=True)
class ParallelReport:
    """Which modules are shared out now, by name, and which are not, with the reason."""

    ranks: int
    shared: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"shared out over {self.ranks} ranks: {len(self.shared)} modules"]
        return "\n".join(lines + [f"  left whole: {name}, {reason}" for name, reason in self.kept])


def parallelize(model: nn.Module, group: Any = None) -> ParallelReport:
    """Shares out every attention and MLP of a decoder, in place; all ranks call it with the same model.

    `group` is a process group, by default that of all ranks. A module that cannot be shared out stays whole,
    and the report says why. A second call changes nothing. The first forward pass of each number of rows
    prepares its layers on all ranks: run it before a CUDA graph is captured. Raises `DescriptionError` for
    what is no model, a group of one rank, or models that differ between ranks.
    """
    if not isinstance(model, nn.Module):
        raise DescriptionError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    group = group if group is not None else dist.group.WORLD
    ranks = dist.get_world_size(group) if group is not None else 1
    if ranks < 2:
        raise DescriptionError(f"parallelize: the group has {ranks} rank; it needs 2 or more")
    places = list(_layers_of(model))
    reasons = {name: _reason(module, words, ranks) for name, module, words in places}
    _require_alike(group, [(name, _facts(module, words), reasons[name]) for name, module, words in places])
    shared = []
    for name, module, words in places:
        if not reasons[name]:
            _share_out(module, words, group)
            shared.append(name)
    kept = tuple((name, reason) for name, reason in reasons.items() if reason)
    return ParallelReport(ranks, tuple(shared), kept)


def _layers_of(model: nn.Module) -> Iterator[tuple[str, nn.Module, tuple[str, ...]]]:
    """Those that are whole."""
    for name, module in model.named_modules():
        for words in LAYERS:
            children = [getattr(module, word, None) for word in words]
            if all(isinstance(child, nn.Module) for child in children) and not isinstance(
                children[-1], RowPart
            ):
                yield name, module, words


def _reason(module: nn.Module, words: tuple[str, ...], ranks: int) -> str:
    """Why it cannot be shared out; empty where it can."""
    for word in words:
        child = getattr(module, word)
        if type(child) is not nn.Linear:
            return f"{word} is a {type(child).__name__}; only torch's linear is shared out"
        if child._forward_hooks or child._forward_pre_hooks:  # noqa: SLF001  # torch has no other name
            return f"{word} has hooks, which would see a part of it"
    head = getattr(module, "head_dim", 1) if words[0] == "q_proj" else 1
    for word in words[:-1]:
        columns = getattr(module, word).out_features
        if columns % (head * ranks):
            what = f"{columns // head} times head_dim" if head > 1 else f"{columns}"
            return f"{word} has {what} outputs, which {ranks} ranks cannot share out alike"
    return ""


def _facts(module: nn.Module, words: tuple[str, ...]) -> Any:
    """What all ranks must have alike: shapes, types and the sum of the weights."""
    weights = [getattr(module, word).weight for word in words if hasattr(getattr(module, word), "weight")]
    return [(tuple(w.shape), str(w.dtype), float(w.detach().float().sum())) for w in weights]


def _require_alike(group: Any, mine: Any) -> None:
    told: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, mine, group=group)
    for rank, other in enumerate(told):
        if other != told[0]:
            names = [entry[0] for entry, first in zip(other, told[0], strict=False) if entry != first]
            raise DescriptionError(
                f"parallelize: rank {rank}'s model differs from rank 0's, first in "
                f"{names[0] if names else 'the number of its layers'}. Load the same weights on all ranks"
            )


def _share_out(module: nn.Module, words: tuple[str, ...], group: Any) -> None:
    """Replaces the module's products by this rank's parts."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)

    def part(tensor: Tensor, dim: int) -> Tensor:
        return tensor.detach().chunk(ranks, dim)[rank].clone(memory_format=torch.contiguous_format)

    for word in words:
        whole = getattr(module, word)
        sums = word == words[-1]
        weight = part(whole.weight, int(sums))
        bias = whole.bias if whole.bias is None or sums else part(whole.bias, 0)
        setattr(module, word, _linear(RowPart if sums else ColumnPart, weight, bias, whole, group))


def _linear(
    kind: Callable[..., Any], weight: Tensor, bias: Tensor | None, whole: nn.Linear, group: Any
) -> nn.Module:
    """A linear layer of these weights, with the whole one's settings and no memory of its own."""
    made = kind(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    made.weight = nn.Parameter(weight, requires_grad=whole.weight.requires_grad)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach(), requires_grad=bias.requires_grad)
    made.group = group
    return made.train(whole.training)
