"""The GPU's benchmarks: plans against each other, our GEMM against cuBLAS, recording against none.

Picture: for each size all plans, and cuBLAS's own pair of products, run in turns for 20 rounds or more; every
round goes into one JSON file, with the device, clocks, power, versions, commit, hash of the kernel
sources and, beside every time, whether the result was right.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.model.plan import StreamSync, parse_plan
from wavesim.workloads.gpt3 import FEED_FORWARD, HIDDEN, gpt3_mlp
from wavesim_gpu.clocks import Sampler
from wavesim_gpu.compiler import Build, source_hash
from wavesim_gpu.device import query, require_cupy, versions
from wavesim_gpu.operands import Operands, reference
from wavesim_gpu.runner import CupyRunner, Verdict
from wavesim_gpu.timing import Contender, interleaved_ns

RESULTS = Path(__file__).parents[1] / "results"
PLANS = ("stream", "row", "tile")


@dataclass(frozen=True)
class Scope:
    """Which sizes, tiles and orders are measured, and for how many rounds."""

    tokens: tuple[int, ...] = (256, 512, 768, 1024, 1536, 2048, 3072)
    tiles: tuple[tuple[int, int], ...] = ((128, 256), (256, 128), (128, 128))
    orders: tuple[str, ...] = ("row", "grouped:4", "grouped:8")
    rounds: int = 25


QUICK = Scope(tokens=(1024, 1536), tiles=((128, 256), (128, 128)), orders=("row", "grouped:4"), rounds=20)


def run_bench(scope: Scope, out: Path = RESULTS, commit: str | None = None) -> Path:
    """Measures all of it and writes one JSON file into `out`. Returns its path."""
    runner = CupyRunner(commit=commit)
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": versions(),
        "commit": runner.commit,
        "kernel_sources": source_hash(runner.family.source),
        "cases": [],
    }
    steps: list[Callable[[], list[dict[str, Any]]]] = [
        *(
            lambda m=m, tile=tile: mlp_cases(runner, m, tile, scope)
            for tile in scope.tiles
            for m in scope.tokens
        ),
        *(lambda m=m: gemm_cases(runner, m, scope) for m in scope.tokens),
        *(lambda tile=tile: recording_cases(runner, tile, scope) for tile in scope.tiles),
    ]
    for step in steps:
        result["cases"] += step()
        print(result["cases"][-1]["name"], file=sys.stderr, flush=True)  # noqa: T201  # progress
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{result['date'].replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(result, indent=1))
    return path


def mlp_cases(runner: CupyRunner, tokens: int, tile: tuple[int, int], scope: Scope) -> list[dict[str, Any]]:
    """GPT-3's MLP: every order and plan, and cuBLAS's two products (no GeLU), in turns."""
    operands = runner.operands(gpt3_mlp(tokens, tile), seed=tokens)
    expected = reference(operands)
    plans = {f"{order} {plan}": parse_plan(plan, order) for order in scope.orders for plan in PLANS}
    programs = {label: runner.program(operands, plan) for label, plan in plans.items()}
    launches = {label: runner.launcher(program) for label, program in programs.items()}
    verdicts = {label: runner.verdict(programs[label], launches[label], expected) for label in plans}
    contenders = {label: Contender(launches[label], programs[label].streams[0]) for label in plans}
    contenders["cublas"] = _cublas(operands)
    times, sampler = time_contenders(contenders, scope.rounds)
    tags = {"workload": "gpt3-mlp", "tokens": tokens, "tile": f"{tile[0]}x{tile[1]}"}
    return [
        describe_case(f"{label}", tags, times[label], verdicts.get(label), sampler) for label in contenders
    ]


def gemm_cases(runner: CupyRunner, tokens: int, scope: Scope) -> list[dict[str, Any]]:
    """The MLP's first product alone, in every tile, and cuBLAS's."""
    contenders, verdicts = {}, {}
    kept: list[Any] = []
    for tile in scope.tiles:
        work = Gemm("gemm1", tokens, FEED_FORWARD, HIDDEN, *tile)
        operands = runner.operands(Pipeline("gemm", [Stage("gemm1", work)]), seed=tokens)
        program = runner.program(operands, StreamSync(parse_plan("stream", "grouped:8").order))
        launch, label = runner.launcher(program), f"{tile[0]}x{tile[1]}"
        verdicts[label] = runner.verdict(program, launch, reference(operands))
        contenders[label] = Contender(launch, program.streams[0])
        kept += [program, operands]
    contenders["cublas"] = _cublas(kept[-1])
    times, sampler = time_contenders(contenders, scope.rounds)
    tags = {"workload": "gemm", "tokens": tokens, "flops": 2 * tokens * FEED_FORWARD * HIDDEN}
    return [describe_case(label, tags, times[label], verdicts.get(label), sampler) for label in contenders]


def recording_cases(runner: CupyRunner, tile: tuple[int, int], scope: Scope) -> list[dict[str, Any]]:
    """What recording costs: the same plan built with it and without, in turns."""
    operands = runner.operands(gpt3_mlp(1024, tile), seed=1)
    expected = reference(operands)
    plan = parse_plan("row", "grouped:4")
    programs = {
        name: runner.program(operands, plan, Build(is_recording=name == "recorded"))
        for name in ("timed", "recorded")
    }
    launches = {name: runner.launcher(program) for name, program in programs.items()}
    verdicts = {name: runner.verdict(programs[name], launches[name], expected) for name in programs}
    times, sampler = time_contenders(
        {n: Contender(launches[n], programs[n].streams[0]) for n in programs}, 2 * scope.rounds
    )
    tags = {"workload": "recording", "tokens": 1024, "tile": f"{tile[0]}x{tile[1]}"}
    return [describe_case(name, tags, times[name], verdicts[name], sampler) for name in programs]


def _cublas(operands: Operands) -> Contender:
    """CuBLAS's products of the same operands, one after the other, without activation."""
    cupy = require_cupy()
    stream = cupy.cuda.Stream(non_blocking=True)
    outputs = {name: cupy.empty_like(array) for name, array in operands.c.items()}
    cupy.cuda.Device().synchronize()

    def launch() -> None:
        with stream:
            for stage in operands.pipeline.stages:
                dependency = operands.pipeline.dependency_of(stage.name)
                a = operands.a[stage.name] if dependency is None else outputs[dependency.producers[0]]
                cupy.matmul(a, operands.b[stage.name], out=outputs[stage.name])

    return Contender(launch, stream)


def time_contenders(contenders: Mapping[str, Contender], rounds: int) -> tuple[dict[str, list[int]], Sampler]:
    """Rounds of all contenders in turns, by name, and the clock and power while they ran."""
    with Sampler() as sampler:
        times = interleaved_ns(list(contenders.values()), rounds)
    return dict(zip(contenders, times, strict=True)), sampler


def describe_case(
    name: str, tags: Mapping[str, Any], rounds_ns: list[int], verdict: Verdict | None, sampler: Sampler
) -> dict[str, Any]:
    """One row of the results. cuBLAS has no verdict: it is the yardstick, not under test."""
    judged = None if verdict is None else {**asdict(verdict), "is_good": verdict.is_good}
    return {"name": name, **tags, "rounds_ns": rounds_ns, "verdict": judged, **asdict(sampler.reading)}
