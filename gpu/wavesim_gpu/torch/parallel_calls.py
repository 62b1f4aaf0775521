"""A process group's linear layers: each chooses a way at its first call, and its later calls go there.

Example: `calls_of(group).run("all-reduce", x, w, None, None)` finds the prepared way by shapes and addresses;
a first call compares shapes between ranks, takes what tuning (parallel_tuning.py) has kept for it, or else
what `peers/choice.py` says, and makes it on all ranks. What cannot be made is replaced by the library's,
which a warning says once.
"""

import warnings
from collections import OrderedDict
from functools import cache, partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wavesim.errors import DescriptionError
from wavesim_gpu.peers.choice import LIBRARY, LinearShape, WayChoice, choice_of
from wavesim_gpu.torch.group_memory import UNTIMED, GroupMemory
from wavesim_gpu.torch.kept_ways import kept_choices
from wavesim_gpu.torch.parallel_ways import Run, made_way, require_alike

DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
CALLS_KEPT = 1024  # of a group: layers, times the numbers of rows that they are called with


@cache
def calls_of(group: Any) -> "GroupCalls":
    """The group's, kept until the process ends: graphs may use its memory. Raises `DescriptionError`."""
    ranks = dist.get_world_size(group)
    if ranks < 2:
        raise DescriptionError(
            f"parallel linear: the group has {ranks} rank; it needs 2 or more. Use torch's linear"
        )
    return GroupCalls(group)


class GroupCalls:
    """Prepared calls by collective, shapes and addresses of the weights."""

    def __init__(self, group: Any) -> None:
        self.group, self.ranks = group, dist.get_world_size(group)
        self._memories: dict[torch.device, GroupMemory] = {}
        self._calls: OrderedDict[tuple[Any, ...], Run] = OrderedDict()
        self._said: set[str] = set()
        self.chosen: dict[LinearShape, WayChoice] = {}  # by measuring, or once made
        self.eager: dict[LinearShape, WayChoice] = {}  # where another is faster when the host launches it

    def run(self, kind: str, x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        """The layer's result, by its way."""
        # An address is of one device alone.
        key = kind, x.shape, x.dtype, w.shape, w.data_ptr(), bias is not None and bias.data_ptr()
        call = self._calls.get(key)
        if call is None:
            call = self._prepared(key, kind, x, w, bias)
        if out is not None:
            self._require_out(kind, x, w, out)
        if x.dim() == 2:
            return call(x, w, bias, out)
        rows = x.reshape(-1, x.shape[-1])
        flat = call(rows, w, bias, None if out is None else out.view(-1, w.shape[0]))
        return out if out is not None else flat.view(*x.shape[:-1], w.shape[0])

    def memory(self, device: torch.device) -> GroupMemory:
        """What its layers share on a device."""
        if device not in self._memories:
            self._memories[device] = GroupMemory(self.group, device)
        return self._memories[device]

    def shape_of(self, kind: str, x: Tensor, w: Tensor, bias: Tensor | None) -> LinearShape:
        """What all ranks must have alike."""
        rows = x.numel() // max(1, x.shape[-1]) * (self.ranks if kind == "all-gather" else 1)
        dtype, (n, k) = DTYPES.get(x.dtype, str(x.dtype)), w.shape
        return LinearShape(kind, rows, n, k, dtype, self.ranks, bias is not None)  # type: ignore[arg-type]

    def words_of(self, shape: LinearShape) -> str:
        """How a layer's calls go, for who measures them."""
        graph, eager = self.chosen[shape], self.eager.get(shape)
        return (
            label_of(graph)
            if eager in (None, graph)
            else f"{label_of(graph)}; {label_of(eager)} outside graphs"
        )

    def forget(self) -> None:
        """Layers choose anew."""
        self._calls.clear()

    def made(self, choice: WayChoice, shape: LinearShape, x: Tensor, w: Tensor, bias: Tensor | None) -> Run:
        """The way, or the library's where a rank cannot make it or its first call fails. Collective."""
        memory = self.memory(w.device)
        call, reason = memory.agree(partial(made_way, choice, shape, memory, w, bias))
        if call is not None:
            tried, reason = memory.agree(partial(call, x.reshape(-1, x.shape[-1]), w, bias, None))
            call = None if tried is None else call
        if call is None:
            self._say(f"{choice.way} is not possible here ({reason}); the library's collective is used")
            call = made_way(WayChoice(LIBRARY), shape, memory, w, bias)
        return call

    def _prepared(self, key: tuple[Any, ...], kind: str, x: Tensor, w: Tensor, bias: Tensor | None) -> Run:
        require_layer(kind, x, w, bias, self.ranks)
        shape, memory = self.shape_of(kind, x, w, bias), self.memory(x.device)
        is_ours = x.is_cuda and x.dtype in DTYPES and shape.m > 0
        if is_ours and torch.cuda.is_current_stream_capturing():
            self._say("a layer's first call was captured in a graph, which prepares nothing; the library's "
                      "collective is used. Call the layer once before")  # fmt: skip
            return made_way(WayChoice(LIBRARY), shape, memory, w, bias)
        if is_ours:
            call = self._chosen(shape, x, w, bias)
        else:
            call = made_way(WayChoice(LIBRARY), shape, memory, w, bias)
        while len(self._calls) >= CALLS_KEPT:
            torch.cuda.synchronize()  # a launch may still use what it points to
            self._calls.popitem(last=False)
        self._calls[key] = call
        return call

    def _chosen(self, shape: LinearShape, x: Tensor, w: Tensor, bias: Tensor | None) -> Run:
        memory, capability = self.memory(w.device), torch.cuda.get_device_capability(w.device)
        algorithms = memory.algorithms.get(shape, UNTIMED)
        made = (
            (self.chosen[shape], self.eager.get(shape), algorithms)
            if shape in self.chosen
            else kept_choices(shape)
        )
        told = memory.exchange((shape, *(made or (choice_of(shape, capability), None, UNTIMED))))
        require_alike([other for other, *_ in told])
        _, graph, eager, memory.algorithms[shape] = told[0]  # a file may be there on one rank alone
        self.chosen[shape] = graph
        call = self._made(graph, shape, x, w, bias)
        if eager is None or eager == graph:
            return call
        self.eager[shape] = eager
        return _either(call, self._made(eager, shape, x, w, bias))

    def _made(self, choice: WayChoice, shape: LinearShape, x: Tensor, w: Tensor, bias: Tensor | None) -> Run:
        if choice.way == LIBRARY:
            return made_way(choice, shape, self.memory(w.device), w, bias)
        return self.made(choice, shape, x, w, bias)

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            warnings.warn(f"parallel linear: {text}", stacklevel=4)

    def _require_out(self, kind: str, x: Tensor, w: Tensor, out: Tensor) -> None:
        rows = {"all-gather": x.shape[0] * self.ranks, "reduce-scatter": x.shape[0] // self.ranks}.get(kind)
        size = (*x.shape[:-1], w.shape[0]) if rows is None else (rows, w.shape[0])
        if (
            tuple(out.shape) != size
            or out.dtype != x.dtype
            or not out.is_contiguous()
            or out.device != x.device
        ):
            raise DescriptionError(
                f"parallel linear: out is {tuple(out.shape)} of {out.dtype} on {out.device}; it must be "
                f"{size} of {x.dtype} on {x.device}, without gaps"
            )


def _either(in_graph: Run, eager: Run) -> Run:
    """The call that is faster as it is launched: a library's may take the host longer than the GPU."""

    def run(x: Tensor, w: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        return (in_graph if torch.cuda.is_current_stream_capturing() else eager)(x, w, bias, out)

    return run


def require_layer(kind: str, x: Tensor, w: Tensor, bias: Tensor | None, ranks: int) -> None:
    """Raises `DescriptionError` for operands that no layer has."""
    if w.dim() != 2 or x.dim() < 1 or x.shape[-1] != w.shape[1]:
        raise DescriptionError(
            f"parallel linear: x is {tuple(x.shape)} and w {tuple(w.shape)}; x's last side must be w's "
            "second. Give w as torch's linear has it, (outputs, inputs)"
        )
    for name, tensor in (("w", w), ("bias", bias)):
        if tensor is not None and (x.dtype != tensor.dtype or x.device != tensor.device):
            raise DescriptionError(
                f"parallel linear: x is {x.dtype} on {x.device}, {name} {tensor.dtype} on {tensor.device}; "
                "both must be alike. Convert one"
            )
    if bias is not None and tuple(bias.shape) != (w.shape[0],):
        raise DescriptionError(f"parallel linear: bias is {tuple(bias.shape)}; it must be ({w.shape[0]},)")
    if kind == "reduce-scatter" and x.shape[0] % ranks:
        raise DescriptionError(
            f"parallel linear: x has {x.shape[0]} rows, which {ranks} ranks cannot share out alike. Pad them"
        )


def label_of(choice: WayChoice) -> str:
    """A way and, of ours, its tile."""
    return f"{choice.way} {choice.tile[0]}x{choice.tile[1]}" if choice.is_tiled else choice.way
