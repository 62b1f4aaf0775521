"""Notebook 8: a dependency between tiles of unequal height, and a policy read by hand."""

from typing import Any

from wavesim.codegen.policies import policy_named
from wavesim.model.dependency import Dependency
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.teaching.exercises import WrongAnswer, require
from wavesim.workloads.mlps import gpt3_mlp

POLICY, TILE = "block:12x1", (17, 5)


def tall_pair() -> tuple[Stage, Stage]:
    """Two GEMMs at 1,024 tokens: gemm1 in tiles 128 rows tall (8 rows), gemm2 in tiles of 256 (4 rows)."""
    first = gpt3_mlp(1024).stages[0]
    second = Stage("gemm2", gpt3_mlp(1024, (256, 128)).stages[1].work)
    return first, second


def _grade_dependency(answer: Any) -> str:
    """What tile (x, y) of the tall consumer reads: all columns of producer rows 2y and 2y + 1."""
    require(isinstance(answer, Dependency), f"{answer!r} is no dependency: Dependency(gemm2[x, y], [...]).")
    first, second = tall_pair()
    require(
        answer.consumer.stage == second and answer.producers == (first.name,),
        "the consumer is gemm2 and what it needs is gemm1's.",
    )
    for x, y in second.grid:
        read = {tile for _, tile in answer.producer_tiles(x, y)}
        needed = {(column, row) for column in range(first.grid.x) for row in (2 * y, 2 * y + 1)}
        for tile in sorted(needed - read):
            raise WrongAnswer(f"tile ({x}, {y}) would not wait for {tile}, which it reads.")
        for tile in sorted(read - needed):
            raise WrongAnswer(f"tile ({x}, {y}) would wait for {tile}, which it does not read.")
    Pipeline("tall", [first, second], [answer])
    return "Each tile 256 rows tall covers two producer rows, all their columns."


def _reading() -> dict[str, Any]:
    """Semaphore and value of tile (17, 5) under the policy block:12x1 on 24 x 8 tiles."""
    pipeline = gpt3_mlp(1024)
    grid = pipeline.stages[0].grid
    policy = policy_named(pipeline, ("gemm1", "gemm2"), POLICY)
    return {"semaphore": policy.semaphore(*TILE, grid), "value": policy.value(*TILE, grid)}


GRADERS = {"8.1": _grade_dependency, "8.2": _reading}
