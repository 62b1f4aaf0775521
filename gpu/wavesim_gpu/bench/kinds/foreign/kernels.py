"""Compiles and launches the foreign pairs, plainly or with their own semaphores, as CUDA graphs.

Example: `made = Made(pair)`; `made.graph("row")` is a graph of both kernels on two streams, the second held
back until the first has started; `made.require_right(graph)` runs it over poisoned outputs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.bench.foreign_pairs import (
    BASELINE,
    NAMES,
    SOFTMAX_ROWS,
    SOFTMAX_THREADS,
    THREADS,
    ForeignPair,
)
from wavesim.errors import DeadlockError
from wavesim.plan.parsing import plan_data
from wavesim.trace.trace import Trace
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended
from wavesim_gpu.record.recording import Recording
from wavesim_gpu.run.runner import WrongResultError
from wavesim_gpu.run.timing import Contender

HERE = Path(__file__).parent
GEMM, ROWS = HERE / "gemm.cu", HERE / "rows.cu"
LIMIT_NS = 2_000_000_000
TOLERANCE = 3e-3
WARPS = (2, 4)
POINTERS = ("posts", "waits", "started", "next", "failed", "limit_ns")
NUMBERS = ("post_columns", "wait_columns", "awaited", "producer_tile_m", "producer_tile_n", "producer_rows")
FLAGS = np.dtype(  # `Flags` of flags.cuh
    [(name, "<u8") for name in POINTERS] + [(name, "<i4") for name in (*NUMBERS, "group", "is_early")]
)


def gemm_name(pair: ForeignPair, stage: int) -> str:
    """The template instance that computes a product."""
    waits = str(pair.wait_place == "block-barrier").lower()
    numbers = [*(pair.tile, pair.second_tile)[stage], pair.pipeline_depth, *WARPS, pair.blocks_per_sm]
    return f"gemm<{','.join(map(str, numbers))},{waits},{str(pair.is_persistent).lower()}>"


def softmax_name() -> str:
    """The template instance of the other consumer."""
    return f"softmax<{SOFTMAX_ROWS},{SOFTMAX_THREADS // 32}>"


class Made:
    """A pair with operands, compiled kernels and counters, on the current GPU.

    Counters: two that say started and failed, two that persistent kernels fetch tiles from, then semaphores.
    """

    def __init__(self, pair: ForeignPair, *, is_recording: bool = False) -> None:
        self.pair, self._cupy = pair, require_cupy()
        self.build = Build(is_recording=is_recording)
        self.grids = [stage.grid for stage in pair.told().stages]
        self.functions = [self._load(0), self._load(1)]
        self.blocks = {
            name: function.block(*self._shape(stage))
            for stage, (name, function) in enumerate(zip(NAMES, self.functions, strict=True))
        }
        self._hold = load_function(ROWS, "hold", self.build)
        self.streams = [self._cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
        self.counters = self._cupy.zeros(4 + self.grids[0].size, np.uint32)
        self.recording = Recording(pair.told(self.blocks), capacity=sum(g.size for g in self.grids))
        self._operands()
        self._cupy.cuda.Device().synchronize()

    def _load(self, stage: int) -> Function:
        if stage and self.pair.is_softmax:
            return load_function(ROWS, softmax_name(), self.build)
        return load_function(GEMM, gemm_name(self.pair, stage), self.build, self.pair.shared_bytes(stage))

    def _shape(self, stage: int) -> tuple[int, int]:
        """Threads and dynamic shared memory."""
        if stage and self.pair.is_softmax:
            return SOFTMAX_THREADS, 0
        return THREADS, self.pair.shared_bytes(stage)

    def _operands(self) -> None:
        cupy, pair = self._cupy, self.pair
        random = cupy.random.RandomState(pair.m)

        def matrix(rows: int, columns: int, scale: float) -> Any:
            return (random.standard_normal((rows, columns), np.float32) * scale).astype(np.float16)

        self.a, self.b = matrix(pair.m, pair.k, 1.0), matrix(pair.k, pair.n1, pair.k**-0.5)
        self.c = None if pair.is_softmax else matrix(pair.n1, pair.n2, pair.n1**-0.5)
        self.hidden = cupy.empty((pair.m, pair.n1), np.float16)
        self.out = cupy.empty((pair.m, pair.n2 or pair.n1), np.float16)

    def _flags(self, stage: int, word: str, *, is_early: bool) -> Any:
        """The parameter of a kernel under a plan's word."""
        flags, base, grid = np.zeros(1, FLAGS)[0], self.counters.data.ptr, self.grids[0]
        flags["failed"], flags["next"], flags["limit_ns"] = base + 4, base + 8 + 4 * stage, LIMIT_NS
        flags["group"], flags["is_early"] = self.pair.group, is_early
        if word == BASELINE:
            return flags
        columns = 1 if word.endswith("row") else grid.x
        if stage == 0:
            flags["started"], flags["posts"], flags["post_columns"] = base, base + 16, columns
            return flags
        flags["waits"], flags["wait_columns"], flags["awaited"] = base + 16, columns, grid.x // columns
        flags["producer_tile_m"], flags["producer_tile_n"] = self.pair.tile[:2]
        flags["producer_rows"] = grid.y
        return flags

    def launch(self, stage: int, word: str, stream: Any) -> None:
        """Launches one kernel; by dependent launch where the word says so."""
        pair, is_pdl = self.pair, word.startswith("pdl")
        flags, (threads, shared) = self._flags(stage, word, is_early=is_pdl), self._shape(stage)
        recording = np.uint64(self.recording.buffer.data.ptr if self.build.is_recording else 0)
        blocks = self.grids[stage].size
        if pair.is_persistent and not (stage and pair.is_softmax):
            blocks = min(blocks, query().sm_count * self.functions[stage].blocks_per_sm(threads, shared))
        if stage and pair.is_softmax:
            sizes = (pair.m, pair.n1, pair.tile[1], stage)
            arrays: tuple[Any, ...] = (self.hidden, self.out)
        else:
            sizes = (pair.m, (pair.n1, pair.n2)[stage], (pair.k, pair.n1)[stage], stage)
            arrays = ((self.a, self.b, self.hidden), (self.hidden, self.c, self.out))[stage]
        pointers = [np.uint64(array.data.ptr) for array in arrays]
        arguments = (*pointers, *map(np.int32, sizes), flags, recording)
        shape = KernelLaunch(NAMES[stage], threads, shared, blocks, is_dependent=is_pdl and stage > 0)
        launch_extended(self.functions[stage].function, shape, arguments, stream)

    def enqueue(self, word: str) -> None:
        """One run under a plan, on the pair's streams; it ends on the first."""
        first, second = self.streams
        if word == BASELINE:
            self.launch(0, word, first)
            self.launch(1, word, first)
            return
        self.counters.data.memset_async(0, self.counters.nbytes, first)
        if word.startswith("pdl"):
            self.launch(0, word, first)
            self.launch(1, word, first)
            return
        second.wait_event(self._event(first))
        self.launch(0, word, first)
        shape = KernelLaunch("hold", 1, 0, 1)
        launch_extended(self._hold.function, shape, (self._flags(0, word, is_early=False),), second)
        self.launch(1, word, second)
        first.wait_event(self._event(second))

    def graph(self, word: str) -> Callable[[], None]:
        """What replays a run under a plan."""
        return self._captured(lambda: self.enqueue(word))

    def alone(self, stage: int, repeats: int) -> Contender:
        """One kernel by itself, so many times in a graph."""

        def enqueue() -> None:
            for _ in range(repeats):
                self.launch(stage, BASELINE, self.streams[0])

        return Contender(self._captured(enqueue), self.streams[0], repeats)

    def contender(self, word: str) -> Contender:
        """A run under a plan, to be timed."""
        return Contender(self.graph(word), self.streams[0])

    def _captured(self, enqueue: Callable[[], None]) -> Callable[[], None]:
        first = self.streams[0]
        with first:
            first.begin_capture()
            enqueue()
            graph = first.end_capture()
        return lambda: graph.launch(first)

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def outputs(self, replay: Callable[[], None]) -> tuple[Any, Any]:
        """Copies of both outputs after a run over NaN. Raises `DeadlockError` if a wait ran out of time."""
        self.hidden.fill(np.nan)
        self.out.fill(np.nan)
        self._cupy.cuda.Device().synchronize()
        replay()
        self.streams[0].synchronize()
        self.require_no_timeout()
        return self.hidden.copy(), self.out.copy()

    def require_no_timeout(self) -> None:
        """Raises `DeadlockError` if a wait of the last run ran out of time."""
        if int(self.counters[1]):
            raise DeadlockError((), detail=f"{self.pair.name}: a wait ran out of its {LIMIT_NS / 1e9:g} s")

    def require_product(self, result: tuple[Any, Any]) -> None:
        """Raises `WrongResultError` unless both outputs are what they should be, to fp16's rounding."""
        cupy = self._cupy
        hidden = self.a.astype(np.float32) @ self.b.astype(np.float32)
        source = result[0].astype(np.float32)
        if self.c is not None:
            out = source @ self.c.astype(np.float32)
        else:
            powers = cupy.exp(source - source.max(axis=1, keepdims=True))
            out = powers / powers.sum(axis=1, keepdims=True)
        for name, got, want in zip(NAMES, result, (hidden, out), strict=True):
            error = float(cupy.linalg.norm(got.astype(np.float32) - want) / cupy.linalg.norm(want))
            if not error < TOLERANCE:
                raise WrongResultError(f"{self.pair.name}, {name}: relative error {error}")

    def require_same(self, result: tuple[Any, Any], wanted: tuple[Any, Any], word: str) -> None:
        """Raises `WrongResultError` unless a plan gives stream sync's very bits."""
        for name, got, want in zip(NAMES, result, wanted, strict=True):
            wrong = int((got.view(np.uint16) != want.view(np.uint16)).sum())
            if wrong:
                raise WrongResultError(
                    f"{self.pair.name} under {word}: {wrong} of {got.size} elements of {name} are not "
                    "stream sync's"
                )

    def empty_recording(self) -> None:
        """Before a run that is to be recorded."""
        self.recording.reset()
        self._cupy.cuda.Device().synchronize()

    def trace(self, word: str, about: dict[str, Any]) -> Trace:
        """The trace of the last run, under a plan; for a pair made with `is_recording`."""
        self.streams[0].synchronize()
        self.require_no_timeout()
        plan = self.pair.plan(word)
        return self.recording.trace(plan=plan, about={**about, "plan_data": plan_data(plan)})
