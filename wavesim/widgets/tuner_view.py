"""The tuner view: gain over size and policy; a click on a point shows the timelines behind it.

Example: row semaphores gain 14 points at 1,024 tokens and lose 2 at 768; the reader clicks the loss, and
below it both plans' timelines show the waits that ate the tail.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import traitlets

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import Device, default_device, load
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import default_costs
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.prediction import measured_improvement, predict_from_stream
from wavesim.predict.recommendation import Recommendation, recommend, verdict_on
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.safe_io.annotated import typed
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.tuning.ranking import TunedPlan, Tuning
from wavesim.view.canvas import Props
from wavesim.view.gain_figure import Gain, gain_finding
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.drawn import DrawnWidget, PlansPicture
from wavesim.widgets.explorer import Explorer
from wavesim.widgets.scripts import script
from wavesim.widgets.words import Words
from wavesim.workloads.catalogue import parse_tile, workload

MOST_POLICIES = 5
Traces = tuple[Trace, Trace]


@dataclass(frozen=True, eq=False)
class TunedPoint:
    """One point: its gain, the plan's whole name, and what makes the traces (stream sync, the plan)."""

    tokens: int
    gain: Gain
    name: str
    traces: Callable[[], Traces]


def points_of_tunings(
    tunings: Mapping[int, Tuning], device: Device, costs: CostModel | None = None
) -> list[TunedPoint]:
    """The best plan of each policy at each size, for the policies that do best over all sizes.

    Raises `DescriptionError` for no tunings.
    """
    if not tunings:
        raise DescriptionError("tunings is empty; give {tokens: tune(...)} for at least one size")
    best = {(size, word): row for size, tuning in tunings.items() for word, row in _best_rows(tuning).items()}
    words = list(dict.fromkeys(word for _, word in best))
    worth = {word: sum(row.improvement_points for (_, w), row in best.items() if w == word) for word in words}
    # The paper's two policies are what others are compared with.
    chosen = sorted(words, key=lambda word: (word not in ("row", "tile"), -worth[word]))[:MOST_POLICIES]
    return [
        _tuned_point(size, word, best[size, word], tunings[size], device, costs)
        for word in chosen
        for size in sorted(tunings)
        if (size, word) in best
    ]


def _best_rows(tuning: Tuning) -> dict[str, TunedPlan]:
    """The first, so the best, row of each policy's word; plans come best first."""
    rows: dict[str, TunedPlan] = {}
    for row in tuning.plans:
        if not row.plan.is_stream_sync:
            rows.setdefault(row.plan.name, row)
    return rows


def _tuned_point(
    size: int, word: str, row: TunedPlan, tuning: Tuning, device: Device, costs: CostModel | None
) -> TunedPoint:
    stream = next((other for other in tuning.plans if other.plan.is_stream_sync), None)

    def traces() -> Traces:
        base = stream or row
        base_plan = base.plan if stream is not None else StreamSync(row.plan.order, row.plan.orders)
        plans = (base.pipeline, base_plan, base.order), (row.pipeline, row.plan, row.order)
        first, second = (
            simulate(pipe, plan, device, costs or default_costs(pipe, device, order)[0])
            for pipe, plan, order in plans
        )
        return first, second

    return TunedPoint(size, Gain(f"{size:,}", f"{word} semaphores", row.improvement_points), row.name, traces)


def recorded_points(tile: str = "128x256", order: str = "row", device: str | None = None) -> list[TunedPoint]:
    """Every recorded size and policy of a tile and order, measured, and predicted from the stream-sync run.

    Raises `DescriptionError` where nothing is recorded.
    """
    device = device or default_device().name
    chosen = [case for case in cases() if (case.device, case.tile, case.order) == (device, tile, order)]
    if not chosen:
        known = sorted({(case.device, case.tile, case.order) for case in cases()})
        raise DescriptionError(f"no recording of {(device, tile, order)}; there are {known}")
    return [
        _recorded_point(case, policy)
        for policy in ("row", "tile")
        for case in sorted(chosen, key=lambda case: case.tokens)
        if {policy, "stream"} <= case.paths.keys()
    ]


def _recorded_point(case: RecordedCase, policy: str) -> TunedPoint:
    stream, trace = case.trace("stream"), case.trace(policy)
    _, predicted = predicted_trace(case, policy)
    measured = measured_improvement(trace, stream)
    gain = Gain(
        f"{case.tokens:,}", f"{policy} semaphores", predicted, measured.median, measured.low, measured.high
    )
    return TunedPoint(case.tokens, gain, f"{policy} {case.order}", lambda: (stream, trace))


def predicted_trace(case: RecordedCase, plan: str) -> tuple[Trace, float]:
    """A case's plan as predicted from its stream-sync run: the trace, and the improvement in points."""
    pipeline = workload(case.workload, case.tokens, parse_tile(case.tile))
    parsed = StreamSync(parse_order(case.order)) if plan == "stream" else parse_plan(plan, case.order)
    return predict_from_stream(pipeline, parsed, load(case.device), case.trace("stream"))


QUARTILES = "quartiles of interleaved rounds"


class TunerPicture(DrawnWidget):
    """The chart of gains; `chosen` is the index of the chosen point."""

    _esm = script("pen.js", "picture.js", "tuner_picture.js")
    chosen = traitlets.Int(0, min=0).tag(sync=True)
    page_traits = ("chosen",)


class TunerView(Explorer):
    """Gains and the timelines of the chosen one. `source` says what was simulated or measured, on what.

    Made by `tuned` from tunings or by `recorded` from the shipped recordings. `title` replaces the
    finding, `size_name` is what a point's size counts, `spread` what its low and high are. Raises
    `DescriptionError` for no points.
    """

    kinds = (PlansPicture,)

    @typed
    def __init__(
        self,
        points: Sequence[TunedPoint],
        source: str,
        *,
        title: str = "",
        size_name: str = "tokens",
        spread: str = QUARTILES,
        controls: Mapping[str, Any] = MappingProxyType({}),
        words: Sequence[Words] = (),
    ) -> None:
        self._labels = {"sizeName": size_name, "spread": spread}
        self.points = _known(points)
        self.chart = TunerPicture(scene=self._chart(source, title), chosen=_best(self.points))
        super().__init__(controls, beside=[self.chart], above=words)
        self.chart.observe(self._changed, names="chosen")

    @classmethod
    @typed
    def tuned(
        cls, tunings: Mapping[int, Tuning], device: Device, costs: CostModel | None = None
    ) -> "TunerView":
        """The best plan of each policy in `tunings`, {tokens: what tune() returned}; all simulated.

        It says which plan to run at the size that gains most, and opens there.
        """
        points = points_of_tunings(tunings, device, costs)
        first = next(iter(tunings.values()))
        source = f"{first.workload}, simulated on {device.name.upper()}, {first.forecast.basis}"
        size = points[_best(points)].tokens
        run = _plan_to_run(tunings[size], device, costs)
        view = cls(points, f"{source}; each policy in its best order; at {size:,} tokens run {run.best}")
        places = [(point.tokens, point.gain.plan) for point in points]
        if (place := (size, f"{run.option.plan.name} semaphores")) in places:
            view.chart.chosen = places.index(place)
        return view

    @classmethod
    @typed
    def recorded(cls, tile: str = "128x256", order: str = "row", device: str | None = None) -> "TunerView":
        """The shipped recordings of a tile and order, measured and predicted."""
        points = recorded_points(tile, order, device)
        head = points[0].traces()[0].header
        source = (
            f"{head.workload}, {tile} tiles, {order} order, measured on {head.device['name']}, "
            f"{head.date[:10]}, commit {head.commit[:7]}; predicted from the stream-sync run alone"
        )
        return cls(points, source)

    @property
    def point(self) -> TunedPoint:
        """The chosen point; the last one where the page names one that is not there."""
        return self.points[min(self.chart.chosen, len(self.points) - 1)]

    def show(self, points: Sequence[TunedPoint], source: str, *, title: str = "") -> None:
        """Draws these points in place; the same size and policy stay chosen. Raises `DescriptionError`."""
        self._is_following = True  # so that another choice draws once
        try:
            self._replace(points, source, title)
        finally:
            self._is_following = False
        self.refresh()

    def _replace(self, points: Sequence[TunedPoint], source: str, title: str) -> None:
        before, self.points = self.point, _known(points)
        place = (before.tokens, before.gain.plan)
        places = [(point.tokens, point.gain.plan) for point in self.points]
        with self.chart.hold_sync():
            self.chart.scene = self._chart(source, title)
            self.chart.chosen = places.index(place) if place in places else _best(self.points)

    def _scenes(self) -> Sequence[Props]:
        return [scene_of_timeline(timeline_parts(self.point.traces()))]

    def _chart(self, source: str, title: str) -> Props:
        points = self.points
        sizes = sorted({point.tokens for point in points})
        policies = list(dict.fromkeys(point.gain.plan for point in points))
        finding = gain_finding([point.gain for point in points], self._labels["sizeName"])
        return {
            **self._labels,
            "title": title or finding,
            "subtitle": source,
            "sizes": [f"{size:,}" for size in sizes],
            "policies": policies,
            "points": [
                {
                    "size": sizes.index(point.tokens),
                    "policy": policies.index(point.gain.plan),
                    "name": point.name,
                    "predicted": point.gain.predicted,
                    "measured": point.gain.measured,
                    "low": point.gain.low,
                    "high": point.gain.high,
                }
                for point in points
            ],
        }


def _plan_to_run(tuning: Tuning, device: Device, costs: CostModel | None) -> Recommendation:
    pipeline = tuning.best.pipeline
    if costs is None:
        return verdict_on(pipeline, device)
    return recommend(pipeline, device, lambda _order: KnownCosts(costs, "the given costs"))


def _known(points: Sequence[TunedPoint]) -> tuple[TunedPoint, ...]:
    if not points:
        raise DescriptionError("TunerView: points is empty; give at least one")
    return tuple(points)


def _best(points: Sequence[TunedPoint]) -> int:
    return max(range(len(points)), key=lambda index: _worth(points[index]))


def _worth(point: TunedPoint) -> float:
    gain = point.gain
    return gain.predicted if gain.measured is None else gain.measured
