"""The worst case of a safety verdict, laid out: which blocks lie on which SM, and what has no room.

Example: Figure 1 without its wait-kernel: four cells in a row, each filled by a waiting block of gemm2,
and a block of gemm1 outside that fits into none of them.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict, WorstCase

MOST_IN_A_ROW = 12
WAIT_KERNEL = "wait-kernel of "


@dataclass(frozen=True)
class Cell:
    """One block on an SM: `bottom` and `height` are parts of the SM, 0 to 1. `is_waiting` or could run."""

    sm: int
    name: str
    bottom: float
    height: float
    is_waiting: bool


@dataclass(frozen=True)
class SafetyParts:
    """SMs in `columns` columns, the blocks on them, and the verdict."""

    pipeline: Pipeline
    plan: Plan
    device: Device
    verdict: SafetyVerdict
    worst: WorstCase
    cells: tuple[Cell, ...]
    columns: int

    @property
    def rows(self) -> int:
        """Rows of SMs."""
        return ceil(self.worst.sm_count / self.columns)

    def stage_of(self, name: str) -> int:
        """Launch index of the stage that a block or wait-kernel belongs to."""
        names = [stage.name for stage in self.pipeline.stages]
        return names.index(name.removeprefix(WAIT_KERNEL))


def safety_parts(pipeline: Pipeline, plan: Plan, device: Device) -> SafetyParts:
    """The parts for a plan. Raises `DescriptionError` for one under which nobody waits."""
    verdict = safety_of(pipeline, plan, device)
    worst = verdict.worst
    if worst is None:
        raise DescriptionError(
            f"plan {plan.name}: no block waits on a semaphore, so there is nothing to draw"
        )
    cells: list[Cell] = []
    for sm in range(worst.sm_count):
        names = worst.residents[sm] if sm < len(worst.residents) else ()
        cells += _cells(sm, names, worst)
        if sm >= worst.closed_sms:
            cells.append(Cell(sm, worst.starved, 0.0, worst.shares[worst.starved], is_waiting=False))
    count = worst.sm_count
    columns = count if count <= MOST_IN_A_ROW else ceil(sqrt(3.6 * count))
    return SafetyParts(pipeline, plan, device, verdict, worst, tuple(cells), columns)


def _cells(sm: int, names: tuple[str, ...], worst: WorstCase) -> list[Cell]:
    """Waiting blocks on top of each other; shares of different resources may add up to more than an SM."""
    scale = 1 / max(1.0, sum(worst.shares[name] for name in names))
    found, bottom = [], 0.0
    for name in names:
        height = worst.shares[name] * scale
        found.append(Cell(sm, name, bottom, height, is_waiting=True))
        bottom += height
    return found
