"""Pairs of kernels as a profiler sees them before anything is rewritten, and what tile sync then gives.

Example: `python gpu/examples/advice_pairs.py` on a GPU profiles each pair on one stream with PyTorch's
profiler, then times it in turns on one stream and with a semaphore per tile row. `advice_table.py` asks
`wavesim advise` what it makes of the profiles, and compares; it needs no GPU.
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch
from torch.profiler import ProfilerActivity
from triton_pair import TritonPair

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.driver.operands import random_operands
from wavesim_gpu.runner import CupyRunner, current_commit

RESULTS = Path(__file__).parents[1] / "results" / "advice"
PROFILED, ROUNDS = 20, 40
WARM_UP_S = 0.15  # the clock settles within tens of milliseconds of load
HEAD_START_CYCLES = 40_000_000  # the GPU is held while the host queues ahead
TOLERANCE = 2e-3


class Case(Protocol):
    """A pair that can be launched on one stream, and measured against tile sync."""

    name: str

    def prepare(self) -> Callable[[], None]:
        """What launches the pair on one stream, for the profiler."""

    def hold(self) -> None:
        """Holds the pair's stream while the host queues ahead, where launches are slow."""

    def rounds_ns(self) -> tuple[list[int], list[int]]:
        """Interleaved times on one stream and with row semaphores, after a check of the results."""


@dataclass(frozen=True)
class OwnPair:
    """Two GEMMs on our own kernels: (m, k) (k, n1) (n1, n2) in tiles of `tile`."""

    name: str
    sizes: tuple[int, int, int, int]
    tile: tuple[int, int]

    @property
    def pipeline(self) -> Pipeline:
        """The pair, described."""
        m, k, n1, n2 = self.sizes
        first, second = (
            Stage("first", Gemm("first", m, n1, k, *self.tile)),
            Stage("second", Gemm("second", m, n2, n1, *self.tile)),
        )
        return Pipeline(self.name, [first, second], [Dependency(second[x, y], [first[:, y]])])

    def prepare(self) -> Callable[[], None]:
        runner = CupyRunner()
        program = runner.program(random_operands(self.pipeline), StreamSync())
        return program.enqueue

    def hold(self) -> None:
        """Not needed; beside the pair's own stream, what holds another one would take an SM away."""

    def rounds_ns(self) -> tuple[list[int], list[int]]:
        runner = CupyRunner()
        plans = [StreamSync(), SemaphoreSync(RowSync())]
        stream, row = runner.time(random_operands(self.pipeline), plans, rounds=ROUNDS)
        return list(stream.rounds_ns), list(row.rounds_ns)


@dataclass(frozen=True)
class TritonCase:
    """A Triton product and another, or a GELU."""

    name: str
    pair: TritonPair

    def prepare(self) -> Callable[[], None]:
        operands = self.pair.operands()
        return lambda: self.pair.run_stream(operands)

    def hold(self) -> None:
        torch.cuda._sleep(HEAD_START_CYCLES)  # noqa: SLF001  # what torch's own benchmarks use

    def rounds_ns(self) -> tuple[list[int], list[int]]:
        operands = self.pair.operands()
        streams = [torch.cuda.Stream() for _ in range(2)]
        semaphores = torch.zeros(1 + self.pair.m // self.pair.tile[0], dtype=torch.int32, device="cuda")
        runs = (
            lambda: self.pair.run_stream(operands),
            lambda: self.pair.run_synchronised(operands, streams, semaphores),
        )
        for run in runs:
            self._check(run, operands)
        _warm_up(lambda: [run() for run in runs])
        self.hold()
        marks: list[list[Any]] = [[], []]
        for turn in range(ROUNDS):
            for which in ((0, 1), (1, 0))[turn % 2]:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                runs[which]()
                end.record()
                marks[which].append((start, end))
        torch.cuda.synchronize()
        stream, row = ([round(start.elapsed_time(end) * 1e6) for start, end in own] for own in marks)
        return stream, row

    def _check(self, run: Callable[[], None], operands: tuple[Any, ...]) -> None:
        source, w1, w2, middle, out = operands
        middle.fill_(torch.nan)
        out.fill_(torch.nan)
        run()
        first = (source.float() @ w1.float()).half().float()
        want = (
            torch.nn.functional.gelu(first, approximate="tanh")
            if self.pair.n2 is None
            else first @ w2.float()
        )
        error = float((out.float() - want).norm() / want.norm())
        if not error < TOLERANCE:
            raise ArithmeticError(f"{self.name}: relative error {error}; not timed")


CASES: tuple[Case, ...] = (
    OwnPair("own-128x256-m1024", (1024, 8192, 6144, 8192), (128, 256)),
    OwnPair("own-128x256-m1408", (1408, 6144, 4096, 6144), (128, 256)),
    OwnPair("own-128x256-gpt3-m1536", (1536, 12288, 6144, 12288), (128, 256)),
    OwnPair("own-256x128-m768", (768, 8192, 8192, 6144), (256, 128)),
    OwnPair("own-128x128-m2048", (2048, 4096, 8192, 4096), (128, 128)),
    TritonCase("triton-gemm-m1024", TritonPair(1024, 8192, 6144, 8192)),
    TritonCase("triton-gemm-m1536", TritonPair(1536, 8192, 4096, 6144)),
    TritonCase("triton-gemm-m2048", TritonPair(2048, 4096, 4096, 8192)),
    TritonCase("triton-gemm-m2560", TritonPair(2560, 4096, 5120, 6144)),
    TritonCase("triton-gelu-m8192", TritonPair(8192, 1024, 12288, None)),
    TritonCase("triton-gelu-m4096", TritonPair(4096, 2048, 6144, None)),
    TritonCase("triton-gelu-m1536", TritonPair(1536, 4096, 4096, None)),
)


def _warm_up(run: Callable[[], Any]) -> None:
    began = time.monotonic()
    while time.monotonic() - began < WARM_UP_S:
        run()
        torch.cuda.synchronize()


def write_profile(case: Case, path: Path) -> None:
    """PyTorch's profile of the pair, launched again and again on one stream."""
    run = case.prepare()
    _warm_up(run)
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=both, acc_events=True) as profiler:
        case.hold()
        for _ in range(PROFILED):
            run()
        torch.cuda.synchronize()
    plain = path.with_suffix("")
    profiler.export_chrome_trace(str(plain))
    found = json.loads(plain.read_text()) | {"traceName": plain.name}  # and not where it was written
    path.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
    plain.unlink()


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """The profile first, then the times, so that nothing that was rewritten can be in the profile."""
    write_profile(case, folder / f"{case.name}.json.gz")
    stream, row = case.rounds_ns()
    print(f"{case.name}: stream {median(stream) / 1000:.1f} us, row {median(row) / 1000:.1f} us", flush=True)  # noqa: T201
    return {"name": case.name, "stream_ns": stream, "row_ns": row}


def main() -> int:
    """Measures every case and writes `measured.json` beside the profiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for profiles and times")
    parser.add_argument("--commit", help="commit of the kernels, where git cannot tell")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {
        "device": query().name,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": options.commit or current_commit(),
        "versions": versions() | {"torch": torch.__version__},
        "cases": [measure(case, options.out) for case in CASES],
    }
    (options.out / "measured.json").write_text(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
