"""Notebook 7: half rows, the strided policy of attention, and a policy of one's own, with its score.

Example: GPT-3's MLP at 768 tokens on an H200, its tile order fixed to groups of 8 rows. Row semaphores gain
nothing there, one per tile 12 points with 144 of them; six well chosen ones gain 11.
"""

from dataclasses import dataclass, replace
from typing import Any

from wavesim.codegen.policies import renumbered
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Grid
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import Policy, RowSync, SemaphoreTable, TileSync
from wavesim.predict.defaults import default_costs
from wavesim.predict.prediction import Measured, calibrate_for, improvement_points, measured_improvement
from wavesim.recordings.runner import described_measurement
from wavesim.recordings.shipped import find_case
from wavesim.safe_io.annotated import typed
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import WrongAnswer, require
from wavesim.teaching.use_gpu import Measuring
from wavesim.trace.trace import Trace
from wavesim.workloads.mlps import gpt3_mlp

TOKENS, ORDER = 768, Grouped(8)
LEAST_POINTS, MOST_SEMAPHORES = 8.0, 12
HALF, STRIDE = 12, 12
GRID, QKV = Grid(24, 8), Grid(36, 4)


@dataclass(frozen=True)
class Score:
    """A policy's improvement over stream sync in points, and its semaphores; `source`: measured on what."""

    policy: str
    semaphores: int
    predicted_points: float
    measured: Measured | None = None
    source: str = "not measured"

    def __repr__(self) -> str:
        found = "" if self.measured is None else f"{self.measured.median:+.1f} points, "
        return (
            f"{self.policy}: {self.semaphores} semaphores, {self.predicted_points:+.1f} points predicted "
            f"(simulated, calibrated on the stream-sync run); measured: {found}{self.source}"
        )


@typed
def predicted_score(policy: Policy, stream: Trace | None = None, device: Device | None = None) -> Score:
    """The policy simulated, calibrated on a stream-sync run: the H200's recording unless another is given.

    Raises `DescriptionError` for a policy that is refused.
    """
    pipeline, known = gpt3_mlp(TOKENS), device or devices.default_device()
    costs = (
        default_costs(pipeline, known, ORDER.name)[0]
        if stream is None
        else calibrate_for(pipeline, known, stream)
    )
    before = simulate(pipeline, StreamSync(order=ORDER), known, costs)
    after = simulate(pipeline, SemaphoreSync(policy, order=ORDER), known, costs)
    count = policy.table(pipeline.stages[0].grid).count
    return Score(policy.name, count, improvement_points(after.time_ns, before.time_ns))


@typed
def score(policy: Policy, where: Measuring | None = None) -> Score:
    """The policy simulated, and measured: live where there is a runner, else from a recorded policy that
    groups the tiles alike, if there is one.

    Raises `DescriptionError` for a policy that is refused.
    """
    if where is not None and where.runner is not None:
        plans = [StreamSync(order=ORDER), SemaphoreSync(policy, order=ORDER)]
        stream, ours = where.runner.measure(gpt3_mlp(TOKENS), plans)
        return _measured(predicted_score(policy, stream, where.device), ours, stream, "live")
    predicted, pipeline = predicted_score(policy), gpt3_mlp(TOKENS)
    grid = pipeline.stages[0].grid
    case = find_case(pipeline, devices.default_device(), ORDER.name)
    known = [like for like in (RowSync(), TileSync()) if like.table(grid) == policy.table(grid)]
    if case is None or not known:
        words = "nothing, as only row and tile policies are recorded; with a GPU this cell measures yours"
        return replace(predicted, source=words)
    return _measured(predicted, case.trace(known[0].name), case.trace("stream"), "recorded")


def _measured(predicted: Score, trace: Trace, stream: Trace, how: str) -> Score:
    gain = measured_improvement(trace, stream)
    return replace(predicted, measured=gain, source=f"{how}, {described_measurement(trace)}")


def _checked_table(answer: Any, grid: Grid) -> SemaphoreTable:
    """The policy's table on a grid. Raises `WrongAnswer` with the reason if it is refused."""
    require(isinstance(answer, Policy), f"{answer!r} is no policy: CustomPolicy(name, semaphore, value).")
    try:
        table: SemaphoreTable = answer.table(grid)
    except DescriptionError as error:
        raise WrongAnswer(str(error)) from None
    return table


def _is_grouped_like(table: SemaphoreTable, groups: list[int]) -> bool:
    return renumbered(tuple(table.semaphore_of_tile)) == renumbered(tuple(groups))


def _grade_half_rows(answer: Any) -> str:
    """Two semaphores per row of 24 tiles: one for each half."""
    table = _checked_table(answer, GRID)
    require(table.count == 2 * GRID.y, f"{table.count} semaphores; two per row are {2 * GRID.y}.")
    wanted = [2 * y + (x >= HALF) for x, y in GRID]
    require(_is_grouped_like(table, wanted), "tiles that share a semaphore are not the halves of a row.")
    return f"{table.count} semaphores, each ready at {HALF}."


def _grade_strided(answer: Any) -> str:
    """Tiles x, x + 12 and x + 24 of a row share a semaphore."""
    table = _checked_table(answer, QKV)
    wanted = [y * STRIDE + x % STRIDE for x, y in QKV]
    require(
        _is_grouped_like(table, wanted),
        f"tiles (0, 0), ({STRIDE}, 0) and ({2 * STRIDE}, 0) must share a semaphore, and no others.",
    )
    return f"{table.count} semaphores, each ready at 3: Q, K and V of a head."


def _assignment(answer: Any) -> dict[str, Any]:
    """A policy that gains 8 points in groups of 8 rows at 768 tokens, with at most 12 semaphores."""
    if not isinstance(answer, Policy):
        return {"is_policy": False}
    found = predicted_score(answer)
    facts = {"is_policy": True, "most": MOST_SEMAPHORES, "least": LEAST_POINTS, "count": found.semaphores}
    facts |= {"are_few": found.semaphores <= MOST_SEMAPHORES, "points": found.predicted_points}
    return {**facts, "gains": found.predicted_points >= LEAST_POINTS}


GRADERS = {"7.1": _grade_half_rows, "7.2": _grade_strided, "7.3": _assignment}
