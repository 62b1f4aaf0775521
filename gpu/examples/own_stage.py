"""A kernel that was written by hand as one stage of three, under every plan: product, rows normalised,
product.

Example: `python gpu/examples/own_stage.py` checks each plan against float32 and times them in turns. What a
tile of `normalise` waits for follows from `tile_reads`: all of the product's tiles in its rows.
"""

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Matrix, Read, Region, Write
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim.work.own_kernel import OwnKernel
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.run.runner import CupyRunner

SOURCE = Path(__file__).with_suffix(".cu")
TILE_M, THREADS, EPSILON = 16, 256, 1e-5
PLANS = ("stream", "streams+row", "streams+tile")


def normalise(m: int, columns: int) -> OwnKernel:
    """Out = x / rms(x) by rows of (m, columns), fp16; a block per `TILE_M` rows."""

    def rows(tile_row: int) -> Region:
        return Region(tile_row * TILE_M, min((tile_row + 1) * TILE_M, m), 0, columns)

    def reads(_x: int, y: int, _z: int) -> Iterable[Read]:
        yield Read("x", rows(y))

    def writes(_x: int, y: int) -> Iterable[Write]:
        yield Write("out", rows(y))

    grid = Grid(1, -(-m // TILE_M))
    return OwnKernel(
        "normalise",
        Kernel("normalise", grid, Block(THREADS), bytes_per_block=4 * m * columns // grid.size),
        {"x": Matrix(m, columns), "out": Matrix(m, columns, is_written=True)},
        reads,
        writes,
        source=SOURCE,
        expression=f"normalise<{TILE_M}, {m}, {columns}>",
        reference=reference,
        is_launched_early=True,
    )


def reference(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """What it writes, of float32 arrays."""
    cupy, rows = require_cupy(), arrays["x"]
    mean = (rows * rows).mean(axis=1, keepdims=True)
    return {"out": rows / cupy.sqrt(mean + cupy.float32(EPSILON))}


def pipeline(m: int, width: int, tile: tuple[int, int, int] = (128, 128, 32)) -> Pipeline:
    """Product, normalise, product, all (m, width)."""
    up = Stage("up", Gemm("up", m, width, width, *tile), buffers={"c": "sums"})
    rows = Stage("normalise", normalise(m, width), buffers={"x": "sums", "out": "normal"})
    down = Stage("down", Gemm("down", m, width, width, *tile), buffers={"a": "normal"})
    each = tile[0] // TILE_M  # blocks of rows in a tile of the products
    above = rows[:, each * y : (each * y + each).at_most(rows.grid.y)]
    return Pipeline(
        "own-stage",
        [up, rows, down],
        [Dependency(rows[x, y], [up[:, y // each]]), Dependency(down[x, y], [above])],
    )


def main() -> None:
    """Checks and times every plan."""
    runner = CupyRunner()
    operands = runner.operands(pipeline(1024, 2048))
    for timing in runner.time(operands, [parse_plan(word) for word in PLANS]):
        print(f"{timing.plan.label}: {statistics.median(timing.rounds_ns) / 1e3:.1f} us")  # noqa: T201


if __name__ == "__main__":
    main()
