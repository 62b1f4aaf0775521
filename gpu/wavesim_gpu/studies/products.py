"""One product at a time: every cut of our kernels against cuBLASLt.

Picture: GPT-3's first product at 1,024 tokens in eight cuts; the fastest is measured again over more rounds,
beside cuBLASLt's fastest algorithm, so that neither is chosen by luck.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from wavesim.errors import WavesimError
from wavesim.model.kernel import Gemm
from wavesim.model.order import Order
from wavesim.model.plan import StreamSync
from wavesim_gpu.baselines.cublaslt import LtChain
from wavesim_gpu.operands import Operands, bind, reference
from wavesim_gpu.runner import CupyRunner
from wavesim_gpu.studies.case import describe_case, judge, time_together
from wavesim_gpu.studies.shapes import Cut, flops_of, single
from wavesim_gpu.timing import Contender

SCREENING_ROUNDS, SCREENING_WARM_UP_S = 5, 0.05
MAX_SPLIT = 4


@dataclass(frozen=True)
class Way:
    """A cut and a tile order."""

    cut: Cut
    order: Order

    def __str__(self) -> str:
        return f"{self.cut} {self.order.name}"


def ways_of(runner: CupyRunner, gemm: Gemm, orders: Iterable[Order]) -> list[Way]:
    """Every cut that the kernels have for this product, in every order; split K only where blocks are few."""
    family, sms = runner.family, runner.sm_count
    found = []
    for tile_m, tile_n in family.tiles:
        plain = Cut(tile_m, tile_n)
        blocks = plain.applied(gemm).grid.tiles
        splits = [1, *(s for s in range(2, MAX_SPLIT + 1) if blocks * s <= 2 * sms and tile_m < 2 * gemm.m)]
        for split in splits:
            cut = Cut(tile_m, tile_n, split)
            if tile_m < 2 * max(gemm.m, 64) and is_supported(runner, gemm, cut):
                found += [Way(cut, order) for order in orders]
    return found


def is_supported(runner: CupyRunner, gemm: Gemm, cut: Cut) -> bool:
    """Whether the family's kernels can compute it."""
    try:
        runner.family.check(single(gemm, cut, runner.family.tile_k).stages[0].gemm)
    except WavesimError:
        return False
    return True


def product_cases(
    runner: CupyRunner, gemm: Gemm, orders: Iterable[Order], rounds: int, tags: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[Way]]:
    """The fastest way and cuBLASLt, measured; and all ways, fastest first by screening."""
    ways = ways_of(runner, gemm, orders)
    base = runner.operands(single(gemm, ways[0].cut, runner.family.tile_k), seed=gemm.m)
    expected = reference(base)
    programs = {way: _program(runner, base, gemm, way) for way in ways}
    contenders = {str(way): _contender(runner, program) for way, program in programs.items()}
    screened, _ = time_together(contenders, SCREENING_ROUNDS, SCREENING_WARM_UP_S)
    ranked = sorted(ways, key=lambda way: median(screened[str(way)].times_ns))
    best = ranked[0]
    library = LtChain(base)
    verdicts = {
        "ours": runner.verdict(programs[best], contenders[str(best)].launch, expected),
        "cublaslt": _judged(library, base, expected),
    }
    final = {"ours": contenders[str(best)], "cublaslt": Contender(library.launch, library.stream)}
    found, sampler = time_together(final, rounds)
    shape = {"m": gemm.m, "n": gemm.n, "k": gemm.k, "flops": flops_of(gemm), "kernels": runner.family.name}
    cases = [
        describe_case(name, {**tags, **shape, "way": str(best)}, found[name], verdicts[name], sampler)
        for name in final
    ]
    return cases, ranked


def _program(runner: CupyRunner, base: Operands, gemm: Gemm, way: Way) -> Any:
    pipeline = single(gemm, way.cut, runner.family.tile_k)
    return runner.program(bind(pipeline, base.a, base.b), StreamSync(way.order))


def _contender(runner: CupyRunner, program: Any) -> Contender:
    return Contender(runner.launcher(program), program.streams[0])


def _judged(library: LtChain, base: Operands, expected: Mapping[str, Any]) -> Any:
    library.launch()
    library.stream.synchronize()
    return judge(base, library.outputs, expected)
