"""What tuning found: plans, fastest first, the plan to run, and the best few measured beside the prediction.

Example: of 533 plans the table's first row gains 14 points and rests on an idle GPU; the plan to run is the
third, which CUDA's promises make safe, and a note names the faster ones with what they rest on.
`measure_best(tuning, runner)` runs stream sync and the three best plans interleaved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.predict.forecast import HELPS_POINTS, Forecast
from wavesim.predict.prediction import TIME_TEXT, Measured, improvement_points, measured_improvement
from wavesim.recordings.runner import Runner, refusal_of
from wavesim.safety.verdict import Basis, SafetyVerdict, require_basis
from wavesim.trace.trace import Trace

TABLE_ROWS = 12


@dataclass(frozen=True)
class TunedPlan:
    """One plan of the ranking; improvements are over the best stream-sync plan, in points.

    `order` names its choice of orders, which its costs were found by; `safety` says what it rests on;
    `needed_points`: the least gain for which it is run, by how far such predictions are off.
    """

    name: str
    pipeline: Pipeline
    plan: Plan
    order: str
    predicted_ns: int
    improvement_points: float
    semaphores: int
    safety: SafetyVerdict
    needed_points: float = HELPS_POINTS

    @property
    def is_worth_it(self) -> bool:
        """Whether it is one to run in place of stream sync."""
        return self.improvement_points >= self.needed_points

    @property
    def text(self) -> str:
        """The plan as one says it: "row semaphores, grouped:4 order"."""
        sync, _, rest = self.name.partition(" ")
        launch = rest.removeprefix(self.order).strip()
        words = f"{sync} semaphores" if self.plan.sync.has_semaphores else self.plan.label.lower()
        return f"{words}, {self.order} order" + (f", {launch}" if launch else "")


@dataclass(frozen=True)
class Tuning:
    """Plans, best first. `forecasts` has, by each basis of `accept`, the improvement of the plan to run.

    `left_out` counts plans not simulated, by reason. `accept`: the weakest basis that the safety of `best`
    may have. `lost_workers` ended before their time; what they had was done again.
    """

    workload: str
    device: str
    plans: tuple[TunedPlan, ...]
    forecasts: Mapping[Basis, Forecast]
    left_out: Mapping[str, int]
    seconds: float
    is_complete: bool
    accept: Basis = "cuda"
    lost_workers: tuple[str, ...] = ()

    @property
    def forecast(self) -> Forecast:
        """The improvement of the best plan over the best stream-sync plan, with what it rests on."""
        return self.forecasts[self.accept]

    @property
    def best(self) -> TunedPlan:
        """The fastest that rests on no more than is accepted and surely gains.

        What to run is `recommend`'s to say: it puts no unscored guess above a scored plan.
        """
        return best_of(self.plans, self.accept)

    def accepting(self, accept: str) -> "Tuning":
        """The same ranking where `best` may rest on more: "cuda", "seen" or "idle"; each takes those before.

        Raises `DescriptionError`.
        """
        return replace(self, accept=require_basis(accept))

    @property
    def faster(self) -> tuple[TunedPlan, ...]:
        """The fastest plan of each weaker basis that is not accepted, where it is faster than `best`."""
        rows: dict[Basis | None, TunedPlan] = {}
        for row in self.plans:
            if row.predicted_ns < self.best.predicted_ns and not row.safety.is_accepted(self.accept):
                rows.setdefault(row.safety.basis, row)
        return tuple(rows.values())

    @property
    def unsure(self) -> TunedPlan | None:
        """The fastest accepted plan that is predicted faster than `best`, by too little to be run."""
        best = self.best
        return next(
            (
                row
                for row in self.plans
                if row.safety.is_accepted(self.accept)
                and row.predicted_ns < best.predicted_ns
                and row.improvement_points >= HELPS_POINTS
            ),
            None,
        )

    def table(self, rows: int = TABLE_ROWS) -> str:
        """Plain text: the fastest plans and stream sync."""
        state = "" if self.is_complete else ", interrupted"
        head = f"fastest of {len(self.plans)} plans simulated in {self.seconds:.1f} s{state}"
        width = max(44, len(head) + 2)
        lines = [f"{head:<{width}}{'time':>11}{'gain':>10}{'safe by':>10}"]
        shown = list(self.plans[:rows])
        stream = next((row for row in self.plans if row.plan.is_stream_sync), None)
        shown += [stream] if stream is not None and stream not in shown else []
        for row in shown:
            gain = f"{row.improvement_points:+.1f} %"
            lines.append(
                f"{row.name:<{width}}{row.predicted_ns / 1e3:>8.1f} us{gain:>10}{row.safety.basis:>10}"
            )
        lost = (f"a worker was lost, what it had was done again: {name}" for name in self.lost_workers)
        return "\n".join([*lines, *lost])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers mean."""
        unsure = () if self.unsure is None else (self.unsure,)
        left = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items() if count) or "none"
        state = "" if self.is_complete else " (interrupted: the plans simulated so far)"
        return (
            f"{len(self.plans)} plans simulated in {self.seconds:.1f} s{state}; left out: {left}",
            f"predicted: {TIME_TEXT}",
            f"gain: points over the best stream-sync plan, simulated, {self.forecast.basis}",
            f"interval: {self.best.name}, {self.forecast.interval_text}",
            f"before: {self.forecast.history}",
            "safety: cuda promises it; seen on listed devices; idle: if other work leaves SMs alone",
            *(
                f"faster, but rests on more: {row.name}, {row.improvement_points:+.1f}: {row.safety.rests_on}"
                for row in self.faster
            ),
            *(
                f"faster, but not for sure: {row.name}, {row.improvement_points:+.1f}; by how far such "
                f"predictions are off, {row.needed_points:.1f} are asked"
                for row in unsure
            ),
            *self.forecast.caveats,
        )


def best_of(ranked: Sequence[TunedPlan], accept: Basis) -> TunedPlan:
    """The first plan that rests on no more than is accepted and is worth it; stream sync where none is."""
    accepted = [row for row in ranked if row.safety.is_accepted(accept)] or list(ranked)
    worth_it = (row for row in accepted if row.is_worth_it)
    streams = (row for row in ranked if row.plan.is_stream_sync)
    return next(worth_it, next(streams, accepted[0]))


@dataclass(frozen=True)
class MeasuredPlan:
    """A tuned plan, the median of its rounds, and both gains over the stream-sync plan measured with it."""

    name: str
    predicted_ns: int
    measured_ns: int
    predicted_points: float
    measured_points: Measured

    @property
    def error_points(self) -> float:
        """Predicted minus measured gain."""
        return self.predicted_points - self.measured_points.median


@dataclass(frozen=True)
class Measurement:
    """Measured plans, fastest first; `tuned` is the one that tuning would run."""

    plans: tuple[MeasuredPlan, ...]
    tuned: str

    @property
    def regret_points(self) -> float:
        """By how much the tuned plan took longer than the fastest measured one, in points of the latter."""
        tuned = next(row for row in self.plans if row.name == self.tuned)
        return -improvement_points(tuned.measured_ns, self.plans[0].measured_ns)

    def table(self) -> str:
        """Plain text, fastest first."""
        lines = [f"{'plan':<40}{'predicted':>20}{'measured':>20}{'error':>8}"]
        for row in self.plans:
            predicted = f"{row.predicted_ns / 1e3:.1f} us {row.predicted_points:+.1f}"
            measured = f"{row.measured_ns / 1e3:.1f} us {row.measured_points.median:+.1f}"
            mark = " (tuned)" if row.name == self.tuned else ""
            lines.append(f"{row.name + mark:<40}{predicted:>20}{measured:>20}{row.error_points:>+8.1f}")
        return "\n".join([*lines, f"regret of the tuned plan: {self.regret_points:.1f} points"])


def measure_best(tuning: Tuning, runner: Runner, count: int = 3, rounds: int = 20) -> Measurement:
    """Measures stream sync and the `count` best plans of the tuned pipeline in turns.

    Plans of other tile sizes or split-K are other kernels and are measured where they are the base. Of plans
    but the best one those that the runner does not run are left out.
    Raises `DescriptionError` if no stream-sync plan was tuned, and what the runner raises.
    """
    pipeline = tuning.best.pipeline
    own = [row for row in tuning.plans if row.pipeline == pipeline]
    stream = next((row for row in own if row.plan.is_stream_sync), None)
    if stream is None:
        raise DescriptionError(f"{tuning.workload}: no stream-sync plan to measure against; tune to the end")
    others = [row for row in own if row is not stream and row is not tuning.best]
    best = others if tuning.best is stream else [tuning.best, *others]
    possible = [row for row in best if row is tuning.best or not refusal_of(runner, pipeline, row.plan)]
    chosen = [stream, *possible[:count]]
    traces = runner.measure(pipeline, [row.plan for row in chosen], rounds=rounds)
    rows = [_measured(row, trace, stream, traces[0]) for row, trace in zip(chosen, traces, strict=True)]
    return Measurement(tuple(sorted(rows, key=lambda row: row.measured_ns)), tuning.best.name)


def _measured(row: TunedPlan, trace: Trace, stream: TunedPlan, baseline: Trace) -> MeasuredPlan:
    return MeasuredPlan(
        name=row.name,
        predicted_ns=row.predicted_ns,
        measured_ns=trace.time_ns,
        predicted_points=improvement_points(row.predicted_ns, stream.predicted_ns),
        measured_points=measured_improvement(trace, baseline),
    )
