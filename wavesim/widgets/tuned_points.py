"""Gains to choose from: one per size and policy, predicted by a tuning or measured in the recordings.

Example: at 1,024 tokens row semaphores are predicted to gain 12.2 points and measured to gain 12.2; the two
traces behind the point are made or loaded when somebody asks for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import Device, default_device, load
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import default_costs
from wavesim.predict.prediction import measured_improvement, predict_from_stream
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.tuning.ranking import TunedPlan, Tuning
from wavesim.view.gain_figure import Gain
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
