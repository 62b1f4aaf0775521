"""Where the published gains of convolutions come from: the host's waits, the boundaries of kernels, the tail.

Example: of the 16 points that two convolutions of 256 channels gain at batch 1, 13 are the host, which waited
after every kernel of the baseline and once under cuSync, and 5 the boundary between two launches; what tiles
win that need not wait for a whole kernel is less than their waits cost.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from wavesim.costs.device_costs import costs_of, with_host_sync
from wavesim.plan.plan import StreamSync
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.sim.simulation import simulate

OPERATIONS = {2: "conv", 4: "chain"}  # of the published files, by how many follow each other


@dataclass(frozen=True)
class PublishedGain:
    """A pair or chain on a V100: published times, and where the simulated gain comes from, in points.

    `host`: waits of the host after each kernel; `boundary`: launches behind each other; `tail`: the rest.
    `has_other_tiles`: the policy ran in other tiles or splits than its baseline, which alone is an effect.
    """

    stream_us: float
    best_us: float
    policy: str
    host: float
    boundary: float
    tail: float
    has_other_tiles: bool

    @property
    def published(self) -> float:
        """Of the best policy, in points."""
        return 100 * (1 - self.best_us / self.stream_us)

    @property
    def simulated(self) -> float:
        """All three together."""
        return self.host + self.boundary + self.tail


@cache
def published_gain(count: int, channels: int, batch: int) -> PublishedGain | None:
    """Of the best published policy; None where the files have no such row."""
    runs = [
        run
        for run in published_runs(OPERATIONS[count])
        if run.size == batch and run.case.split()[2] == f"C={channels}"
    ]
    if not runs:
        return None
    best = min(runs, key=lambda run: run.time_us)
    host, boundary, tail = _simulated_parts(best)
    is_same = best.is_same_configuration
    return PublishedGain(best.stream_us, best.time_us, best.policy, host, boundary, tail, not is_same)


def _simulated_parts(run: PublishedRun) -> tuple[float, float, float]:
    """(host, boundary, tail) in points of the baseline, each what is left when the one before is gone."""
    known = costs_of(run.device.name)
    costs = costs_from_kernel_times(run.pipeline, run.device, run.kernel_ns, with_host_sync(known))
    stream = StreamSync(run.plan.order)
    boundaries = (costs.boundary_ns, known.overheads["boundary_ns"], 0)
    times = [
        simulate(run.pipeline, stream, run.device, replace(costs, boundary_ns=ns)).time_ns
        for ns in boundaries
    ]
    times.append(simulate(run.pipeline, run.plan, run.device, costs).time_ns)
    parts = [100 * (one - other) / times[0] for one, other in pairwise(times)]
    return parts[0], parts[1], parts[2]
