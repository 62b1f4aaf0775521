"""What tuning found: plans, fastest first, the one to run, and where the numbers come from.

Example: of 533 plans the table's first row gains 14 points and rests on an idle GPU; the plan to run is the
third, which CUDA's promises make safe, and a note names the faster ones with what they rest on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.predict.forecast import HELPS_POINTS, Forecast
from wavesim.predict.prediction import TIME_TEXT
from wavesim.safety.verdict import Basis, SafetyVerdict, require_basis

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
        """The plan to run: the first that rests on no more than is accepted, and gains enough for sure."""
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
        """Plain text: the first rows, stream sync, and where the numbers come from."""
        lines = [f"{'plan':<44}{'predicted':>12}{'gain':>8}{'semaphores':>12}{'safety':>8}"]
        shown = list(self.plans[:rows])
        stream = next((row for row in self.plans if row.plan.is_stream_sync), None)
        shown += [stream] if stream is not None and stream not in shown else []
        for row in shown:
            figures = f"{row.predicted_ns / 1e3:>9.1f} us{row.improvement_points:>+8.1f}{row.semaphores:>12}"
            figures += f"{row.safety.basis:>8}"
            lines.append(f"{row.name:<44}{figures}")
        return "\n".join([*lines, *self.notes])

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
            *(f"a worker ended, what it had was done again: {name}" for name in self.lost_workers),
        )


def best_of(ranked: Sequence[TunedPlan], accept: Basis) -> TunedPlan:
    """The first plan that rests on no more than is accepted and is worth it; stream sync where none is."""
    accepted = [row for row in ranked if row.safety.is_accepted(accept)] or list(ranked)
    worth_it = (row for row in accepted if row.is_worth_it)
    streams = (row for row in ranked if row.plan.is_stream_sync)
    return next(worth_it, next(streams, accepted[0]))
