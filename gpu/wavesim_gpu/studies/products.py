"""One product at a time: every cut of our kernels against cuBLASLt.

Picture: GPT-3's first product at 1,024 tokens in eight cuts; the fastest is measured again over more rounds,
beside cuBLASLt's fastest algorithm, so that neither is chosen by luck.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

from wavesim.model.kernel import Gemm
from wavesim.model.order import Order
from wavesim.model.plan import StreamSync
from wavesim_gpu.baselines.cublaslt import LtChain
from wavesim_gpu.compiler import Build
from wavesim_gpu.device import query
from wavesim_gpu.functions import compile_ahead
from wavesim_gpu.operands import Operands, bind, reference
from wavesim_gpu.runner import CupyRunner, WrongResultError
from wavesim_gpu.studies.case import (
    SCREENING_ROUNDS,
    SCREENING_WARM_UP_S,
    describe_case,
    judge,
    time_together,
)
from wavesim_gpu.studies.entrants import Entrant
from wavesim_gpu.studies.shapes import Cut, single
from wavesim_gpu.timing import Contender, Rounds

MAX_SPLIT = 4


@dataclass(frozen=True)
class Way:
    """A cut and a tile order."""

    cut: Cut
    order: Order

    def __str__(self) -> str:
        return f"{self.cut} {self.order.name}"


def ways_of(entrant: Entrant, gemm: Gemm, orders: Iterable[Order], sm_count: int) -> list[Way]:
    """Every cut that the kernels have, in every order; K is split only where blocks are few."""
    orders, found = list(orders), []
    for tile_m, tile_n in entrant.tiles:
        if tile_m >= 2 * max(gemm.m, 64):
            continue  # more than half of every tile would lie outside
        blocks = Cut(tile_m, tile_n).applied(gemm, entrant.tile_k).grid.tiles
        for split in range(1, MAX_SPLIT + 1):
            cut = Cut(tile_m, tile_n, split)
            if (split == 1 or blocks * split <= 2 * sm_count) and entrant.suits(gemm, cut):
                found += [Way(cut, order) for order in orders]
    return found


def product_cases(
    runner: CupyRunner,
    entrant: Entrant,
    gemm: Gemm,
    orders: Iterable[Order],
    rounds: int,
    tags: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], list[Way]]:
    """The fastest way and cuBLASLt, measured; and all ways, fastest first by screening."""
    ways = ways_of(entrant, gemm, orders, query().sm_count)
    base = runner.operands(single(gemm, ways[0].cut, entrant.tile_k), seed=gemm.m)
    expected = reference(base)
    _compile(runner, entrant, gemm, ways)
    programs = {way: _program(runner, entrant, base, gemm, way) for way in ways}
    contenders = {way: _contender(runner, program) for way, program in programs.items()}
    judged = {way: runner.verdict(programs[way], contenders[way].launch, expected) for way in ways}
    good = [way for way in ways if judged[way].is_good]
    if not good:
        raise WrongResultError(f"{gemm.name}, m={gemm.m}: every cut gives wrong results; nothing was timed")
    screened, _ = time_together({str(w): contenders[w] for w in good}, SCREENING_ROUNDS, SCREENING_WARM_UP_S)
    ranked = sorted(good, key=lambda way: median(screened[str(way)].times_ns))
    best, library = ranked[0], LtChain(base)
    verdicts = {"ours": judged[best], "cublaslt": _judged(library, base, expected)}
    final = {"ours": contenders[best], "cublaslt": Contender(library.launch, library.stream)}
    found, sampler = time_together(final, rounds)
    programs[best].sync.check()
    shape = {"m": gemm.m, "n": gemm.n, "k": gemm.k, "flops": gemm.flops, "kernels": runner.family.name}
    cases = [
        describe_case(name, {**tags, **shape, "way": str(best)}, found[name], verdicts[name], sampler)
        for name in final
    ]
    cases += [
        describe_case("ours", {**tags, **shape, "way": str(way)}, Rounds([], []), judged[way], None)
        for way in ways
        if way not in good
    ]
    return cases, ranked


def _compile(runner: CupyRunner, entrant: Entrant, gemm: Gemm, ways: Iterable[Way]) -> None:
    with ThreadPoolExecutor() as pool:
        done = [
            pool.submit(
                compile_ahead,
                single(gemm, way.cut, entrant.tile_k),
                [StreamSync(way.order)],
                (Build(),),
                runner.family,
            )
            for way in ways
        ]
        for one in done:
            one.result()


def _program(runner: CupyRunner, entrant: Entrant, base: Operands, gemm: Gemm, way: Way) -> Any:
    pipeline = single(gemm, way.cut, entrant.tile_k)
    return runner.program(bind(pipeline, base.a, base.b), StreamSync(way.order))


def _contender(runner: CupyRunner, program: Any) -> Contender:
    return Contender(runner.launcher(program), program.streams[0])


def _judged(library: LtChain, base: Operands, expected: Mapping[str, Any]) -> Any:
    library.launch()
    library.stream.synchronize()
    return judge(base, library.outputs, expected)
