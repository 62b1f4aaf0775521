"""One product at a time: every cut of our kernels against cuBLASLt.

Example: GPT-3's first product at 1,024 tokens in eight cuts; the fastest is measured again over more rounds,
beside cuBLASLt's fastest algorithm, so that neither is chosen by luck.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from wavesim.bench.stored_kernels import stored_names
from wavesim.plan.order import Order
from wavesim.plan.parsing import SCHEDULES
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.bench.contenders import (
    NONE,
    SCREENING_ROUNDS,
    SCREENING_WARM_UP_S,
    SHORTLIST_ROUNDS,
    CheckedCandidate,
    describe_case,
    library_entry,
    program_entry,
    time_and_judge,
)
from wavesim_gpu.bench.kinds.variants import CandidateKernels, TileConfig, single
from wavesim_gpu.bench.libraries.cublaslt import LtChain
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.run.operands import Operands, bind
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, OutputCheck, WrongResultError
from wavesim_gpu.run.timing import Contender, Rounds

MAX_SPLIT, MIN_CHUNKS = 12, 4  # splits of K, and k-blocks in each of them
FULL = 0.9  # of the last wave, in blocks
SHORTLIST = 6  # ways that are screened again


@dataclass(frozen=True)
class KernelConfig:
    """A backend's kernel under which schedule, in which cut and tile order."""

    backend: str
    schedule: str
    cut: TileConfig
    order: Order

    @property
    def plan(self) -> Plan:
        """The plan of a product alone."""
        return Plan(SCHEDULES[self.schedule](""), order=self.order)

    def __str__(self) -> str:
        return f"{stored_names(self.backend, self.plan)[0]} {self.cut} {self.order.name}"


def ways_of(
    entrant: CandidateKernels, gemm: Gemm, orders: Iterable[Order], sm_count: int
) -> list[KernelConfig]:
    """Every cut that the kernels have, in every order; K is split only where blocks are few.

    And by Stream-K, which splits K itself, every tile shape.
    """
    orders, result = list(orders), []
    for tile_m, tile_n in entrant.tiles:
        if tile_m >= 2 * max(gemm.m, 64):
            continue  # more than half of every tile would lie outside
        tiles = TileConfig(tile_m, tile_n).applied(gemm, entrant.tile_k).grid.tiles
        for split in splits_of(tiles, gemm.k // entrant.tile_k, sm_count):
            cut = TileConfig(tile_m, tile_n, split)
            if entrant.suits(gemm, cut):
                # What splits K itself takes no split.
                schedules = entrant.schedules if split == 1 else entrant.schedules[:1]
                result += [
                    KernelConfig(entrant.backend, schedule, cut, order)
                    for schedule in schedules
                    for order in orders
                ]
    return result


def splits_of(tiles: int, chunks: int, sm_count: int) -> list[int]:
    """Into how many slices K is worth cutting: one; the most whose blocks fit at once; and, of at most two
    waves of blocks, those that are nearly full.
    """
    most = min(MAX_SPLIT, max(1, chunks // MIN_CHUNKS), 2 * sm_count // tiles)
    at_once = max(1, min(most, sm_count // tiles))
    full = [
        split
        for split in range(2, most + 1)
        if tiles * split / sm_count >= FULL * -(-tiles * split // sm_count)
    ]
    return sorted({1, at_once, *full})


def product_cases(
    runner: CupyRunner,
    entrant: CandidateKernels,
    gemm: Gemm,
    orders: Iterable[Order],
    rounds: int,
    tags: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], dict[KernelConfig, float]]:
    """The fastest way and cuBLASLt, measured; and the median ns in screening of all ways, fastest first."""
    ways = ways_of(entrant, gemm, orders, query().sm_count)
    base = runner.operands(single(gemm, ways[0].cut, entrant.tile_k), seed=gemm.m)
    expected = reference(base)
    _compile(entrant, gemm, ways)
    entries = {}
    for way in ways:
        program = _program(runner, entrant, base, gemm, way)
        entries[way] = program_entry(runner, program, _contender(runner, program), expected)
    ranked, judged = _screened(entries)
    if not ranked:
        raise WrongResultError(f"{gemm.name}, m={gemm.m}: every cut gives wrong results; nothing was timed")
    best = next(iter(ranked))
    final = {"ours": entries[best], "cublaslt": library_entry(LtChain(base), base, expected)}
    result, verdicts, sampler = time_and_judge(final, rounds)
    shape = {"m": gemm.m, "n": gemm.n, "k": gemm.k, "flops": gemm.flops, "kernels": entrant.kernels}
    cases = [
        describe_case(
            name, {**tags, **shape, "way": str(best)}, result.get(name, NONE), verdicts[name], sampler
        )
        for name in final
    ]
    cases += [
        describe_case("ours", {**tags, **shape, "way": str(way)}, NONE, judged[str(way)], None)
        for way in ways
        if way not in ranked
    ]
    return cases, ranked


def _screened(
    entries: Mapping[KernelConfig, CheckedCandidate],
) -> tuple[dict[KernelConfig, float], dict[str, OutputCheck]]:
    """Median ns of those that are right, fastest first, the fastest few by a second look; all verdicts."""
    result, judged, _ = time_and_judge(
        {str(way): entry for way, entry in entries.items()}, SCREENING_ROUNDS, SCREENING_WARM_UP_S
    )
    ranked = _ranked({way: result[str(way)] for way in entries if judged[str(way)].is_good})
    few = list(ranked)[:SHORTLIST]
    again, still, _ = time_and_judge(
        {str(way): entries[way] for way in few}, SHORTLIST_ROUNDS, SCREENING_WARM_UP_S
    )
    first = _ranked({way: again[str(way)] for way in few if still[str(way)].is_good})
    return first | {way: ns for way, ns in ranked.items() if way not in few}, judged | still


def _ranked(screened: Mapping[KernelConfig, Rounds]) -> dict[KernelConfig, float]:
    """Median ns, fastest first."""
    medians = {way: float(median(rounds.times_ns)) for way, rounds in screened.items()}
    return dict(sorted(medians.items(), key=lambda entry: entry[1]))


def _compile(entrant: CandidateKernels, gemm: Gemm, ways: Iterable[KernelConfig]) -> None:
    compile_all(
        wanted
        for way in ways
        for wanted in wanted_kernels(single(gemm, way.cut, entrant.tile_k), way.plan, Build(), way.backend)
    )


def _program(
    runner: CupyRunner, entrant: CandidateKernels, base: Operands, gemm: Gemm, way: KernelConfig
) -> Any:
    pipeline = single(gemm, way.cut, entrant.tile_k)
    return runner.program(bind(pipeline, base.a, base.b), way.plan)


def _contender(runner: CupyRunner, program: Any) -> Contender:
    return Contender(runner.launcher(program), program.streams[0])
