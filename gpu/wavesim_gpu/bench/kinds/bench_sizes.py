"""The GPU's benchmarks, one JSON file: limits, copies, products, pairs of products, and what recording costs.

Example: for every size the products first, which say the best tiles; then the pair in every kind of plan and
as cuBLASLt and PyTorch run it. The file is written after each step, so that an interrupt keeps what is done.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from wavesim.plan.order import Order, parse_order
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.contenders import (
    NONE,
    RESULTS,
    CheckedCandidate,
    describe_case,
    library_entry,
    time_and_judge,
)
from wavesim_gpu.bench.kinds.pairs import PairStudy
from wavesim_gpu.bench.kinds.products import KernelConfig, product_cases
from wavesim_gpu.bench.kinds.recordings import ready_cases, recording_cases
from wavesim_gpu.bench.kinds.variants import (
    CandidateKernels,
    TileConfig,
    Workload,
    entrant_for,
    generated,
    products_of,
    under_all,
    variants_of,
)
from wavesim_gpu.bench.labs.copies import copy_cases
from wavesim_gpu.bench.labs.primitives import primitive_cases
from wavesim_gpu.bench.libraries.cublaslt import LtChain
from wavesim_gpu.bench.libraries.limits import CUBE, CopyPass, cube_pipeline, matmul_flops
from wavesim_gpu.bench.timed_sources import timed_hash
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.run.operands import random_operands
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, OutputCheck
from wavesim_gpu.run.timing import Contender

SMALL = (1, 16, 64, 128)  # token generation: the time of reading the weights
PROMPT = tuple(range(256, 4097, 256))
LARGE_ORDERS, SMALL_ORDERS = ("grouped:4", "grouped:8"), ("column",)
CUTS_PER_STAGE, CUTS_OF_SMALL = 2, 3  # a small product alone is partly in the L2, a pair is not: more
SHORT_REPEATS = 5  # in one graph: a batch this small takes a hundred microseconds, events and a start several
COMMON_CUTS = (
    TileConfig(128, 256),
    TileConfig(256, 128),
    TileConfig(128, 192),
)  # for both stages, whatever suits each alone


@dataclass(frozen=True)
class Scope:
    """Which sizes are measured, for how many rounds, under which policies; at `thorough` ones under all."""

    tokens: Mapping[Workload, tuple[int, ...]] = field(
        default_factory=lambda: {"gpt3-mlp": SMALL + PROMPT, "llama-mlp": SMALL + PROMPT[1::2]}
    )
    policies: tuple[str, ...] = ("row", "tile", "block:2x1", "block:4x1", "block:8x1")
    thorough: tuple[tuple[Workload, int], ...] = (("gpt3-mlp", 1024),)
    rounds: int = 20
    copy_rounds: int = 200


QUICK = Scope(
    tokens={"gpt3-mlp": (128, 1024, 1536), "llama-mlp": (1024,)}, policies=("row", "tile"), thorough=()
)


def run_bench(scope: Scope, out: Path = RESULTS, commit: str | None = None) -> Path:
    """Measures all of it on the current GPU and writes one JSON file into `out`. Returns its path."""
    entrant = entrant_for(query())
    runner = CupyRunner(commit=commit, backend=entrant.backend)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    result: dict[str, Any] = {
        "date": date,
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": versions(),
        "commit": runner.commit,
        "kernels": entrant.kernels,
        "kernel_sources": timed_hash(entrant.kernels),
        "is_judged_after": True,
        "cases": [],
    }
    path = out / f"{date.replace(':', '').replace('+0000', 'Z')}.json"
    for label, step in _steps(runner, entrant, scope):
        began = time.monotonic()
        result["cases"] += step()
        write_text(path, json.dumps(result, separators=(",", ":")))
        took_s = time.monotonic() - began
        print(f"{label}: {took_s:.1f} s", file=sys.stderr, flush=True)  # noqa: T201  # progress
    return path


Step = Callable[[], list[dict[str, Any]]]


def _steps(runner: CupyRunner, entrant: CandidateKernels, scope: Scope) -> Iterator[tuple[str, Step]]:
    yield "limits", lambda: ceiling_cases(scope.rounds)
    yield "copy pairs", lambda: copy_cases(rounds=scope.copy_rounds)
    yield f"{CUBE} cubed", lambda: cube_cases(runner, entrant, scope.rounds)
    for workload, sizes in scope.tokens.items():
        if entrant.can_compute(products_of(workload, sizes[0]).values()):
            for tokens in sizes:
                yield (
                    f"{workload} {tokens}",
                    lambda w=workload, t=tokens: size_cases(runner, entrant, w, t, scope),
                )
    yield "primitives", primitive_cases
    wide, rounds = COMMON_CUTS[0], 3 * scope.rounds
    yield "recording", lambda: recording_cases(runner, entrant.kernels, wide, entrant.tile_k, rounds)
    yield (
        "semaphores that are there",
        lambda: ready_cases(runner, entrant.kernels, wide, entrant.tile_k, rounds),
    )


def ceiling_cases(rounds: int) -> list[dict[str, Any]]:
    """The limits: matmul rate and copy bandwidth."""
    copy, operands = CopyPass(), random_operands(cube_pipeline())
    entries = {
        "matmul": library_entry(LtChain(operands), operands, reference(operands)),
        "copy": _copy_entry(copy),
    }
    outcome, verdicts, sampler = time_and_judge(entries, rounds)
    amounts = {"matmul": {"flops": matmul_flops()}, "copy": {"bytes": 2 * copy.size}}
    return [
        describe_case(
            name, {"workload": "limit", **amounts[name]}, outcome.get(name, NONE), verdicts[name], sampler
        )
        for name in entries
    ]


def _copy_entry(copy: CopyPass) -> CheckedCandidate:
    def judge() -> OutputCheck:
        is_right = copy.is_copied()
        return OutputCheck({"copy": 0.0 if is_right else 1.0}, is_right, has_right_semaphores=True)

    copy.launch()
    return CheckedCandidate(Contender(copy.launch, copy.stream), judge(), copy.spoil, judge)


def cube_cases(runner: CupyRunner, entrant: CandidateKernels, rounds: int) -> list[dict[str, Any]]:
    """Our GEMM against cuBLASLt at the size that everyone quotes."""
    gemm = cube_pipeline().stages[0].gemm
    return product_cases(runner, entrant, gemm, _orders(CUBE), rounds, {"workload": "cube"})[0]


def size_cases(
    runner: CupyRunner,
    entrant: CandidateKernels,
    workload: Workload,
    tokens: int,
    scope: Scope,
) -> list[dict[str, Any]]:
    """Both products alone, then the pair."""
    is_short = tokens <= max(SMALL)
    cases: list[dict[str, Any]] = []
    cuts: list[list[TileConfig]] = []
    of_stream_k: list[TileConfig] = []
    for stage, gemm in products_of(workload, tokens).items():
        tags = {"workload": "product", "of": workload, "stage": stage, "tokens": tokens}
        own, ranked = product_cases(runner, entrant, gemm, _orders(tokens), scope.rounds, tags)
        cases += own
        by_tile = {way: ns for way, ns in ranked.items() if way.schedule == entrant.schedules[0]}
        cuts.append(_best_cuts(by_tile, CUTS_OF_SMALL if is_short else CUTS_PER_STAGE))
        of_stream_k += _best_cuts((way for way in ranked if way.plan.schedule.is_split_persistent), 1)
    repeats = SHORT_REPEATS if is_short else 1
    study = PairStudy(runner, workload, tokens, entrant.tile_k, cuts[0][0], repeats)
    pairs = dict.fromkeys([*product(*cuts), *([] if is_short else ((cut, cut) for cut in COMMON_CUTS))])
    variants = variants_of(entrant.kinds, pairs, _orders(tokens))
    if of_stream_k:
        first, second = of_stream_k
        unsplit = [kind for kind in entrant.kinds if kind.is_unsplit]
        variants = list(dict.fromkeys([*variants, *variants_of(unsplit, [(first, second)], _orders(tokens))]))
    study.screen_in_turn(variants)
    best = study.best(has_semaphores=True)
    if best is not None:
        is_thorough = (workload, tokens) in scope.thorough
        study.screen(under_all([best], generated(study.pipeline(best)) if is_thorough else scope.policies))
    return cases + study.finish(scope.rounds)


def _best_cuts(ranked: Iterable[KernelConfig], count: int) -> list[TileConfig]:
    """The fastest few, each once."""
    return list(dict.fromkeys(way.cut for way in ranked))[:count]


def _orders(tokens: int) -> list[Order]:
    return [parse_order(name) for name in (LARGE_ORDERS if tokens > max(SMALL) else SMALL_ORDERS)]
