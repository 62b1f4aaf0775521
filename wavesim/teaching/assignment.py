"""The assignment of notebook 7: a policy of one's own, scored by prediction and, if possible, measurement.

Picture: GPT-3's MLP at 768 tokens on an H200, its tile order fixed to groups of 8 rows. Row semaphores gain
nothing there, one per tile 12 points with 144 of them; six well chosen ones gain 11.
"""

from dataclasses import dataclass

from wavesim.analysis.default_cost import default_costs
from wavesim.analysis.prediction import Measured, improvement_points, measured_improvement
from wavesim.comparison import Runner, described_measurement
from wavesim.io.recordings import find_case
from wavesim.model import device as devices
from wavesim.model.order import Grouped
from wavesim.model.plan import SemaphoreSync, StreamSync
from wavesim.model.policy import Policy, RowSync, TileSync
from wavesim.sim.simulation import simulate
from wavesim.workloads.gpt3 import gpt3_mlp

TOKENS, ORDER = 768, Grouped(8)
LEAST_POINTS, MOST_SEMAPHORES = 10.0, 12


@dataclass(frozen=True)
class Score:
    """A policy's improvement over stream sync in points, and its semaphores; `source`: measured on what."""

    policy: str
    semaphores: int
    predicted_points: float
    measured: Measured | None = None
    source: str = "not measured"

    def __repr__(self) -> str:
        found = "" if self.measured is None else f"{self.measured.median:+.1f} points, "
        return (
            f"{self.policy}: {self.semaphores} semaphores, {self.predicted_points:+.1f} points predicted "
            f"(simulated, calibrated on the recorded stream-sync run); measured: {found}{self.source}"
        )


def predicted_score(policy: Policy) -> Score:
    """The policy simulated. Raises `DescriptionError` for one that is refused."""
    pipeline, device = gpt3_mlp(TOKENS), devices.load("h200")
    costs, _ = default_costs(pipeline, device, ORDER.name)
    stream = simulate(pipeline, StreamSync(order=ORDER), device, costs)
    trace = simulate(pipeline, SemaphoreSync(policy, order=ORDER), device, costs)
    count = policy.table(pipeline.stages[0].grid).count
    return Score(policy.name, count, improvement_points(trace.time_ns, stream.time_ns))


def score(policy: Policy, runner: Runner | None = None) -> Score:
    """The policy simulated, and measured: live with a runner, else recorded if a recorded one groups alike.

    Raises `DescriptionError` for a policy that is refused.
    """
    predicted = predicted_score(policy)
    if runner is not None:
        plans = [StreamSync(order=ORDER), SemaphoreSync(policy, order=ORDER)]
        stream, ours = runner.measure(gpt3_mlp(TOKENS), plans)
        source = f"live, {described_measurement(ours)}"
    else:
        pipeline = gpt3_mlp(TOKENS)
        grid = pipeline.stages[0].grid
        case = find_case(pipeline, devices.load("h200"), ORDER.name)
        known = [one for one in (RowSync(), TileSync()) if one.table(grid) == policy.table(grid)]
        if case is None or not known:
            words = "nothing, as only row and tile policies are recorded; with a GPU this cell measures yours"
            return Score(policy.name, predicted.semaphores, predicted.predicted_points, source=words)
        stream, ours = case.trace("stream"), case.trace(known[0].name)
        source = f"recorded, {described_measurement(ours)}"
    gain = measured_improvement(ours, stream)
    return Score(policy.name, predicted.semaphores, predicted.predicted_points, gain, source)
