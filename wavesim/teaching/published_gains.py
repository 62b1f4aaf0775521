"""The paper's MLP figure again: published improvements on V100 and A100 beside what our model predicts.

Picture: V100, GPT-3, 512 rows: the repository's result files say +19.0 points for row semaphores; from the
two kernels' stream-sync times and constants of the V100 that were fitted to other sizes comes +18.8.
"""

from statistics import median

from wavesim.analysis.halves import half_of
from wavesim.analysis.prediction import predict_from_kernel_times
from wavesim.io.published import PublishedRun, published_runs
from wavesim.sim.machine_costs import without_constants
from wavesim.view.gain_figure import Gain

LABELS = {"row": "Row semaphores", "tile": "Tile semaphores"}


def published_rows(device: str, model: str) -> list[PublishedRun]:
    """Rows of "V100" or "A100" and "gpt3" or "llama" with the baseline's tiles, stages and split-K."""
    named = f"{device} {model} "
    return [
        row
        for row in published_runs("mlp")
        if row.case.startswith(named) and row.is_same_configuration and not row.beats_work_conservation
    ]


def published_gain(row: PublishedRun, *, has_constants: bool = True) -> Gain:
    """Measured by the paper's authors, predicted here from their two stream-sync kernel times.

    With constants of the machine (launch, wait, clock), fitted to the development half of the rows.
    """
    machine = None if has_constants else without_constants()
    _, points = predict_from_kernel_times(row.pipeline, row.plan, row.device, row.kernel_ns, machine)
    return Gain(str(row.size), LABELS[row.policy], points, row.improvement_points)


def held_out(rows: list[PublishedRun]) -> list[PublishedRun]:
    """The rows that no constant was fitted to."""
    return [row for row in rows if half_of(row.case) == "test"]


def median_error(gains: list[Gain]) -> float:
    """The median absolute difference in points."""
    return median(abs(gain.error) for gain in gains if gain.error is not None)
