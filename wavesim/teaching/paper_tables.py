"""The cuSync paper's wave counts, as printed and as its own grids give them.

Example: Table IV prints 6 waves under stream sync and 4.8 under cuSync for 512 rows. Its grids say 96 and 96
blocks on 80 slots: two waves each, 4 in all, and 2.4 as a sum of fractions. Rows that agree have no mark.

The paper's stream column is a sum of ceilings and its cuSync column a sum of fractions: two different things.
A fraction of a wave takes as long as a whole one, so the ceiling of the sum stands beside it.
Source: paper, Tables I and IV; blocks per SM as in its Table I (two up to 256 rows, one from 512).
"""

import csv
from dataclasses import dataclass
from functools import cache
from math import ceil, prod
from pathlib import Path
from typing import Any

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.sim.simulation import simulate
from wavesim.teaching.published_view import published_prediction, published_rows
from wavesim.teaching.shown import Shown
from wavesim.workloads.figure_one import toy

FOLDER = Path(__file__).parent / "paper"
SMS = 80
ONE_BLOCK_FROM = 512
ROUNDING = 0.051  # printed with one digit
TILE_NS = 1_000

Row = dict[str, str]


@typed
def table(number: int) -> list[Row]:
    """The rows of a table as printed. Raises `DescriptionError` for one that is not here."""
    known = sorted(int(path.stem.removeprefix("table_")) for path in FOLDER.glob("table_*.csv"))
    if number not in known:
        raise DescriptionError(f"table is {shown(number)}; there are {', '.join(map(str, known))}")
    with (FOLDER / f"table_{number}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class WaveCount:
    """One row of Table IV: blocks of both kernels, slots, and what is printed."""

    rows: str
    blocks: tuple[int, int]
    slots: int
    stream_printed: float
    cusync_printed: float

    @property
    def stream(self) -> int:
        """Waves one after the other: a sum of ceilings."""
        return sum(ceil(count / self.slots) for count in self.blocks)

    @property
    def cusync(self) -> float:
        """What the paper's cuSync column means: the sum of the fractions."""
        return sum(self.blocks) / self.slots

    @property
    def cusync_whole(self) -> int:
        """The waves that such a sum takes at least, tiles being equal."""
        return ceil(self.cusync)

    @property
    def is_consistent(self) -> bool:
        """Whether both printed counts follow from the row's own grids."""
        is_stream = self.stream == self.stream_printed
        return is_stream and abs(self.cusync - self.cusync_printed) <= ROUNDING


def wave_counts() -> list[WaveCount]:
    """Table IV, row by row."""
    return [_count(row) for row in table(4)]


def _count(row: Row) -> WaveCount:
    blocks = tuple(prod(int(n) for n in row[name].split("x")) for name in ("grid1", "grid2"))
    largest = int(row["batch"].split("-")[-1])
    return WaveCount(
        rows=row["batch"],
        blocks=(blocks[0], blocks[1]),
        slots=SMS * (1 if largest >= ONE_BLOCK_FROM else 2),
        stream_printed=float(row["stream_waves_printed"]),
        cusync_printed=float(row["cusync_waves_printed"]),
    )


@typed
def wave_table(counts: list[WaveCount]) -> Shown:
    """Printed beside recomputed, with a mark where they contradict each other."""
    titles = (
        "rows (B × S)",
        "blocks",
        "slots",
        "stream, printed",
        "sum of ceilings",
        "cuSync, printed",
        "sum of fractions",
        "its ceiling",
        "",
    )
    cells = tuple(
        (
            row.rows,
            f"{row.blocks[0]} + {row.blocks[1]}",
            str(row.slots),
            f"{row.stream_printed:g}",
            str(row.stream),
            f"{row.cusync_printed:g}",
            f"{row.cusync:.2f}",
            str(row.cusync_whole),
            "" if row.is_consistent else "✗ contradicts its grids",
        )
        for row in counts
    )
    return Shown(titles, cells)


def _corrected(stream: Any, cusync: Any) -> dict[str, Any]:
    """Table IV, 1,024 rows: (sum of ceilings, sum of fractions) from its grids."""
    row = next(row for row in wave_counts() if row.rows == "1024")
    printed = (row.stream_printed, row.cusync_printed)
    facts = {"is_not_printed": (stream, cusync) != printed, "stream": row.stream, "cusync": row.cusync}
    facts |= {"stream_printed": printed[0], "cusync_printed": printed[1], "slots": row.slots}
    return {**facts, "blocks": row.blocks[0], "sum": sum(row.blocks)}


def _simulated_waves() -> float:
    """Tile times that Table IV's 512 rows take with tile semaphores, all tiles alike, on 80 slots."""
    block = toy().stages[0].kernel.block
    first = Stage("gemm1", Kernel("gemm1", Grid(24, 4), block))
    second = Stage("gemm2", Kernel("gemm2", Grid(24, 4), block))
    pair_ = Pipeline("table 4", [first, second], [Dependency(second[x, y], [first[:, y]])])
    device = devices.load("toy").with_sm_count(80)
    trace = simulate(pair_, SemaphoreSync(TileSync()), device, zero_cost(pair_, TILE_NS))
    return trace.makespan_ns / TILE_NS


@cache
def _errors_by_point() -> dict[tuple[str, str], float]:
    """(rows, policy) of each of the V100's GPT-3 points, and predicted less published points there."""
    found = [published_prediction(row) for row in published_rows("V100", "gpt3")]
    return {(str(point.row.size), point.row.policy): point.error_points for point in found}


def _furthest(rows: Any, policy: str) -> dict[str, Any]:
    """The V100's GPT-3 point that is predicted worst, with the machine's costs."""
    errors, point = _errors_by_point(), (str(rows).strip(), policy)
    worst = max(errors, key=lambda known: abs(errors[known]))
    error = errors.get(point, 0.0)
    facts = {"rows": rows, "policy": policy, "is_drawn": point in errors, "error": error}
    return {**facts, "off": abs(error), "is_furthest": point == worst}


GRADERS = {
    "10.1": _corrected,
    "10.2": lambda _: {"work": 2.4, "waves": _simulated_waves()},
    "10.3": _furthest,
}
