"""Measures the ways to compute an MLP on the GPU at hand, and keeps the fastest for all later processes.

Example: `mlp(x, w1, w2, tune=True)` times cuBLASLt's algorithms, and then, in turns, cuBLASLt by the best of
them and the eight candidates of ours with the least predicted time, on random operands. Progress goes to the
logger "wavesim_gpu". An interrupt leaves nothing behind.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import Any

from wavesim.errors import CompileError, DeviceError, WavesimError
from wavesim.model.device import Device
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.element_types import element_type, from_float32, to_float32
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.layers import prepared, tuning_cache
from wavesim_gpu.layers.arguments import Layout
from wavesim_gpu.layers.calls import check
from wavesim_gpu.layers.choose import LIBRARY, Choice, worth_timing
from wavesim_gpu.layers.description import MlpCall, MlpExecutable, MlpShape
from wavesim_gpu.layers.library import LibraryMlp
from wavesim_gpu.layers.prepared import LoadedMlp
from wavesim_gpu.layers.tuning_cache import used_software
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.timing import Contender, interleaved_ns

MOST = 8  # candidates of ours that are timed
ROUNDS = 20
TIE = 0.005  # of the library's time: what does not gain that much is not worth another kernel
DISTINCT_BYTES = 256 << 20  # of weights that runs take in turns, so that none finds its own in the L2
MOST_SETS = 8
# Runs in a row of one timed graph: a model's layers follow each other too. Long ones are told from less.
RUNS, LONG_RUNS, LONG = 8, 2, 1024  # with so many rows a run is long
# Between two ways, relative, in the Frobenius norm: twice a few roundings of the type.
ALIKE = {"fp16": 4e-3, "bf16": 3e-2}
LIMIT_NS = 10**10
log = logging.getLogger("wavesim_gpu")
_tuning = threading.Lock()  # two would slow each other down while they are timed


def tune(layout: Layout) -> Choice:
    """Measures a layout's shape; later calls, and later processes, take what was fastest.

    Takes seconds, and GPU memory for several copies of the operands, which is given back; one at a time.
    Raises `DeviceError` where there is no GPU or too little of its memory.
    """
    with _tuning:
        return _tuned(layout)


def _tuned(layout: Layout) -> Choice:
    shape, device, cupy = layout.shape, query(), require_cupy()
    name = f"mlp of {prepared.described(shape)}"
    operands: _Operands | None = None
    try:
        operands = _Operands(shape, layout.device)
        entrants = _entrants(shape, device, operands)
        log.info("%s: %d ways are timed", name, len(entrants))
        fastest = _fastest(entrants, operands)
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceError(
            f"tuning {name} needs more GPU memory than is free: {error}. Free some, of PyTorch's by "
            "torch.cuda.empty_cache()"
        ) from None
    finally:
        operands = None
        cupy.get_default_memory_pool().free_all_blocks()  # the caller's library may want it
    log.info("%s: %s", name, fastest.choice)
    tuning_cache.keep(fastest.choice, shape, device, used_software())
    prepared.pin_choice(layout, fastest.choice, fastest.way)
    return fastest.choice


class _Operands:
    """Random operands of a shape, several sets of weights, results; all on one stream."""

    def __init__(self, shape: MlpShape, device: int) -> None:
        self.shape, self.device, self._cupy = shape, device, require_cupy()
        weights = 2 * (shape.k * shape.products + shape.n1 * shape.n2)
        self.sets = max(1, min(MOST_SETS, -(-DISTINCT_BYTES // weights)))
        self.stream = self._cupy.cuda.Stream(non_blocking=True)
        generator = self._cupy.random.RandomState(0)
        with self.stream:
            self._x = self._random(generator, (shape.m, shape.k), 1.0)
            columns = shape.products if shape.gate == "packed" else shape.n1
            first, second = (shape.k, columns), (shape.n1, shape.n2)
            self._w1 = [self._weight(generator, first, shape.w1_order) for _ in range(self.sets)]
            # After w1, so that nobody takes a gate of its own and w1 for one matrix.
            separate = self.sets if shape.gate == "separate" else 0
            self._gates = [self._weight(generator, first, shape.w1_order) for _ in range(separate)]
            self._w2 = [self._weight(generator, second, shape.w2_order) for _ in range(self.sets)]
            self._b1, self._b_gate = (self._random(generator, (columns,), 1.0) for _ in range(2))
            self._b2 = self._random(generator, (shape.n2,), 1.0)
            self.out = self._cupy.empty((shape.m, shape.n2), element_type(shape.dtype))
        self._scratch = self._cupy.empty(1, "uint8")
        self.stream.synchronize()

    def reserve(self, ways: Sequence[MlpExecutable]) -> None:
        """Scratch memory for any of them, which stays where it is from now on."""
        size = max(way.scratch_bytes for way in ways)
        if self._scratch.nbytes < size:
            self._scratch = self._cupy.empty(size, "uint8")

    def calls(self, *, is_captured: bool) -> list[MlpCall]:
        """One for each set of weights."""
        return [self._call(index, is_captured) for index in range(self.sets)]

    def result(self, way: MlpExecutable) -> Any:
        """What a way makes of the first set, as float32; NaN where it writes nothing."""
        self._cupy.cuda.runtime.memsetAsync(self.out.data.ptr, 0xFF, self.out.nbytes, self.stream.ptr)
        self.reserve([way])
        way.run(self.calls(is_captured=False)[0])
        self.stream.synchronize()
        check()
        return to_float32(self.out, self.shape.dtype).copy()

    @property
    def repeats(self) -> int:
        """How often a timed graph uses each set of weights."""
        return -(-(LONG_RUNS if self.shape.m > LONG else RUNS) // self.sets)

    def graph(self, way: MlpExecutable) -> Any:
        """Runs with each set of weights, one after the other, as a CUDA graph."""
        calls = self.calls(is_captured=True) * self.repeats
        with self.stream:
            self.stream.begin_capture()
            for call in calls:
                way.run(call)
            return self.stream.end_capture()

    def _weight(self, generator: Any, sides: tuple[int, int], order: str) -> Any:
        """A weight (in, out) as it lies in memory."""
        return self._random(generator, sides if order == "row" else sides[::-1], sides[0] ** -0.5)

    def _random(self, generator: Any, sides: tuple[int, ...], scale: float) -> Any:
        drawn = generator.standard_normal(sides, dtype="float32")
        drawn *= scale
        return from_float32(drawn, self.shape.dtype)

    def _call(self, index: int, is_captured: bool) -> MlpCall:
        shape, w1 = self.shape, self._w1[index]
        values, gate = w1.data.ptr, 0
        b1, b_gate = (self._b1.data.ptr, self._b_gate.data.ptr) if shape.has_b1 else (0, 0)
        if shape.gate == "packed":
            values, gate = values + w1.nbytes // 2 // (shape.k if shape.w1_order == "row" else 1), values
            b1, b_gate = (b1 + self._b1.nbytes // 2, b1) if shape.has_b1 else (0, 0)
        elif shape.gate:
            gate = self._gates[index].data.ptr
        return MlpCall(
            self._x.data.ptr,
            shape.k,
            values,
            w1.shape[1],
            self._w2[index].data.ptr,
            self._w2[index].shape[1],
            self.out.data.ptr,
            self._scratch.data.ptr,
            self.stream.ptr,
            self.device,
            is_captured,
            LIMIT_NS,
            gate,
            b1,
            b_gate if shape.gate else 0,
            self._b2.data.ptr if shape.has_b2 else 0,
        )


def _entrants(shape: MlpShape, device: Device, operands: _Operands) -> list[LoadedMlp]:
    """CuBLASLt first, by its best algorithms, and those of ours that compile and agree with it."""
    library = LibraryMlp(shape)
    operands.reserve([library])
    call, *others = operands.calls(is_captured=False)
    algorithms = library.tuned(call, operands.stream, others)
    by_library = Choice(LIBRARY, algorithms=tuple(sorted(algorithms.items())))
    tuned = LibraryMlp(shape, algorithms)
    # Also as it is untuned: an algorithm that is fastest alone need not be in a row of products.
    entrants = [LoadedMlp(shape, by_library, tuned), LoadedMlp(shape, Choice(LIBRARY), library)]
    wanted = operands.result(tuned)
    candidates = [candidate for _, candidate in worth_timing(shape, device, MOST)]
    planned = [candidate.planned(shape) for candidate in candidates]
    with suppress(CompileError):  # the one that does not compile is told below
        compile_all(wanted for pair in planned for wanted in wanted_kernels(*pair, Build()))
    for candidate in candidates:
        try:
            way = prepared.planned_way(shape, candidate)
            error = _error(operands.result(way), wanted)
        except WavesimError as problem:
            log.warning("%s cannot be timed: %s", candidate, problem)
            continue
        if not error <= ALIKE[shape.dtype]:
            log.warning("%s is %.2g off cuBLASLt's result; it is left out", candidate, error)
            continue
        entrants.append(LoadedMlp(shape, Choice(str(candidate), candidate=candidate), way))
    return entrants


def _error(result: Any, wanted: Any) -> float:
    """Relative, in the Frobenius norm; NaN where either has one."""
    cupy = require_cupy()
    return float(cupy.linalg.norm(result - wanted) / cupy.linalg.norm(wanted))


def _fastest(entrants: Sequence[LoadedMlp], operands: _Operands) -> LoadedMlp:
    """By the median of rounds in turns; the library, which is first, unless another gains more than a tie."""
    ways = [entrant.way for entrant in entrants if entrant.way is not None]
    operands.reserve(ways)
    graphs = [operands.graph(way) for way in ways]
    runs = operands.sets * operands.repeats
    contenders = [
        Contender(lambda graph=graph: graph.launch(operands.stream), operands.stream, runs)  # type: ignore[misc]
        for graph in graphs
    ]
    times = [median(rounds) for rounds in interleaved_ns(contenders, ROUNDS)]
    check()
    library_ns = times[0]
    for entrant, time in zip(entrants, times, strict=True):
        log.info("%s: %.1f us", entrant.choice.label, time / 1e3)
    best = min(range(len(times)), key=times.__getitem__)
    best = best if times[best] < library_ns * (1 - TIE) else 0
    choice = replace(entrants[best].choice, predicted_ns=times[best], library_ns=library_ns, basis="measured")
    return replace(entrants[best], choice=choice)
