"""Measuring: the best few tuned plans on a GPU, interleaved, beside what was predicted.

Example: after tuning, `measure_best(tuning, runner)` runs stream sync and the three best plans in turns and
says which of them was fastest, and by how much the ranking was off.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.predict.prediction import Measured, improvement_points, measured_improvement
from wavesim.recordings.runner import Runner, refusal_of
from wavesim.trace.trace import Trace
from wavesim.tuning.ranking import TunedPlan, Tuning


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
