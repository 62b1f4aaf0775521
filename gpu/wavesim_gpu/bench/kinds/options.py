"""What the options save, as in the paper's Table V, and all listed plans at many sizes, for tuning's regret.

Example: at M = 64, 128 and 256 the same kernels under tile semaphores run in turns: as they come ("vanilla"),
with B loaded before the wait (+R), without the wait-kernel too (+WR), and with tiles taken from blockIdx in
place of a counter (+WRT).
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.codegen.options import (
    AVOID_CUSTOM_ORDER,
    REORDER_LOADS,
    Option,
    kernel_options,
    without_option,
)
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.writing import write_text
from wavesim.safety.deadlock import safety_of
from wavesim.tuning.candidates import listed_plans
from wavesim.workloads.gpt3 import gpt3_mlp
from wavesim_gpu.bench.checked_candidates import NONE, sharing_entry, time_and_judge
from wavesim_gpu.bench.result_rows import RESULTS, describe_case
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.run.planned_kernels import compile_ahead
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner

OPTION_TOKENS = (64, 128, 256)
TUNED_TOKENS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096)
TILE = (128, 256)


@dataclass(frozen=True)
class OptionConfig:
    """A plan and the options its kernels are compiled with, None for all that hold."""

    plan: Plan
    options: tuple[Option, ...] | None = None


def measure_options(out: Path | None, commit: str | None, rounds: int = 40) -> Path:
    """Times the options at every size; one JSON file in `out`, by default gpu/results/options."""
    runner = CupyRunner(commit=commit)
    cases: list[dict[str, Any]] = []
    for tokens in OPTION_TOKENS:
        pipeline = gpt3_mlp(tokens, TILE)
        cases += _timed(runner, pipeline, tokens, option_variants(pipeline), rounds)
    return _written(runner, cases, out or RESULTS / "options")


def measure_listed(out: Path | None, commit: str | None, rounds: int = 20) -> Path:
    """Times all listed plans at every size; one JSON file in `out`, by default gpu/results/tuned."""
    runner = CupyRunner(commit=commit)
    cases: list[dict[str, Any]] = []
    for tokens in TUNED_TOKENS:
        pipeline = gpt3_mlp(tokens, TILE)
        plans = listed_plans(pipeline)
        compile_ahead(pipeline, plans.values(), (Build(),), runner.backend)
        variants = {name: OptionConfig(plan) for name, plan in plans.items()}
        cases += _timed(runner, pipeline, tokens, variants, rounds)
    return _written(runner, cases, out or RESULTS / "tuned")


def option_variants(pipeline: Pipeline) -> dict[str, OptionConfig]:
    """Stream sync, and row-major tile semaphores with more and more options, as far as they are safe."""
    plan, without = SemaphoreSync(TileSync()), SemaphoreSync(TileSync(), wait_kernel=False)
    last = without if safety_of(pipeline, without, query()).is_safe else plan
    options = kernel_options(pipeline, plan)
    no_t = without_option(options, AVOID_CUSTOM_ORDER)
    no_rt = without_option(no_t, REORDER_LOADS)
    return {
        "stream": OptionConfig(StreamSync()),
        "vanilla": OptionConfig(plan, no_rt),
        "+R": OptionConfig(plan, no_t),
        "+WR": OptionConfig(last, no_t),
        "+WRT": OptionConfig(last, options),
    }


def _timed(
    runner: CupyRunner, pipeline: Pipeline, tokens: int, variants: Mapping[str, OptionConfig], rounds: int
) -> list[dict[str, Any]]:
    operands = runner.operands(pipeline, seed=tokens)
    expected = reference(operands)
    programs = {
        name: runner.program(operands, variant.plan, options=variant.options)
        for name, variant in variants.items()
    }
    entries = {
        name: sharing_entry(runner, program, runner.contender(program), expected)
        for name, program in programs.items()
    }
    times, verdicts, sampler = time_and_judge(entries, rounds)
    tags = {"workload": "gpt3-mlp", "tokens": tokens, "tile": f"{TILE[0]}x{TILE[1]}"}
    print(f"M={tokens}: {len(variants)} plans", file=sys.stderr, flush=True)  # noqa: T201  # progress
    return [
        describe_case(
            name,
            {**tags, "has_wait_kernel": _has_wait_kernel(variant.plan)},
            times.get(name, NONE),
            verdicts[name],
            sampler,
        )
        for name, variant in variants.items()
    ]


def _has_wait_kernel(plan: Plan) -> bool:
    return plan.launch.wait_kernel


def _written(runner: CupyRunner, cases: Iterable[dict[str, Any]], out: Path) -> Path:
    date = datetime.now(UTC)
    result = {
        "date": date.isoformat(timespec="seconds"),
        "device": query().name,
        "versions": versions(),
        "commit": runner.commit,
        "kernel_sources": source_hash(backend_named(runner.backend).source),
        "cases": list(cases),
    }
    return write_text(out / f"{date:%Y-%m-%dT%H%M%SZ}.json", json.dumps(result, indent=1))
