"""The paper's MLP figure again: published improvements on V100 and A100 beside what our model predicts.

Picture: V100, GPT-3, 256 rows: the repository's result files say +15.6 points for TileSync; from the two
kernels' stream-sync times alone the simulator predicts +17.
"""

from statistics import median

from wavesim.analysis.prediction import predict_from_kernel_times
from wavesim.io.published import PublishedRun, published_runs
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


def published_gain(row: PublishedRun) -> Gain:
    """Measured by the paper's authors, predicted here from their two stream-sync kernel times."""
    _, points = predict_from_kernel_times(row.pipeline, row.plan, row.device, row.kernel_ns)
    return Gain(str(row.size), LABELS[row.policy], points, row.improvement_points)


def median_error(gains: list[Gain]) -> float:
    """The median absolute difference in points."""
    return median(abs(gain.error) for gain in gains if gain.error is not None)
