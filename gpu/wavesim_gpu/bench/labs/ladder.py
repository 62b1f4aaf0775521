"""The ladders measured step by step: sums and convolutions beside a copy's rate, products in flop/s.

Every kernel is compared with
a double-precision reference on fresh random inputs and poisoned outputs before it is timed; then all of a
family run in turns with a device-to-device copy, in an order that is drawn anew each round.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim.errors import WavesimError
from wavesim_gpu.bench.libraries.limits import COPIED_BYTES, copying
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.ladder.steps import CONVOLUTION, MATMUL, REDUCTION, TAPS, LadderStep
from wavesim_gpu.run.timing import Contender, interleaved_ns

ROUNDS = 21
ELEMENTS, PIXELS, ROWS = 1 << 28, 1 << 27, 4096  # of the sum, the convolution, the product
TOLERANCE = 1e-5  # relative error of fp32 sums of up to 2^28 terms above 0, or by norms


@dataclass(frozen=True)
class Prepared:
    """A step on its arrays: `launch` runs it once, `error` runs it on poisoned outputs and compares.

    `work`: bytes read and written, or flops.
    """

    step: LadderStep
    contender: Contender
    error: Callable[[], float]
    work: int


class Launcher:
    """Launches steps on one stream of the GPU at hand."""

    def __init__(self) -> None:
        self.cupy = require_cupy()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.sms = query().sm_count

    def contender(self, step: LadderStep, size: int, arguments: tuple[Any, ...]) -> Contender:
        """One launch of a step over so many elements or rows."""
        function = load_function(step.source, step.kernel, Build()).function
        grid, block = step.launch(size, self.sms)
        return Contender(lambda: function(grid, block, arguments, 0, self.stream), self.stream)

    def result(self, contender: Contender, out: Any) -> Any:
        """The output of one run that began with NaN everywhere, in double precision."""
        out.fill(np.nan)
        self.cupy.cuda.Device().synchronize()
        contender.launch()
        self.cupy.cuda.Device().synchronize()
        return out.astype(np.float64)

    def random(self, *shape: int) -> Any:
        """Floats from 0 to 1."""
        return self.cupy.random.default_rng(5).random(shape, dtype=np.float32)


def reductions(launcher: Launcher, size: int = ELEMENTS) -> Iterator[Prepared]:
    """Sums of `size` floats; every block leaves one, and these are added up here."""
    data = launcher.random(size)
    expected = float(data.sum(dtype=np.float64))
    for step in REDUCTION:
        out = launcher.cupy.empty(step.launch(size, launcher.sms)[0][0], np.float32)
        contender = launcher.contender(step, size, (data, out, np.uint32(size)))

        def error(contender: Contender = contender, out: Any = out) -> float:
            return abs(float(launcher.result(contender, out).sum()) / expected - 1)

        yield Prepared(step, contender, error, data.nbytes)


def convolutions(launcher: Launcher, size: int = PIXELS) -> Iterator[Prepared]:
    """Nine taps over `size` floats, zeros outside."""
    data, weights = launcher.random(size), launcher.random(TAPS)
    wide = launcher.cupy.pad(data.astype(np.float64), TAPS // 2)
    expected = sum(float(weights[k]) * wide[k : k + size] for k in range(TAPS))
    del wide
    out = launcher.cupy.empty_like(data)
    parameter = launcher.cupy.asnumpy(weights).view(np.dtype(f"V{4 * TAPS}"))[0]
    for step in CONVOLUTION:
        last = weights if step.name == "naive" else parameter
        contender = launcher.contender(step, size, (data, out, np.uint32(size), last))
        yield Prepared(step, contender, _norm_error(launcher, contender, out, expected), 2 * data.nbytes)


def products(launcher: Launcher, rows: int = ROWS) -> Iterator[Prepared]:
    """C = A B of `rows` x `rows` floats."""
    a, b = launcher.random(2, rows, rows)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    out = launcher.cupy.empty_like(a)
    for step in MATMUL:
        contender = launcher.contender(step, rows, (a, b, out, np.uint32(rows)))
        yield Prepared(step, contender, _norm_error(launcher, contender, out, expected), 2 * rows**3)


def _norm_error(launcher: Launcher, contender: Contender, out: Any, expected: Any) -> Callable[[], float]:
    norm = launcher.cupy.linalg.norm

    def error() -> float:
        outcome = launcher.result(contender, out)
        return float(norm((outcome - expected).ravel()) / norm(expected.ravel()))

    return error


FAMILIES = {"reduction": reductions, "convolution": convolutions, "matmul": products}


def measure(prepared: Sequence[Prepared], rounds: int = ROUNDS) -> dict[str, Any]:
    """Every step's rounds and error, and the copy's rounds in the same turns. Raises if a result is wrong."""
    errors = [entry.error() for entry in prepared]
    for entry, error in zip(prepared, errors, strict=True):
        if not error <= TOLERANCE:
            raise WavesimError(f"{entry.step.kernel}: relative error {error:.1e}; not timed")
    *times, copy = interleaved_ns([*(entry.contender for entry in prepared), copying()], rounds)
    return {
        "copy": {"bytes": 2 * COPIED_BYTES, "rounds_ns": copy},
        "steps": [
            {"name": entry.step.name, "work": entry.work, "relative_error": error, "rounds_ns": outcome}
            for entry, error, outcome in zip(prepared, errors, times, strict=True)
        ],
    }


def document(rounds: int) -> dict[str, Any]:
    """All families, checked and timed."""
    launcher = Launcher()
    return {
        "kernel_sources": source_hash(*(steps[0].source for steps in (REDUCTION, CONVOLUTION, MATMUL))),
        "sizes": {"reduction": ELEMENTS, "convolution": PIXELS, "matmul": ROWS},
        "families": {
            name: measure(list(prepare(launcher)), rounds or ROUNDS) for name, prepare in FAMILIES.items()
        },
    }
