"""A product across ranks, ready to launch: on each GPU a GEMM and a few blocks beside it, on one stream.

Example: `SharedGemmProgram(group, problem, operands)` of an all-reduce is, per rank, the GEMM, whose epilogue
warps store each tile into the memory of the rank that adds it up, and behind it by dependent launch 8 blocks
that add tiles as they arrive. `enqueue()` launches on all ranks that this process drives, `launchers()`
replay graphs of it. A second call may follow at once: words hold call numbers and are never reset.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver.device import query
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.layout import ERRORS
from wavesim_gpu.peers.memory import SharedMemory
from wavesim_gpu.peers.options import CallOptions, blocks_of, require_way
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.products import PeerProduct, exchange_gemm, gather_gemm, next_gemm, scatter_gemm
from wavesim_gpu.peers.rank_view import RankOperands, RankView
from wavesim_gpu.peers.regions import ELEMENT, failure, layout_of, require_room
from wavesim_gpu.peers.sends import BESIDE, MAIN, copy_steps, meeting, send_launch
from wavesim_gpu.peers.sums import reduce_launch


class PeerStep(Protocol):
    """A kernel, a copy, or streams that meet."""

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it on one of a rank's two streams."""
        ...


class RankLaunches:
    """Those of a rank. A kernel may start when all blocks of the one before it in its stream have."""

    def __init__(self, view: RankView) -> None:
        self.view = view
        self.products: list[PeerProduct] = []
        self.launches: list[PeerStep]
        self.added: Any = None  # what the blocks that add have recorded, where they do
        if view.problem.gathers:
            self.launches = self._gathered()
        else:
            self.launches = self._exchanged() if view.options.way == "exchange" else self._scattered()

    def _exchanged(self) -> list[PeerStep]:
        self.products = [exchange_gemm(self.view)]
        return [self.products[0].launch]

    def _gathered(self) -> list[PeerStep]:
        self.products = [gather_gemm(self.view)]
        gemm = self.products[0].launch
        if self.view.options.way == "copies":
            return [meeting(MAIN, BESIDE), gemm, *copy_steps(self.view), meeting(BESIDE, MAIN)]
        return [send_launch(self.view), gemm]

    def _scattered(self) -> list[PeerStep]:
        view = self.view
        self.products = [scatter_gemm(view)]
        gemm = self.products[0].launch
        adding, self.added = reduce_launch(view)
        # Copies go ahead of what waits for them, in case that both streams share a hardware queue.
        copies = copy_steps(view) if view.options.way == "copies" else []
        sent = [send_launch(view)] if view.options.way == "blocks" else []
        if view.problem.following is not None:
            self.products.append(next_gemm(view))
        after = [one.launch for one in self.products[1:]]
        if not copies:
            return [gemm, *sent, adding, *after]
        return [meeting(MAIN, BESIDE), gemm, *copies, adding, *after, meeting(BESIDE, MAIN)]


NAN = 0x7FFF  # in fp16 and in bf16


@dataclass(frozen=True)
class RankArrays:
    """A rank's operands, CuPy arrays on its GPU: A (m, k), of an all-gather its share of rows; B; a bias.

    Of a chain also the residual (m, n), the norm's weight (n,) and the next product's B.
    """

    a: Any
    b: Any
    bias: Any = None
    residual: Any = None
    weight: Any = None
    next_b: Any = None


class SharedGemmProgram:
    """`operands` of each rank that this process drives. With `memory` of a program of the same problem and
    options it shares that one's; else making it is a collective call.

    The results are `outs[rank]`, CuPy arrays (16-bit words for bf16) that the next call writes; of a chain
    these are sums with the residual, and `next_outs[rank]` is the product that follows. Raises
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
        self.memory = memory or group.allocate(layout_of(problem, self.options.way))
        require_room(self.memory, problem, self.options.way)
        self.outs: dict[int, Any] = {}
        self.next_outs: dict[int, Any] = {}
        self.streams = {rank: group.streams_of(rank) for rank in group.ranks}
        self.ranks: dict[int, RankLaunches] = {}
        for rank in group.ranks:
            with group.on(rank) as cupy:
                _require_shapes(problem, operands[rank])
                self.ranks[rank] = RankLaunches(self._view_of(rank, cupy))
                cupy.cuda.Device().synchronize()  # tables are copied on another stream

    def enqueue(self) -> None:
        """Launches on every rank that this process drives: every rank's first kernel, then its second.

        Where ranks share a GPU no kernel is so queued ahead of one that it waits for.
        """
        for steps in zip_longest(*(self.ranks[rank].launches for rank in self.group.ranks)):
            for rank, step in zip(self.group.ranks, steps, strict=True):
                if step is not None:
                    with self.group.on(rank):
                        step.enqueue(self.streams[rank])

    def poison(self) -> None:
        """NaN in all outputs, so that what a call leaves out is seen. On all ranks before any calls again."""
        for rank in self.group.ranks:
            with self.group.on(rank) as cupy:
                for out in (self.outs[rank], self.next_outs.get(rank)):
                    if out is not None:
                        out.view(np.uint16)[:] = NAN
                cupy.cuda.Device().synchronize()
        self.group.barrier()

    def launchers(self, repeats: int = 1) -> dict[int, Callable[[], None]]:
        """Per driven rank, what replays a graph of so many calls, one after the other."""
        return {rank: self._graph(rank, repeats) for rank in self.group.ranks}

    def check(self) -> None:
        """Waits for the driven ranks. Raises `DeadlockError` of the first that failed."""
        for rank in self.group.ranks:
            with self.group.on(rank) as cupy:
                self.streams[rank][MAIN].synchronize()
                found = self._view(rank, cupy, "errors", (ERRORS.itemsize,), np.uint8).get()
                if found.view(ERRORS)[0]["aborted"]:
                    raise failure(self.problem, rank, found, self.options.limit_s)

    def _enqueue(self, rank: int, stream: Any) -> None:
        for launch in self.ranks[rank].launches:
            launch.enqueue((stream, self.streams[rank][BESIDE]))

    def _graph(self, rank: int, repeats: int) -> Callable[[], None]:
        stream = self.streams[rank][MAIN]
        with self.group.on(rank), stream:
            stream.begin_capture()
            for _ in range(repeats):
                self._enqueue(rank, stream)
            graph = stream.end_capture()

        def launch() -> None:
            with self.group.on(rank):
                graph.launch(stream)

        return launch

    def _out(self, rank: int, cupy: Any) -> Any:
        """The result on a rank: for most sums, memory that other ranks store to. 16-bit words for bf16."""
        problem = self.problem
        kind = np.float16 if problem.dtype == "fp16" else np.uint16
        rows = problem.m // (problem.ranks if problem.collective.kind == "reduce-scatter" else 1)
        if problem.gathers or self.options.way == "exchange":
            return cupy.zeros((rows, problem.n), kind)
        return self._view(rank, cupy, "out", (rows, problem.n), kind)

    def _view_of(self, rank: int, cupy: Any) -> RankView:
        problem = self.problem
        self.outs[rank] = self._out(rank, cupy)
        if problem.next_gemm is not None:
            self.next_outs[rank] = cupy.zeros((problem.m, problem.next_gemm.n), self.outs[rank].dtype)
        blocks = blocks_of(problem, query().sm_count, self.options, self.group.sharers_of(rank), rank)
        return RankView(problem, self.memory, rank, self._addresses(rank), blocks, self.options)

    def _addresses(self, rank: int) -> RankOperands:
        arrays = self.operands[rank]
        places = {name: getattr(arrays, name) for name in shapes_of(self.problem)}
        places |= {"c": self.outs[rank], "next_c": self.next_outs.get(rank)}
        return RankOperands(
            **{name: int(array.data.ptr) for name, array in places.items() if array is not None}
        )

    def _view(self, rank: int, cupy: Any, name: str, shape: tuple[int, ...], kind: Any) -> Any:
        """A region of a rank's own memory as an array."""
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        address = self.memory.address(rank, rank, name)
        memory = cupy.cuda.UnownedMemory(address, size, self.memory, self.group.device_of(rank))
        return cupy.ndarray(shape, kind, cupy.cuda.MemoryPointer(memory, 0))


def _require_ranks(problem: SharedGemm, group: PeerGroup, options: CallOptions) -> None:
    if problem.ranks != group.rank_count:
        raise DescriptionError(
            f"SharedGemm: ranks is {problem.ranks}; the group has {group.rank_count}. Use the group's"
        )
    require_way(problem, options)


def shapes_of(problem: SharedGemm) -> dict[str, tuple[int, ...]]:
    """Of a rank's operands, by name."""
    rows = problem.m // problem.ranks if problem.gathers else problem.m

    def b(gemm: Gemm) -> tuple[int, int]:
        return (gemm.n, gemm.k) if problem.b_order == "column" else (gemm.k, gemm.n)

    shapes: dict[str, tuple[int, ...]] = {"a": (rows, problem.k), "b": b(problem.gemm)}
    if problem.has_bias:
        shapes["bias"] = (problem.n,)
    if problem.next_gemm is not None:
        shapes |= {
            "residual": (problem.m, problem.n), "weight": (problem.n,), "next_b": b(problem.next_gemm)
        }  # fmt: skip
    return shapes


def _require_shapes(problem: SharedGemm, arrays: RankArrays) -> None:
    """Raises `DescriptionError`: kernels trust these shapes, and would read outside of smaller arrays."""
    for name, shape in shapes_of(problem).items():
        array = getattr(arrays, name)
        if array is None or tuple(array.shape) != shape or array.dtype.itemsize != ELEMENT:
            found = "missing" if array is None else f"{tuple(array.shape)} of {array.dtype}"
            raise DescriptionError(
                f"SharedGemm: {name} is {found}; it must be {shape}, 16-bit elements. Give it in that form"
            )
        if not array.flags.c_contiguous:
            raise DescriptionError(f"SharedGemm: {name} has gaps between rows. Use cupy.ascontiguousarray")
