"""What the options save, as in the paper's Table V, and all listed plans at many sizes, for tuning's regret.

Picture: at M = 64, 128 and 256 the same kernels under tile semaphores run in turns: with reordered loads (+R,
which our kernels always have), without the wait-kernel too (+WR), and with tiles taken from blockIdx in
place of a counter (+WRT). A kernel without R is not built.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.analysis.safety import safety_of
from wavesim.gen.plan_list import listed_plans
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync, StreamSync
from wavesim.model.policy import TileSync
from wavesim.workloads.gpt3 import gpt3_mlp
from wavesim_gpu.bench import RESULTS, describe_case, time_contenders
from wavesim_gpu.compiler import source_hash
from wavesim_gpu.device import query, versions
from wavesim_gpu.operands import reference
from wavesim_gpu.program import Program
from wavesim_gpu.runner import CupyRunner
from wavesim_gpu.timing import Contender

OPTION_TOKENS = (64, 128, 256)
TUNED_TOKENS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096)
TILE = (128, 256)


def measure_options(out: Path | None, commit: str | None, rounds: int = 40) -> Path:
    """Times the options at every size; one JSON file in `out`, by default gpu/results/options."""
    runner = CupyRunner(commit=commit)
    cases: list[dict[str, Any]] = []
    for tokens in OPTION_TOKENS:
        pipeline = gpt3_mlp(tokens, TILE)
        cases += _timed_plans(runner, pipeline, tokens, option_plans(pipeline), rounds)
    return _written(runner, cases, out or RESULTS / "options")


def measure_listed(out: Path | None, commit: str | None, rounds: int = 20) -> Path:
    """Times all listed plans at every size; one JSON file in `out`, by default gpu/results/tuned."""
    runner = CupyRunner(commit=commit)
    cases: list[dict[str, Any]] = []
    for tokens in TUNED_TOKENS:
        pipeline = gpt3_mlp(tokens, TILE)
        cases += _timed_plans(runner, pipeline, tokens, listed_plans(pipeline), rounds)
    return _written(runner, cases, out or RESULTS / "tuned")


def option_plans(pipeline: Pipeline) -> dict[str, Plan]:
    """Stream sync, and tile semaphores with the options that are safe on this GPU."""
    plan, without = SemaphoreSync(TileSync()), SemaphoreSync(TileSync(), wait_kernel=False)
    plans: dict[str, Plan] = {"stream": StreamSync(), "+R": plan}
    if safety_of(pipeline, without, query()).is_safe:
        plans |= {"+WR": without, "+WRT": without}
    return plans


def draw_no_tiles(program: Program) -> None:
    """Option T: blocks take their tile from blockIdx. Only without wait-kernels, which watch the counter."""
    assert not getattr(program.plan, "wait_kernel", True), "the wait-kernel would wait for ever"
    for launch in program.launches:
        launch.arguments[0]["tile_counter"] = 0
        launch.arguments[0]["order"] = 0


def _timed_plans(
    runner: CupyRunner, pipeline: Pipeline, tokens: int, plans: Mapping[str, Plan], rounds: int
) -> list[dict[str, Any]]:
    operands = runner.operands(pipeline, seed=tokens)
    expected = reference(operands)
    programs = {name: runner.program(operands, plan) for name, plan in plans.items()}
    for name in plans.keys() & {"+WRT"}:
        draw_no_tiles(programs[name])
    launches = {name: runner.launcher(program) for name, program in programs.items()}
    verdicts = {name: runner.verdict(programs[name], launches[name], expected) for name in plans}
    contenders = {name: Contender(launches[name], programs[name].streams[0]) for name in plans}
    times, sampler = time_contenders(contenders, rounds)
    for program in programs.values():
        program.sync.check()
    tags = {"workload": "gpt3-mlp", "tokens": tokens, "tile": f"{TILE[0]}x{TILE[1]}"}
    print(f"M={tokens}: {len(plans)} plans", file=sys.stderr, flush=True)  # noqa: T201  # progress
    return [describe_case(name, tags, times[name], verdicts[name], sampler) for name in plans]


def _written(runner: CupyRunner, cases: Iterable[dict[str, Any]], out: Path) -> Path:
    date = datetime.now(UTC)
    result = {
        "date": date.isoformat(timespec="seconds"),
        "device": query().name,
        "versions": versions(),
        "commit": runner.commit,
        "kernel_sources": source_hash(),
        "cases": list(cases),
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{date:%Y-%m-%dT%H%M%SZ}.json"
    path.write_text(json.dumps(result, indent=1))
    return path
