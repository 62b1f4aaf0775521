"""compare(): plans side by side, predicted and measured, in one table and one figure.

Example: a notebook cell `compare(gpt3_mlp(1024), plans, device)`. With a GPU runner it
measures live; without one it takes the recordings that ship with wavesim, and says so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from wavesim.costs.calibration_checks import contradictions
from wavesim.costs.calibration_text import trace_defaults, trace_text
from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.defaults import find_costs
from wavesim.predict.forecast import Forecast, HasForecast, placement_caveat
from wavesim.predict.kernel_times import kernel_times_of
from wavesim.predict.kinds import STREAM_TRACE, known_text
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.prediction import (
    TIME_TEXT,
    Measured,
    calibrate_for,
    measured_improvement,
    require_same_kernels,
)
from wavesim.recordings.runner import Runner, measured_traces
from wavesim.safe_io.annotated import require_types, tuple_of
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.escaping import WIDTH, lines
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict
from wavesim.trace.trace import Trace
from wavesim.view.comparison_table import comparison_html, record_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Row(HasForecast):
    """One plan: times in ns, improvements over stream sync in points; None where nothing was measured.

    `forecast` is the predicted improvement with its interval and what it rests on, `safety` whether the plan
    can deadlock.
    """

    plan: str
    label: str
    order: str
    predicted_ns: int
    forecast: Forecast
    safety: SafetyVerdict
    measured_ns: int | None = None
    measured_points: Measured | None = None

    @property
    def predicted_points(self) -> float:
        """The predicted improvement."""
        return self.forecast.points

    def as_json(self) -> dict[str, Any]:
        """The row as JSON shows it."""
        return {
            "plan": self.plan,
            "label": self.label,
            "order": self.order,
            "predicted_ns": self.predicted_ns,
            "predicted_points": self.predicted_points,
            "low": self.low,
            "high": self.high,
            "scored": self.scored,
            "interval": self.forecast.interval_text,
            "measured_ns": self.measured_ns,
            "measured_points": None if self.measured_points is None else asdict(self.measured_points),
            "error_points": self.error_points,
            "safety": self.safety.as_json(),
        }

    @property
    def error_points(self) -> float | None:
        """Predicted minus measured improvement."""
        return None if self.measured_points is None else self.predicted_points - self.measured_points.median


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows and traces, plan by plan, the stream-sync baseline first.

    `basis` says what the prediction was made from, `source` where the measurement comes from,
    `defaults` names what was assumed for want of a measurement on the device, `history` how far prediction
    and measurement of this kind have differed before, and `caveats` which plans have never been measured.
    """

    workload: str
    rows: tuple[Row, ...]
    predicted: tuple[Trace, ...]
    measured: tuple[Trace | None, ...]
    basis: str
    source: str
    history: str
    caveats: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()

    @property
    def best(self) -> Row:
        """The row that is predicted to gain most."""
        return max(self.rows, key=lambda row: row.predicted_points)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A dictionary of numbers per plan, times in us, as `pandas.DataFrame(comparison.records)` takes."""
        return [record_of(row) for row in self.rows]

    def _repr_html_(self) -> str:
        return str(comparison_html(self))

    def table(self) -> str:
        """Plain text: a row per plan with its time, gain and interval, and what was measured beside it."""
        is_measured = self._is_measured
        orders = {row.order for row in self.rows}
        names = [row.label + (f", {row.order}" if len(orders) > 1 else "") for row in self.rows]
        width = max(len(self.workload), *map(len, names)) + 2
        head = f"{self.workload:<{width}}{'time':>11}{'gain':>10}{'interval':>18}"
        if is_measured:
            head += f"{'measured':>12}{'gain':>10}{'error':>8}"
        rows = [
            f"{name:<{width}}{_cells(row, is_measured)}" for name, row in zip(names, self.rows, strict=True)
        ]
        summary = chain.from_iterable(wrap(line, WIDTH, subsequent_indent="  ") for line in self.summary)
        return "\n".join([head, *(row.rstrip() for row in rows), *summary])

    @property
    def summary(self) -> tuple[str, ...]:
        """What the table's numbers are, in at most four lines."""
        basis = self.basis.partition(";")[0]
        source = "nothing measured" if self.source.startswith("nothing") else f"measured: {self.source}"
        return (
            f"simulated, {basis}; {source}",
            "gain = 1 - time / time under stream sync"
            + ("; error = predicted - measured" * self._is_measured),
            *self._short_safety,
        )

    @property
    def _is_measured(self) -> bool:
        return any(row.measured_ns is not None for row in self.rows)

    @property
    def _short_safety(self) -> tuple[str, ...]:
        labels: dict[str, list[str]] = {}
        for row in self._resting:
            short = f"safe only if {row.safety.short}" if row.safety.is_safe else row.safety.reason
            labels.setdefault(short, []).append(row.label)
        return tuple(f"{', '.join(plans)}: {text}" for text, plans in labels.items())

    @property
    def notes(self) -> tuple[str, ...]:
        """Where every number comes from; a line on every plan's safety."""
        return self._notes(f"{row.label}: {row.safety.text}" for row in self._resting)

    @property
    def shown_notes(self) -> tuple[str, ...]:
        """The same for people: plans that are safe for the same reason share a line."""
        labels: dict[str, list[str]] = {}
        for row in self._resting:
            labels.setdefault(row.safety.text, []).append(row.label)
        return self._notes(f"{', '.join(plans)}: {text}" for text, plans in labels.items())

    @property
    def _resting(self) -> list[Row]:
        """Plans whose safety needs more than CUDA promises."""
        return [row for row in self.rows if row.safety.basis != "cuda"]

    def _notes(self, safety: Iterable[str]) -> tuple[str, ...]:
        return (
            f"predicted: simulated, {self.basis}",
            f"measured: {self.source}",
            f"before: {self.history}",
            self._interval_text,
            *safety,
            *self.caveats,
            f"times: {TIME_TEXT}",
            "points of improvement over stream sync, 1 - t / t_stream; error = predicted - measured",
        )

    @property
    def _interval_text(self) -> str:
        # Stream sync is what the others are compared with: its own interval would be 0 to 0 and say nothing.
        best = max(self.rows[1:] or self.rows, key=lambda row: row.predicted_points)
        return f"interval: {best.label}, {best.forecast.interval_text}"

    def figure(self, theme: str = "light", **options: Any) -> "Figure":
        """Predicted and measured timelines of every plan on one axis, with the reasons for the difference."""
        from wavesim.view.comparison import (
            comparison_figure,  # plotly only where a figure is drawn
        )

        return comparison_figure(self, theme=theme, **options)

    def __repr__(self) -> str:
        return lines(self.table())


def _cells(row: Row, is_measured: bool) -> str:
    is_baseline = row.forecast.low == row.forecast.high == row.predicted_points == 0
    gain = "-" if is_baseline else f"{row.predicted_points:+.1f} %"
    interval = "-" if is_baseline else f"{row.low:+.1f} to {row.high:+.1f}"
    cells = f"{row.predicted_ns / 1e3:>8.1f} us{gain:>10}{interval:>18}"
    if not is_measured:
        return cells
    if row.measured_ns is None:
        return f"{cells}{'-':>12}"
    points = "-" if row.measured_points is None or is_baseline else f"{row.measured_points.median:+.1f} %"
    error = "" if row.error_points is None or is_baseline else f"{row.error_points:+.1f}"
    return f"{cells}{row.measured_ns / 1e3:>9.1f} us{points:>10}{error:>8}"


def compare(
    pipeline: Pipeline,
    plans: Sequence[Plan],
    device: Device,
    runner: Runner | None = None,
    costs: CostModel | KnownCosts | None = None,
    rounds: int = 20,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Predicts all plans and sets measurements beside them: live with a runner, else from recordings.

    A stream-sync plan in the first plan's order is put first if there is none. Stream sync and semaphores
    are measured; plans that need other kernels are only predicted. Predictions come from `costs` if given
    (with `described_costs` their intervals too), else from the live stream-sync measurement alone, else from
    the best costs known (`find_costs`).
    `progress(done, total)` after every plan predicted.
    """
    require_types("compare", pipeline=(pipeline, Pipeline), device=(device, Device))
    require_types(
        "compare", costs=(costs, CostModel | KnownCosts | None), progress=(progress, Callable | None)
    )
    whole("compare: rounds", rounds, least=1)
    plans = _with_baseline(tuple_of("compare", "plans", plans, Plan))
    measured, source = measured_traces(pipeline, plans, device, runner, rounds)
    baseline = measured[0]
    known = _known(pipeline, plans, device, baseline if runner is not None else None, costs)
    predicted: list[Trace] = []
    for done, plan in enumerate(plans, start=1):
        predicted.append(known.simulated(pipeline, plan, device))
        if progress is not None:
            progress(done, len(plans))
    caveats = tuple(plan.caveat for plan in plans if plan.caveat) + _other_orders(plans)
    caveats += contradictions(pipeline, device, kernel_times_of(baseline)) if baseline is not None else ()
    rows = tuple(
        _row(
            plan,
            ours,
            theirs,
            baseline,
            safety_of(pipeline, plan, device),
            known.forecast(
                ours,
                known.points(ours.time_ns, predicted[0].time_ns),
                caveats,
                known.alternatives(pipeline, plan, plans[0], device),
            ),
        )
        for plan, ours, theirs in zip(plans, predicted, measured, strict=True)
    )
    caveats += tuple(dict.fromkeys(chain.from_iterable(map(placement_caveat, predicted))))
    past = max(rows[1:] or rows, key=lambda row: row.predicted_points).forecast.history
    return Comparison(
        pipeline.name, rows, tuple(predicted), measured, known.source, source, past, caveats, known.defaults
    )


def prediction_keys(comparison: Comparison) -> dict[str, Any]:
    """What JSON says of every prediction, for the plan that is predicted to gain most."""
    return comparison.best.forecast.as_json()


def _known(
    pipeline: Pipeline,
    plans: tuple[Plan, ...],
    device: Device,
    live: Trace | None,
    costs: CostModel | KnownCosts | None,
) -> KnownCosts:
    """The costs to predict with: the caller's, else those of the live stream-sync run, else the best."""
    if isinstance(costs, KnownCosts):
        return costs
    if costs is not None:
        return KnownCosts(costs, "with costs given by the caller")
    if live is None:
        return find_costs(pipeline, device, _order_name(plans[0]))
    require_same_kernels(pipeline, live, device)
    model = calibrate_for(pipeline, device, live)
    basis = f"calibrated on the measured stream-sync run; {trace_text(live, model)}"
    defaults = tuple(map(str, trace_defaults(live)))
    known_as = known_text(STREAM_TRACE, pipeline)
    return KnownCosts(model, basis, defaults=defaults, is_calibrated=True, known_as=known_as)


def _order_name(plan: Plan) -> str:
    """The one order of all stages, "" where they differ."""
    return "" if plan.orders else plan.order.name


def _other_orders(plans: tuple[Plan, ...]) -> tuple[str, ...]:
    """Says which plans take their tiles in another order than the one whose costs predict them."""
    first = _order_name(plans[0])
    others = dict.fromkeys(plan.label for plan in plans[1:] if _order_name(plan) != first)
    if not others:
        return ()
    return (f"{', '.join(others)}: predicted with the costs of stream sync's order, not of its own",)


def _with_baseline(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    if not plans:
        raise DescriptionError("compare: plans is empty; give at least one, such as SemaphoreSync(RowSync())")
    streams = [plan for plan in plans if plan.name == "stream"]
    baseline = streams[0] if streams else StreamSync(plans[0].order, plans[0].orders)
    return (baseline, *(plan for plan in plans if plan != baseline))


def _row(
    plan: Plan,
    ours: Trace,
    theirs: Trace | None,
    baseline: Trace | None,
    safety: SafetyVerdict,
    forecast: Forecast,
) -> Row:
    """One plan's row; `baseline` is the measured stream-sync run."""
    row = Row(
        plan=plan.name,
        label=plan.label,
        order=plan.order.name,
        predicted_ns=ours.time_ns,
        forecast=forecast,
        safety=safety,
    )
    if theirs is None or baseline is None:
        return row
    return replace(row, measured_ns=theirs.time_ns, measured_points=_improvement(theirs, baseline))


def _improvement(trace: Trace, baseline: Trace) -> Measured | None:
    """None for a plan that was not measured interleaved with the baseline."""
    ours, theirs = trace.header, baseline.header
    is_together = (ours.date, ours.commit, ours.parameters) == (theirs.date, theirs.commit, theirs.parameters)
    return measured_improvement(trace, baseline) if is_together else None
