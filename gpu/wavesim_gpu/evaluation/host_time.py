"""What a call costs the host: microseconds from the call to its return, with room in the stream's queue.

Example: `python -m wavesim_gpu.evaluation.host_time` prints a table: `PlannedMlp.run` alone under each plan,
with parameters ready and with parameters to be made, cuBLASLt's way, then all of `mlp` on CuPy's arrays and,
where PyTorch is installed, on its tensors beside PyTorch's own operations.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from wavesim.errors import WavesimError
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.program import run_program
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.description import MlpCall, MlpShape, Way
from wavesim_gpu.layers.library import LibraryMlp
from wavesim_gpu.layers.mlp import mlp
from wavesim_gpu.layers.planned import PlannedMlp

SHAPE = MlpShape(16, 256, 256, 256, "fp16", "gelu")  # the GPU is done before the next call comes
BURST = 50  # calls, fewer than a stream's queue holds, between two waits for the GPU
LIMIT_NS = 30_000_000_000
PLANS = ("stream", "pdl+boundary", "pdl+row", "persistent+pdl+row", "persistent:row")
MOST_ROUNDS = 100_000
Row = tuple[str, Callable[[], Any]]
_kept: list[Any] = []  # arrays whose addresses the calls have


def microseconds(call: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median and 90th percentile over rounds of a call's time in a burst."""
    device = require_cupy().cuda.Device()
    times = []
    for _ in range(BURST):
        call()
    for _ in range(rounds):
        device.synchronize()
        began = time.perf_counter_ns()
        for _ in range(BURST):
            call()
        times.append((time.perf_counter_ns() - began) / BURST / 1000)
    device.synchronize()
    return statistics.median(times), statistics.quantiles(times, n=10)[-1]


def ways() -> Iterator[tuple[str, Way]]:
    """Each by its label, on the kernels of the current GPU that it has."""
    for word in PLANS:
        try:
            candidate = MlpCandidate.read(f"hopper {word} row 64x128 64x128")
            yield f"{word}, run() alone", PlannedMlp(SHAPE, *candidate.planned(SHAPE))
        except WavesimError as error:
            print(f"{word}: {error}")  # noqa: T201  # a row that is missing says why
    portable = MlpCandidate.read("portable stream row 64x64 64x64")
    yield "stream on the portable kernels, run() alone", PlannedMlp(SHAPE, *portable.planned(SHAPE))
    yield "cuBLASLt, run() alone", LibraryMlp(SHAPE)


def way_rows() -> Iterator[Row]:
    """`run` of each way with one set of addresses."""
    cupy = require_cupy()
    m, k, n1, n2 = SHAPE.m, SHAPE.k, SHAPE.n1, SHAPE.n2
    x, w1, w2, out = (cupy.zeros(size, "float16") for size in ((m, k), (k, n1), (n1, n2), (m, n2)))
    for label, way in ways():
        scratch = cupy.zeros(max(1, way.scratch_bytes), "uint8")
        addresses = (x.data.ptr, k, w1.data.ptr, n1, w2.data.ptr, n2, out.data.ptr, scratch.data.ptr)
        stream, device = cupy.cuda.get_current_stream().ptr, cupy.cuda.Device().id
        call = MlpCall(*addresses, stream, device, is_captured=False, limit_ns=LIMIT_NS)
        _kept.append((x, w1, w2, out, scratch))
        yield label, partial(way.run, call)
        if isinstance(way, PlannedMlp):
            yield f"{label}, new addresses", partial(_run_anew, way, call)


def _run_anew(way: PlannedMlp, call: MlpCall) -> None:
    way.forget_addresses()
    way.run(call)


def mlp_rows() -> Iterator[Row]:
    """All of `mlp`, whatever way it chooses."""
    cupy = require_cupy()
    sizes = ((SHAPE.m, SHAPE.k), (SHAPE.k, SHAPE.n1), (SHAPE.n1, SHAPE.n2))
    arrays = [cupy.zeros(size, "float16") for size in sizes]
    yield "mlp on CuPy's arrays", lambda: mlp(*arrays, activation="gelu")
    try:
        import torch  # noqa: PLC0415  # optional
    except ImportError:
        return
    x, w1, w2 = (torch.zeros(size, dtype=torch.float16, device="cuda") for size in sizes)
    gelu = torch.nn.functional.gelu
    yield "mlp on PyTorch's tensors", lambda: mlp(x, w1, w2, activation="gelu")
    yield "PyTorch: gelu(x @ w1) @ w2", lambda: gelu(x @ w1, approximate="tanh") @ w2


def main() -> int:
    """Prints the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", default=200, help=f"of {BURST} calls (200)")
    rounds = whole("--rounds", parser.parse_args().rounds, 2, MOST_ROUNDS)
    print("| call | median us | 90 % within us |\n| --- | ---: | ---: |")  # noqa: T201  # what it is for
    gc.disable()
    for label, call in (*way_rows(), *mlp_rows()):
        middle, most = microseconds(call, rounds)
        print(f"| {label} | {middle:.2f} | {most:.2f} |", flush=True)  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    raise SystemExit(run_program("python -m wavesim_gpu.evaluation.host_time", main))
