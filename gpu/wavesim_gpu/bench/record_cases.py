"""Makes the recordings that the project ships: MLPs, one trace file per size, tile, order and plan.

Example: for 1024 tokens and 128x256 tiles, six plans (two orders x stream, row, tile) are timed in turns and
each is recorded once; six files come out, such as gpt3-mlp_128x256_m1024_grouped8_row.npz.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wavesim.bench.stored_kernels import kernels_named
from wavesim.plan.plan import Plan
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import workload
from wavesim_gpu.run.runner import CupyRunner

PLANS = ("stream", "row", "tile")


@dataclass(frozen=True)
class RecordingSet:
    """What to record: a workload on the kernels stored under a name."""

    workload: str = "gpt3-mlp"
    kernels: str = "portable"
    tokens: Sequence[int] = tuple(range(256, 3073, 256))
    tiles: Sequence[tuple[int, int]] = ((128, 256), (128, 128))
    orders: Sequence[str] = ("row", "grouped:4", "grouped:8")
    plans: Sequence[str] = PLANS
    rounds: int = 25


PORTABLE_SETS = (RecordingSet(),)
_HOPPER = RecordingSet(
    "gpt3-mlp-hopper",
    "hopper-per-tile",
    (*range(256, 4097, 256), 384, 640, 1152, 1664, 2240, 3200),
    ((128, 256), (192, 192)),
    ("row", "grouped:4"),
    rounds=20,
)
HOPPER_SETS = (
    _HOPPER,
    replace(_HOPPER, workload="llama-mlp-hopper", tokens=tuple(range(512, 4097, 512)), tiles=((128, 256),)),
)


def make_recordings(out: Path, wanted: RecordingSet, commit: str | None = None) -> list[Path]:
    """Measures everything and writes one file per trace into `out`. Returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    stored = kernels_named(wanted.kernels)
    runner = CupyRunner(commit=commit, backend=stored.backend)
    paths = []
    for tile in wanted.tiles:
        for tokens in wanted.tokens:
            pipeline = workload(wanted.workload, tokens, tile)
            plans = [stored.plan_of(plan, order) for order in wanted.orders for plan in wanted.plans]
            traces = runner.measure(pipeline, plans, rounds=wanted.rounds, seed=tokens)
            paths += [
                trace.save(out / file_name(trace, tile, tokens, plan))
                for trace, plan in zip(traces, plans, strict=True)
            ]
            print(_line(tile, tokens, traces, wanted), file=sys.stderr, flush=True)  # noqa: T201  # progress
    return paths


def file_name(trace: Trace, tile: tuple[int, int], tokens: int, plan: Plan) -> str:
    """Such as gpt3-mlp_128x256_m1024_grouped8_row.npz."""
    order = plan.order.name.replace(":", "")
    return f"{trace.header.workload}_{tile[0]}x{tile[1]}_m{tokens}_{order}_{plan.name}.npz"


def _line(tile: tuple[int, int], tokens: int, traces: list[Trace], wanted: RecordingSet) -> str:
    """Median microseconds per order and plan, for whoever watches."""
    times = iter(trace.time_ns / 1000 for trace in traces)
    parts = [f"{order} " + " ".join(f"{next(times):.0f}" for _ in wanted.plans) for order in wanted.orders]
    return f"{tile[0]}x{tile[1]} m={tokens}: {'; '.join(parts)} us ({', '.join(wanted.plans)})"
