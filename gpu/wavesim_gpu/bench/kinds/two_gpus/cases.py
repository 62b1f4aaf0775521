"""What is measured: shapes, operands that every rank can make again, and what must come out.

Example: `operand(cupy, case, rank, "a")` is the same array in whichever process it is made, so each rank can
work out the sum over all ranks by itself, in fp32.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from wavesim_gpu.driver.element_types import from_float32, to_float32
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.programs import RankArrays, shapes_of

NAMES = ("a", "b", "residual", "weight", "next_b")


@dataclass(frozen=True)
class SharedCase:
    """A product across ranks and the seed of its operands."""

    problem: SharedGemm
    seed: int


@dataclass(frozen=True)
class Setting:
    """What is asked of each rank: a part of the measuring, of which collective, which ways; "" for all."""

    part: str
    kind: Any = "all-reduce"
    rounds: int = 7
    calls: int = 10_000
    ranks: int = 2
    ways: tuple[str, ...] = ()  # as the shell matches file names

    def takes(self, way: str) -> bool:
        """Whether a way is measured."""
        return not self.ways or any(fnmatchcase(way, entry) for entry in self.ways)


def operand(cupy: Any, case: SharedCase, rank: int, name: str) -> Any:
    """An operand of a rank, normal and small enough for sums in fp16; of an all-gather A is the rank's rows.

    A chain's residual and weight are the same on all ranks.
    """
    problem = case.problem
    shape = shapes_of(problem)[name]
    of = 0 if name in ("residual", "weight") else rank
    state = cupy.random.RandomState(1000 * case.seed + 10 * of + NAMES.index(name))
    values = state.standard_normal(shape, dtype=cupy.float32)
    if name in ("b", "next_b"):
        values /= (shape[0] * problem.ranks) ** 0.5
    return from_float32(values, problem.dtype)


def operands_of(group: PeerGroup, case: SharedCase) -> Mapping[int, RankArrays]:
    """Those of all ranks that this process drives."""
    result = {}
    for rank in group.ranks:
        with group.on(rank) as cupy:
            result[rank] = RankArrays(
                **{name: operand(cupy, case, rank, name) for name in shapes_of(case.problem)}
            )
    return result


def expected_of(cupy: Any, case: SharedCase, rank: int) -> Any:
    """float32: what a rank must end up with, worked out on the current GPU from all ranks' operands."""
    problem = case.problem

    def whole(of: int, name: str) -> Any:
        return to_float32(operand(cupy, case, of, name), problem.dtype)

    ranks = range(problem.ranks)
    if problem.gathers:
        return cupy.concatenate([whole(of, "a") for of in ranks]) @ whole(rank, "b")
    total = sum(whole(of, "a") @ whole(of, "b") for of in ranks)
    if problem.collective.kind == "reduce-scatter":
        share = problem.m // problem.ranks
        return total[rank * share : (rank + 1) * share]
    return total


def expected_of_chain(cupy: Any, case: SharedCase, rank: int) -> tuple[Any, Any]:
    """float32: sums with the residual, rounded as they are kept, and the product of their normed rows."""
    problem = case.problem
    following = problem.following
    assert following is not None

    def rounded(values: Any) -> Any:
        return to_float32(from_float32(values, problem.dtype), problem.dtype)

    residual, weight, b = (
        to_float32(operand(cupy, case, rank, name), problem.dtype)
        for name in ("residual", "weight", "next_b")
    )
    sums = rounded(rounded(expected_of(cupy, case, rank)) + residual)
    mean = (sums * sums).mean(axis=1, keepdims=True)
    return sums, rounded(sums / cupy.sqrt(mean + cupy.float32(following.epsilon)) * weight) @ b


def relative_error(cupy: Any, out: Any, expected: Any, dtype: str) -> float:
    """The largest difference over the largest expected value; NaN where anything is NaN."""
    result = to_float32(out, dtype)
    return float(cupy.abs(result - expected).max() / cupy.abs(expected).max())
