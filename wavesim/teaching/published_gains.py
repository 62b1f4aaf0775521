"""The paper's MLP figure again: published improvements on V100 and A100 beside what our model predicts.

Example: V100, GPT-3, 512 rows: the repository's result files say +19.0 points for row semaphores; from the
two kernels' stream-sync times and constants of the V100, fitted to this row among others, comes +19.4.
"""

from dataclasses import dataclass
from statistics import median

from wavesim.costs.device_costs import costs_of, without_constants
from wavesim.errors import DescriptionError
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.prediction import improvement_points, predict_pair, sustained_points
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.recordings.split import split_of
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.trace.trace import Trace
from wavesim.view.gain_figure import Gain

LABELS = {"row": "Row semaphores", "tile": "Tile semaphores"}


@dataclass(frozen=True, eq=False)
class PublishedPrediction:
    """A published row and its prediction: both simulated traces, and the improvement after the clock's
    correction.

    The traces assume one clock. `points` corrects their improvement for a power-limited clock.
    """

    row: PublishedRun
    stream: Trace
    trace: Trace
    points: float

    @property
    def points_at_one_clock(self) -> float:
        """The improvement of the traces themselves."""
        return improvement_points(self.trace.time_ns, self.stream.time_ns)

    @property
    def error_points(self) -> float:
        """Predicted minus published."""
        return self.points - self.row.improvement_points

    @property
    def gain(self) -> Gain:
        """Predicted here, measured by the paper's authors, with the spread of their runs."""
        row, noise = self.row, self.row.noise_points
        low, high = row.improvement_points - noise, row.improvement_points + noise
        return Gain(str(row.size), LABELS[row.policy], self.points, row.improvement_points, low, high)


@typed
def published_rows(device: str, model: str) -> list[PublishedRun]:
    """Rows of "V100" or "A100" and "gpt3" or "llama" with the baseline's tiles, stages and split-K.

    Rows with tiles of unequal heights are left out: `wavesim validate` scores them as another set.
    Raises `DescriptionError`.
    """
    known = {tuple(row.case.split()[:2]) for row in published_runs("mlp")}
    if (device, model) not in known:
        there_are = "; ".join(" ".join(words) for words in sorted(known))
        raise DescriptionError(f"published_rows: {shown(device)}, {shown(model)}; there are {there_are}")
    named = f"{device} {model} "
    return [
        row
        for row in published_runs("mlp")
        if row.case.startswith(named)
        and row.is_same_configuration
        and not (row.beats_work_conservation or row.has_unequal_tiles)
    ]


@typed
def published_prediction(row: PublishedRun, *, has_constants: bool = True) -> PublishedPrediction:
    """Predicted from the row's two stream-sync kernel times.

    With constants of the machine (launch, wait, clock), fitted to the development split of the rows.
    """
    known = costs_of(row.device.name) if has_constants else without_constants()
    costs = costs_from_kernel_times(row.pipeline, row.device, row.kernel_ns, known)
    stream, trace, points = predict_pair(row.pipeline, row.plan, row.device, costs)
    return PublishedPrediction(row, stream, trace, sustained_points(points, known.clock_share))


@typed
def published_gain(row: PublishedRun, *, has_constants: bool = True) -> Gain:
    """The gain of `published_prediction`."""
    return published_prediction(row, has_constants=has_constants).gain


@typed
def held_out(rows: list[PublishedRun]) -> list[PublishedRun]:
    """The rows that no constant was fitted to."""
    return [row for row in rows if is_held_out(row)]


@typed
def is_held_out(row: PublishedRun) -> bool:
    """Whether no constant was fitted to the row."""
    return split_of(row.case) == "test"


@typed
def median_error(gains: list[Gain]) -> float:
    """The median absolute difference in points. Raises `DescriptionError` where nothing was measured."""
    errors = [abs(gain.error) for gain in gains if gain.error is not None]
    if not errors:
        raise DescriptionError(f"median_error: none of {len(gains)} gains was measured; give one that was")
    return median(errors)
