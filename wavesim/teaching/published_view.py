"""The paper's gains to choose from: a GPU and a model, a size and a policy, predicted beside published.

Example: V100, GPT-3's MLP: at 512 rows row semaphores were published with +19.0 points, predicted are +19.4;
without the machine's costs +16.9. Below are the two simulated timelines, and how much the lower clock costs.
"""

from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

import ipywidgets

from wavesim.costs.device_costs import costs_of, without_constants
from wavesim.errors import DescriptionError
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.prediction import improvement_points, predict_pair, sustained_points
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.recordings.split import split_of
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.escaping import Markup, element
from wavesim.trace.trace import Trace
from wavesim.view.gain_figure import Gain
from wavesim.widgets.explorer import menu
from wavesim.widgets.summary import signed
from wavesim.widgets.tuner_view import TunedPoint, TunerView
from wavesim.widgets.words import Words

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


FIGURES = {
    "V100, GPT-3's MLP": ("V100", "gpt3"),
    "V100, LLaMA's MLP": ("V100", "llama"),
    "A100, GPT-3's MLP": ("A100", "gpt3"),
    "A100, LLaMA's MLP": ("A100", "llama"),
}


class PublishedView(TunerView):
    """A tuner view of the published rows, with a choice of GPU and model and a switch for fitted costs."""

    @typed
    def __init__(self) -> None:
        fitted = "costs fitted to the machine: launch, wait, sharing an SM, clock"
        self.choice = menu("Figure", FIGURES, next(iter(FIGURES)))
        self.constants = ipywidgets.Checkbox(
            value=True, description=fitted, indent=False, layout={"width": "auto"}
        )
        self.words = Words()
        super().__init__(
            self._points(),
            self._source(),
            title=self._title(),
            size_name="rows (B × S)",
            spread="quartiles, from the authors' standard deviations",
            controls={"choice": self.choice, "constants": self.constants},
            words=[self.words],
        )

    @property
    def prediction(self) -> PublishedPrediction:
        """The chosen point's."""
        return self._predictions()[self.chart.chosen]

    def _follow(self, change: Any) -> None:
        if change.owner is not self.chart:
            self._replace(self._points(), self._source(), self._title())

    def _predictions(self) -> tuple[PublishedPrediction, ...]:
        return _predictions(*FIGURES[self.choice.value], self.constants.value)

    def _points(self) -> list[TunedPoint]:
        return [_point(one) for one in self._predictions()]

    def _source(self) -> str:
        costs = "costs fitted to half of all rows" if self.constants.value else "nothing fitted"
        return f"Measured by the authors; simulated from both kernels' times under stream sync and {costs}"

    def _title(self) -> str:
        """How far off the predictions are; rows are unseen if no constant was fitted to them."""
        found = self._predictions()
        everywhere = f"{median_error([one.gain for one in found]):.1f}"
        unseen = [one.gain for one in found if is_held_out(one.row)]
        if not self.constants.value:
            return f"{self.choice.value}: {everywhere} points off without fitted costs (median)"
        if not unseen:
            return f"{self.choice.value}: {everywhere} points off, on rows that costs were fitted to (median)"
        return (
            f"{self.choice.value}: {median_error(unseen):.1f} points off on {len(unseen)} unseen rows, "
            f"{everywhere} on all {len(found)} (medians)"
        )

    def _say(self) -> None:
        words = _words(self.prediction, has_constants=self.constants.value)
        self.words.value = element("p", words, role="status")


@lru_cache
def _predictions(device: str, model: str, has_constants: bool) -> tuple[PublishedPrediction, ...]:
    rows = published_rows(device, model)
    return tuple(published_prediction(row, has_constants=has_constants) for row in rows)


def _point(one: PublishedPrediction) -> TunedPoint:
    return TunedPoint(one.row.size, one.gain, one.gain.plan.lower(), lambda: (one.stream, one.trace))


def _words(one: PublishedPrediction, *, has_constants: bool) -> Markup:
    """From the timelines to the predicted number, and to the published one."""
    at_one_clock = one.points_at_one_clock
    taken = at_one_clock - one.points
    law = "fitted" if has_constants else "by the cube of the clock"
    fitted = (
        "No constant was fitted to this row." if is_held_out(one.row) else "Constants were fitted to it too."
    )
    published = signed(one.row.improvement_points, "")
    words = (
        element("b", f"{one.row.size:,} rows, {one.gain.plan.lower()}."),
        f"The timelines below differ by {signed(at_one_clock)} at one clock.",
        f"Fuller SMs draw more power and lower the clock, which costs {taken:.1f} ({law}).",
        element("b", f"Predicted {signed(one.points, '')}, published {published}."),
        fitted if has_constants else "",
    )
    return Markup(" ").join(words)
