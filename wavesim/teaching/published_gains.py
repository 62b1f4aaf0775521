"""The paper's MLP figure again: published improvements on V100 and A100 beside what our model predicts.

Picture: V100, GPT-3, 256 rows: the repository's result files say +15.6 points for TileSync; from the two
kernels' stream-sync times alone the simulator predicts +17.
"""

from statistics import median

from wavesim.analysis.prediction import predict_pair
from wavesim.analysis.verdict import costs_from_kernel_times
from wavesim.io.published import PublishedMlp, published_mlps
from wavesim.view.gain_figure import Gain

LABELS = {"row": "Row semaphores", "tile": "Tile semaphores"}


def published_rows(device: str, model: str) -> list[PublishedMlp]:
    """Rows of "V100" or "A100" and "gpt3" or "llama" with the baseline's tiles, stages and split-K."""
    named = f"{device} {model} "
    return [
        row
        for row in published_mlps()
        if row.name.startswith(named) and row.is_same_configuration and not row.beats_work_conservation
    ]


def published_gain(row: PublishedMlp) -> Gain:
    """Measured by the paper's authors, predicted here from their two stream-sync kernel times."""
    costs = costs_from_kernel_times(row.pipeline, row.device, row.kernel_ns)
    _, _, points = predict_pair(row.pipeline, row.plan, row.device, costs)
    return Gain(str(row.tokens), LABELS[row.policy], points, row.improvement_points)


def median_error(gains: list[Gain]) -> float:
    """The median absolute difference in points."""
    return median(abs(gain.error) for gain in gains if gain.error is not None)
