"""Linear layers whose weights are shared out over a process group, as PyTorch operators.

Example: after an MLP's second product, `row_parallel_linear(x, w, group)` is x W^T summed over the ranks,
each of which has a part of K; `column_parallel_linear(x, w, group)` gathers rows of x that the ranks share
and has a part of N of its own. Tiles go over peer memory where `peers/choice.py` says so and the group is one
host's; else, under graph capture and on the CPU, it is the library's product and collective. For inference:
it has no gradient. A group's calls share memory: on several streams they come one after the other.
"""

from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.nn.functional import linear

from wavesim.errors import DescriptionError, WavesimError
from wavesim.sim.peers.tiles import split_of
from wavesim.work.collective import Collective
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.kernels.gemm.sm90.parameters import ALIGNMENT
from wavesim_gpu.peers.choice import LIBRARY, PeerChoice, choice_of
from wavesim_gpu.peers.groups import PeerGroup, ProcessPeers
from wavesim_gpu.peers.memory import SharedMemory
from wavesim_gpu.peers.options import CallOptions, options_named
from wavesim_gpu.peers.problem import SharedGemm, in_halves
from wavesim_gpu.peers.programs import RankArrays, SharedGemmProgram
from wavesim_gpu.peers.regions import layout_of

_DTYPES: dict[torch.dtype, Any] = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_LIBRARY = torch.library.Library("wavesim", "FRAGMENT")
_KINDS = {"row_parallel_linear": "all-reduce", "column_parallel_linear": "all-gather"}
for _name in _KINDS:
    _LIBRARY.define(f"{_name}(Tensor x, Tensor w, str group) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
PROGRAMS_KEPT = 64  # of one shape: by the addresses of x and w


def row_parallel_linear(x: Tensor, w: Tensor, group: Any = None) -> Tensor:
    """X (..., k) times w (n, k) transposed, summed over the group's ranks: (..., n) on each.

    k is this rank's part. `group` is a process group, by default that of all ranks. All ranks call it with
    the same shapes. Raises `DescriptionError`.
    """
    _require(x, w, group, "row_parallel_linear")
    return torch.ops.wavesim.row_parallel_linear(x, w, _name_of(group))


def column_parallel_linear(x: Tensor, w: Tensor, group: Any = None) -> Tensor:
    """X (m, k), this rank's rows, gathered from all ranks, times w (n, k) transposed: (m * ranks, n).

    n is this rank's part. Raises as `row_parallel_linear` does.
    """
    _require(x, w, group, "column_parallel_linear")
    if x.dim() != 2:
        raise DescriptionError(
            f"column_parallel_linear: x has {x.dim()} dimensions; it must have 2, whose rows are gathered. "
            "Flatten it"
        )
    return torch.ops.wavesim.column_parallel_linear(x, w, _name_of(group))


def _require(x: Tensor, w: Tensor, group: Any, name: str) -> None:
    if not dist.is_initialized():
        raise DescriptionError(
            f"{name}: there is no process group. Call torch.distributed.init_process_group"
        )
    ranks = dist.get_world_size(group)
    if ranks < 2:
        raise DescriptionError(f"{name}: the group has {ranks} rank; it needs 2 or more. Use torch's linear")
    if w.dim() != 2 or x.dim() < 1 or x.shape[-1] != w.shape[1]:
        raise DescriptionError(
            f"{name}: x is {tuple(x.shape)} and w {tuple(w.shape)}; x's last side must be w's second. Give w "
            "as torch's linear has it, (outputs, inputs)"
        )
    if x.dtype != w.dtype or x.device != w.device:
        raise DescriptionError(
            f"{name}: x is {x.dtype} on {x.device}, w {w.dtype} on {w.device}; both must be alike. "
            "Convert one"
        )
    if torch.is_grad_enabled() and (x.requires_grad or w.requires_grad):
        raise DescriptionError(f"{name}: it has no gradient. Call it under torch.no_grad()")


def _name_of(group: Any) -> str:
    return str((group if group is not None else dist.group.WORLD).group_name)


# ---- The operators. ----


def _run(name: str, x: Tensor, w: Tensor, group_name: str) -> Tensor:
    group = _resolve_process_group(group_name)
    if _fits(name, x, w, group):
        calls = _calls(group_name)
        if calls is not None:
            return calls.run(name, x, w)
    return _by_library(name, x, w, group)


def _by_library(name: str, x: Tensor, w: Tensor, group: Any) -> Tensor:
    if name == "row_parallel_linear":
        out = linear(x, w).contiguous()
        dist.all_reduce(out, group=group)
        return out
    rows = x.new_empty((x.shape[0] * dist.get_world_size(group), x.shape[1]))
    dist.all_gather_into_tensor(rows, x.contiguous(), group=group)
    return linear(rows, w)


def _fits(name: str, x: Tensor, w: Tensor, group: Any) -> bool:
    """Whether tiles go over peer memory. The same on all ranks: it looks at shapes and types alone."""
    if x.device.type != "cuda" or x.dtype not in _DTYPES or torch.cuda.is_current_stream_capturing():
        return False
    ranks = dist.get_world_size(group)
    m, k = x.numel() // max(1, x.shape[-1]), x.shape[-1]  # a K of 0 is the library's
    rows = m if name == "row_parallel_linear" else m * ranks
    return _choice(_KINDS[name], (rows, w.shape[0], k), ranks, x.device).way != LIBRARY


def _choice(kind: str, size: tuple[int, int, int], ranks: int, device: torch.device) -> PeerChoice:
    return choice_of(kind, size, ranks, torch.cuda.get_device_capability(device))


@cache
def _calls(group_name: str) -> "_Calls | None":
    """The group's memory among peers; None where its GPUs cannot reach each other, as all ranks then find."""
    group = _resolve_process_group(group_name)

    def exchange(mine: Any) -> list[Any]:
        told = [None] * dist.get_world_size(group)
        dist.all_gather_object(told, mine, group=group)
        return told

    try:
        peers = ProcessPeers(dist.get_rank(group), dist.get_world_size(group), exchange)
        calls: _Calls | None = _Calls(peers)
    except WavesimError:
        calls = None
    return calls if all(exchange(calls is not None)) else None


@dataclass
class _Calls:
    """Of one group: memory by problem, which all ranks make in one order, and launches by addresses."""

    group: PeerGroup
    memories: dict[SharedGemm, SharedMemory] = field(default_factory=dict)
    programs: dict[tuple[SharedGemm, int, int], SharedGemmProgram] = field(default_factory=dict)
    latest: Any = None  # the stream of the call before

    def run(self, name: str, x: Tensor, w: Tensor) -> Tensor:
        rows, (n, k) = aligned(x.reshape(-1, x.shape[-1])), w.shape
        m = rows.shape[0] * (self.group.rank_count if name == "column_parallel_linear" else 1)
        collective = Collective(_KINDS[name])  # type: ignore[arg-type]
        chosen = _choice(collective.kind, (m, n, k), self.group.rank_count, x.device)
        split_k = split_of((m, n, k), chosen.tile)
        problem = SharedGemm(
            *(m, n, k, collective, self.group.rank_count, _DTYPES[x.dtype], *chosen.tile, split_k),
            b_order="column",
        )
        # Where tests ask for more than is chosen.
        options = options_named("stores" if chosen.way == LIBRARY else chosen.way)
        if options.way == "exchange":
            problem = in_halves(problem)
        stream = torch.cuda.current_stream(x.device)
        if self.latest is not None and self.latest != stream:
            stream.wait_stream(self.latest)  # its call and the copy of what came of it
        self.latest = stream
        program = self._program(problem, rows, aligned(w), options)
        out = program.run_on(stream.cuda_stream)
        tensor = torch.as_tensor(out, device=x.device).view(x.dtype)
        # What peers store to is written again by the next call.
        return tensor.clone().reshape(*x.shape[:-1], n) if name == "row_parallel_linear" else tensor.clone()

    def _program(self, problem: SharedGemm, x: Tensor, w: Tensor, options: CallOptions) -> SharedGemmProgram:
        if problem not in self.memories:
            self.memories[problem] = self.group.allocate(layout_of(problem, options.way))
        key = (problem, x.data_ptr(), w.data_ptr())
        if key not in self.programs:
            alike = [program for program in self.programs if program[0] == problem]
            if len(alike) >= PROGRAMS_KEPT:
                torch.cuda.current_stream(x.device).synchronize()  # a launch may still use what it points to
                self.programs.pop(alike[0])
            (rank,) = self.group.ranks
            arrays = RankArrays(*map(_device_array, (x, w)))
            self.programs[key] = SharedGemmProgram(
                self.group, problem, {rank: arrays}, options, memory=self.memories[problem]
            )
        return self.programs[key]


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, dense, from an address that TMA takes; a copy where it begins elsewhere.

    Where a view begins may differ from rank to rank, and must not decide whether a rank takes part.
    """
    dense = tensor.contiguous()
    return dense if dense.data_ptr() % ALIGNMENT == 0 else dense.clone()


def _device_array(tensor: Tensor) -> Any:
    """The tensor's memory as a CuPy array that does not keep it: PyTorch may give its place to the next x."""
    cupy = require_cupy()
    size = tensor.numel() * tensor.element_size()
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), size, None, tensor.device.index)
    return cupy.ndarray(tuple(tensor.shape), "uint16", cupy.cuda.MemoryPointer(memory, 0))


def _shapes_alone(name: str, x: Tensor, w: Tensor, group_name: str) -> Tensor:
    """What the compiler knows of the result."""
    if name == "row_parallel_linear":
        return x.new_empty((*x.shape[:-1], w.shape[0]))
    ranks = dist.get_world_size(_resolve_process_group(group_name))
    return x.new_empty((x.shape[0] * ranks, w.shape[0]))


for _name in _KINDS:
    for _device in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, partial(_run, _name), _device)
    torch.library.register_fake(f"wavesim::{_name}", partial(_shapes_alone, _name), lib=_LIBRARY)
