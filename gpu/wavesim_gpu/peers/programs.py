"""A product across ranks, ready to launch: on each GPU a GEMM and a few blocks beside it, on one stream.

Example: `SharedGemmProgram(group, problem, operands)` of an all-reduce is, per rank, the GEMM, whose epilogue
warps store each tile into the memory of the rank that adds it up, and behind it by dependent launch 8 blocks
that add tiles as they arrive. `enqueue()` launches on all ranks that this process drives, `launchers()`
replay graphs of it. A second call may follow at once: words hold call numbers and are never reset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.layout import ERRORS
from wavesim_gpu.peers.memory import SharedMemory
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.rank_launches import CallOptions, PeerBlocks, RankLaunches, RankOperands
from wavesim_gpu.peers.regions import ELEMENT, failure, layout_of
from wavesim_gpu.runtime.device import query

NAN = 0x7FFF  # in fp16 and in bf16


@dataclass(frozen=True)
class RankArrays:
    """A rank's operands, CuPy arrays on its GPU: A (m, k), of an all-gather its share of rows; B; a bias."""

    a: Any
    b: Any
    bias: Any = None


class SharedGemmProgram:
    """`operands` of each rank that this process drives. With `memory` of a program of the same problem and
    options it shares that one's; else making it is a collective call.

    The results are `outs[rank]`, CuPy arrays (16-bit words for bf16) that the next call writes. Raises
    `DescriptionError`, `DeviceError` and `CompileError`.
    """

    def __init__(
        self,
        group: PeerGroup,
        problem: SharedGemm,
        operands: Mapping[int, RankArrays],
        options: CallOptions | None = None,
        memory: SharedMemory | None = None,
    ) -> None:
        self.options = options or CallOptions()
        _require_ranks(problem, group, self.options)
        self.group, self.problem, self.operands = group, problem, operands
        self.memory = memory or group.allocate(layout_of(problem, by_blocks=self.options.by_blocks))
        self.outs: dict[int, Any] = {}
        self.streams: dict[int, Any] = {}
        self.ranks: dict[int, RankLaunches] = {}
        for rank in group.ranks:
            with group.on(rank) as cupy:
                self.streams[rank] = cupy.cuda.Stream(non_blocking=True)
                self.outs[rank] = self._out(rank, cupy)
                _require_shapes(problem, operands[rank])
                blocks = blocks_of(problem, query().sm_count, self.options)
                self.ranks[rank] = RankLaunches(
                    problem, self.memory, rank, self._addresses(rank), blocks, self.options
                )
                cupy.cuda.Device().synchronize()  # tables are copied on another stream

    def enqueue(self) -> None:
        """Launches on every rank that this process drives."""
        for rank in self.group.ranks:
            with self.group.on(rank):
                self._enqueue(rank)

    def run_on(self, stream: int) -> Any:
        """One call of the only driven rank in the order of a CUDA stream, by its address; its output."""
        (rank,) = self.group.ranks
        with self.group.on(rank) as cupy:
            for launch in self.ranks[rank].launches:
                launch.enqueue((cupy.cuda.ExternalStream(stream),))
        return self.outs[rank]

    def poison(self) -> None:
        """NaN in all outputs, so that what a call leaves out is seen. On all ranks before any calls again."""
        for rank in self.group.ranks:
            with self.group.on(rank) as cupy:
                self.outs[rank].view(np.uint16)[:] = NAN
                cupy.cuda.Device().synchronize()
        self.group.barrier()

    def launchers(self, repeats: int = 1) -> dict[int, Callable[[], None]]:
        """Per driven rank, what replays a graph of so many calls, one after the other."""
        return {rank: self._graph(rank, repeats) for rank in self.group.ranks}

    def check(self) -> None:
        """Waits for the driven ranks. Raises `DeadlockError` of the first that failed."""
        columns = self.problem.gathered.grid.x if self.problem.gathers else self.problem.columns
        for rank in self.group.ranks:
            with self.group.on(rank) as cupy:
                self.streams[rank].synchronize()
                found = self._view(rank, cupy, "errors", (ERRORS.itemsize,), np.uint8).get()
                if found.view(ERRORS)[0]["aborted"]:
                    raise failure(rank, found, columns, self.options.limit_s)

    def _enqueue(self, rank: int) -> None:
        for launch in self.ranks[rank].launches:
            launch.enqueue((self.streams[rank],))

    def _graph(self, rank: int, repeats: int) -> Callable[[], None]:
        stream = self.streams[rank]
        with self.group.on(rank), stream:
            stream.begin_capture()
            for _ in range(repeats):
                self._enqueue(rank)
            graph = stream.end_capture()

        def launch() -> None:
            with self.group.on(rank):
                graph.launch(stream)

        return launch

    def _out(self, rank: int, cupy: Any) -> Any:
        """The result on a rank: for sums, memory that other ranks store to. 16-bit words for bf16."""
        problem = self.problem
        kind = np.float16 if problem.dtype == "fp16" else np.uint16
        if problem.gathers:
            return cupy.zeros((problem.m, problem.n), kind)
        rows = problem.m // (problem.ranks if problem.collective.kind == "reduce-scatter" else 1)
        self.memory.require_inside("out", rows * problem.n * ELEMENT)
        return self._view(rank, cupy, "out", (rows, problem.n), kind)

    def _addresses(self, rank: int) -> RankOperands:
        arrays = self.operands[rank]
        named = (arrays.a, arrays.b, self.outs[rank])
        bias = int(arrays.bias.data.ptr) if self.problem.has_bias else 0
        return RankOperands(*(int(array.data.ptr) for array in named), bias)

    def _view(self, rank: int, cupy: Any, name: str, shape: tuple[int, ...], kind: Any) -> Any:
        """A region of a rank's own memory as an array."""
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        address = self.memory.address(rank, rank, name)
        memory = cupy.cuda.UnownedMemory(address, size, self.memory, self.group.device_of(rank))
        return cupy.ndarray(shape, kind, cupy.cuda.MemoryPointer(memory, 0))


def blocks_of(problem: SharedGemm, sm_count: int, options: CallOptions) -> PeerBlocks:
    """How a GPU's SMs are dealt out. Raises `DescriptionError` where none is left for the GEMM."""
    wanted = {"reduce_blocks": not problem.gathers, "send_blocks": problem.gathers or options.by_blocks}
    counts = {name: getattr(options, name) if is_there else 0 for name, is_there in wanted.items()}
    for name, is_there in wanted.items():
        if is_there and counts[name] < 1:
            raise DescriptionError(f"SharedGemm: {name} is {counts[name]}; it must be 1 or more. Use 8")
    comm = sum(counts.values())
    if comm >= sm_count:
        raise DescriptionError(
            f"SharedGemm: {comm} communication blocks on {sm_count} SMs leave none for the GEMM. Use fewer"
        )
    items = problem.gemm.grid.tiles * problem.split_k
    return PeerBlocks(min(items, sm_count - comm), counts["reduce_blocks"], counts["send_blocks"])


def _require_ranks(problem: SharedGemm, group: PeerGroup, options: CallOptions) -> None:
    if problem.ranks != group.rank_count:
        raise DescriptionError(
            f"SharedGemm: ranks is {problem.ranks}; the group has {group.rank_count}. Use the group's"
        )
    if options.by_blocks and (problem.gathers or problem.is_one_shot):
        raise DescriptionError(
            "SharedGemm: by_blocks is for two-shot all-reduce and reduce-scatter; an all-gather's tiles are "
            "sent by blocks anyway, and one-shot ones by the GEMM. Leave it out"
        )


def _require_shapes(problem: SharedGemm, arrays: RankArrays) -> None:
    """Raises `DescriptionError`: kernels trust these shapes, and would read outside of smaller arrays."""
    rows = problem.m // problem.ranks if problem.gathers else problem.m
    b = (problem.n, problem.k) if problem.b_order == "column" else (problem.k, problem.n)
    expected = {"a": (rows, problem.k), "b": b} | ({"bias": (problem.n,)} if problem.has_bias else {})
    for name, shape in expected.items():
        array = getattr(arrays, name)
        if array is None or tuple(array.shape) != shape or array.dtype.itemsize != ELEMENT:
            found = "missing" if array is None else f"{tuple(array.shape)} of {array.dtype}"
            raise DescriptionError(
                f"SharedGemm: {name} is {found}; it must be {shape}, 16-bit elements. Give it in that form"
            )
        if not array.flags.c_contiguous:
            raise DescriptionError(f"SharedGemm: {name} has gaps between rows. Use cupy.ascontiguousarray")
