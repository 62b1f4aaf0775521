"""Exercises of notebook 10: Table IV's counts, what a fraction of a wave costs, the worst prediction."""

from functools import cache
from typing import Any

from wavesim.costs.cost_model import zero_cost
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import Exercise, pair, require, word
from wavesim.teaching.paper_tables import wave_counts
from wavesim.teaching.published_gains import published_prediction, published_rows
from wavesim.workloads.figure_one import toy

TILE_NS = 1_000


def grade_corrected(answer: Any) -> str:
    """Table IV, 1,024 rows: (sum of ceilings, sum of fractions) from its grids."""
    stream, cusync = pair(answer, "waves under stream sync, and the sum of fractions")
    row = next(row for row in wave_counts() if row.rows == "1024")
    require(
        (stream, cusync) != (row.stream_printed, row.cusync_printed),
        "these are the printed ones. Multiply out the grids: 4x24x2 and 4x48x1.",
    )
    require(stream == row.stream, f"{stream} waves? {row.blocks[0]} blocks on {row.slots} slots, twice.")
    require(
        abs(cusync - row.cusync) < 0.01, f"{cusync} is not {sum(row.blocks)} blocks over {row.slots} slots."
    )
    return f"{row.stream} and {row.cusync:g}, printed {row.stream_printed:g} and {row.cusync_printed:g}."


def simulated_waves() -> float:
    """Tile times that Table IV's 512 rows take with tile semaphores, all tiles alike, on 80 slots."""
    block = toy().stages[0].kernel.block
    first = Stage("gemm1", Kernel("gemm1", Grid(24, 4), block))
    second = Stage("gemm2", Kernel("gemm2", Grid(24, 4), block))
    pair_ = Pipeline("table 4", [first, second], [Dependency(second[x, y], [first[:, y]])])
    device = devices.load("toy").with_sm_count(80)
    trace = simulate(pair_, SemaphoreSync(TileSync()), device, zero_cost(pair_, TILE_NS))
    return trace.makespan_ns / TILE_NS


def grade_fraction(answer: Any) -> str:
    """Two kernels of 96 equal tiles on 80 slots with semaphores: the time in tile times."""
    require(answer != 2.4, "2.4 is work over slots. Can a tile that starts at t = 2 end at 2.4?")
    require(answer == simulated_waves(), f"{answer}? 192 tiles on 80 slots, and no tile is cut.")
    return "Three: 2.4 is a sum of work, and time comes in whole tiles here."


@cache
def _errors_by_point() -> dict[tuple[str, str], float]:
    """(rows, policy) of each of the V100's GPT-3 points, and predicted less published points there."""
    found = [published_prediction(row) for row in published_rows("V100", "gpt3")]
    return {(str(one.row.size), one.row.policy): one.error_points for one in found}


def furthest_off() -> tuple[str, str]:
    """(rows, policy) of the V100's GPT-3 point whose prediction differs most from what was published."""
    errors = _errors_by_point()
    return max(errors, key=lambda point: abs(errors[point]))


def grade_furthest(answer: Any) -> str:
    """The V100's GPT-3 point that is predicted worst, with the machine's costs."""
    rows, policy = pair(answer, 'rows, and "row" or "tile"')
    point = str(rows).strip(), word(policy, ("row", "tile"))
    errors = _errors_by_point()
    require(point in errors, f"no point of {rows} rows with {policy} semaphores is drawn.")
    error = errors[point]
    require(
        point == furthest_off(),
        f"that one is {abs(error):.1f} points off. Diamonds are predicted: which is furthest from its dot?",
    )
    return f"{error:+.1f} points: a gain was predicted where the authors measured a loss."


EXERCISES = (
    Exercise("10.1", "Table IV, 1024 rows, corrected: (stream sync, sum of fractions)", grade_corrected),
    Exercise("10.2", "96 + 96 equal tiles on 80 slots with semaphores, in tile times", grade_fraction),
    Exercise("10.3", "The V100's GPT-3 point that is predicted worst: (rows, policy)", grade_furthest),
)
