"""design_megakernel(): which SM computes which tile, what is split, how far ahead; simulated, with reasons.

Example: of Llama-3.2-1B's layer the design tries 20 kernels, a change at a time: attention in 8 splits in
place of 2 saves 2 us, K of the product "down" in 2 saves nothing, so it stays whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.megakernel import Megakernel, Placement
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync
from wavesim.plan.sync import Semaphores
from wavesim.sim.streamed_run import layer_ns, simulate_megakernel, stage_reports
from wavesim.trace.trace import Trace
from wavesim.work.streamed.law import MegakernelCosts
from wavesim.workloads.decode_steps import in_a_row

SPLITS = (1, 2, 4, 8, 16)
GROUPS = (1, 2, 4)
PLACEMENTS: tuple[Placement, ...] = ("balanced", "continued", "restarted")
LAYERS = 2  # simulated in a row: the second begins as all later ones
WORTH = 0.003  # of a layer's time: a smaller saving is no reason for a change
LOST = 1.02  # times the best: further changes of the kind are not tried
MOST_LEFT = 6  # changes that the reasons name
RINGS = (0.25, 0.5)  # of all there is, to say what less would cost


@dataclass(frozen=True)
class TriedKernel:
    """A change of the design so far, and what a layer takes with it; `reason` where it cannot be."""

    change: str
    time_ns: int = 0
    reason: str = ""
    is_taken: bool = False


@dataclass(frozen=True, eq=False)
class MegakernelDesign:
    """The best kernel of those tried: a layer with its splits, the plan, a trace of two layers in a row."""

    layer: Pipeline
    plan: Plan
    trace: Trace
    tried: tuple[TriedKernel, ...]

    @property
    def time_ns(self) -> int:
        """Of a layer behind others."""
        return layer_ns(self.trace)

    @property
    def reasons(self) -> list[str]:
        """A line for each change that was taken, then for the fastest that were left."""
        first = self.tried[0]
        lines = [f"{first.change}: {first.reason}"] if first.reason else []
        taken = [kernel for kernel in self.tried if kernel.is_taken]
        left = [kernel for kernel in self.tried if kernel.time_ns and not kernel.is_taken]
        left.sort(key=lambda kernel: kernel.time_ns)
        for word, kernels in (("taken", taken), ("left", left[:MOST_LEFT])):
            lines += [f"{kernel.change}: {kernel.time_ns / 1e3:.1f} us a layer, {word}" for kernel in kernels]
        return lines


def design_megakernel(
    layer: Pipeline,
    device: Device,
    *,
    costs: MegakernelCosts | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MegakernelDesign:
    """Tries one change after another, and keeps what saves more than `WORTH`.

    Raises `DescriptionError` for a layer of which no kernel fits, with the reason of the last.
    """
    search = _Search(device, costs, layer)
    series = list(_changes(layer))
    for number, changes in enumerate(series, start=1):
        for change in changes:
            if search.attempt(*change) > LOST * search.best_ns:
                break
        if progress is not None:
            progress(number, len(series))
    search.attempt_rings()
    return search.design()


Change = tuple[
    str, Mapping[str, int], Mapping[str, object]
]  # in words, splits by stage, fields of the schedule


def _changes(layer: Pipeline) -> Iterator[list[Change]]:
    """Series of changes, as described first; splits before groups and placements, which depend on them."""
    yield [("as described", {}, {})]
    for stage in layer.stages:
        counts = [count for count in SPLITS if stage.work.in_splits(count)]
        more = [count for count in counts if count > stage.grid.z]
        fewer = [count for count in reversed(counts) if count < stage.grid.z]
        yield from ([_in_splits(stage.name, count) for count in series] for series in (more, fewer))
    yield [(f"{groups} groups of warps", {}, {"groups": groups}) for groups in GROUPS[1:]]
    yield [(f"items {placement}", {}, {"placement": placement}) for placement in PLACEMENTS[1:]]


def _in_splits(stage: str, count: int) -> Change:
    return f"{stage} in {count} split{'s' * (count > 1)}", {stage: count}, {}


class _Search:
    """The best kernel so far."""

    def __init__(self, device: Device, costs: MegakernelCosts | None, layer: Pipeline) -> None:
        self.device, self.costs, self.layer = device, costs, layer
        self.schedule = Megakernel()
        self.trace: Trace | None = None
        self.tried: list[TriedKernel] = []

    @property
    def best_ns(self) -> int:
        """What a layer takes with the best kernel; 0 as long as none fits."""
        return 0 if self.trace is None else layer_ns(self.trace)

    def attempt(self, change: str, splits: Mapping[str, int], fields: Mapping[str, object]) -> int:
        """Simulates the best kernel with a change, kept where it is worth it; 0 where it cannot be."""
        layer = _split(self.layer, splits)
        schedule = replace(self.schedule, **fields)  # type: ignore[arg-type]  # fields of the schedule
        try:
            trace = self._simulated(layer, schedule)
        except DescriptionError as error:
            self.tried.append(TriedKernel(change, reason=str(error)))
            return 0
        time_ns = layer_ns(trace)
        is_better = not self.best_ns or time_ns < (1 - WORTH) * self.best_ns
        if is_better:
            self.layer, self.schedule, self.trace = layer, schedule, trace
        self.tried.append(TriedKernel(change, time_ns, is_taken=is_better))
        return time_ns

    def attempt_rings(self) -> None:
        """What a smaller ring would cost; the largest is kept, since nothing else needs the memory."""
        if self.trace is None:
            return
        room = int(self.trace.header.parameters["ring_bytes"])
        for share in RINGS:
            size = int(room * share) // self.schedule.chunk_bytes * self.schedule.chunk_bytes
            if size:
                trace = self._simulated(self.layer, replace(self.schedule, ring_bytes=size))
                self.tried.append(TriedKernel(f"a ring of {size // 1024} KB", layer_ns(trace)))

    def design(self) -> MegakernelDesign:
        """Raises `DescriptionError` where no kernel fits."""
        if self.trace is None:
            raise DescriptionError(self.tried[-1].reason)
        return MegakernelDesign(self.layer, _plan(self.schedule), self.trace, tuple(self.tried))

    def _simulated(self, layer: Pipeline, schedule: Megakernel) -> Trace:
        return simulate_megakernel(in_a_row(layer, LAYERS), _plan(schedule), self.device, self.costs)


def times_by_ring(
    layer: Pipeline, schedule: Megakernel, device: Device, sizes: Sequence[int]
) -> list[tuple[int, float]]:
    """(bytes, times one read of the layer's bytes) for rings of so many bytes."""
    times = []
    for size in sizes:
        plan = _plan(replace(schedule, ring_bytes=size))
        trace = simulate_megakernel(in_a_row(layer, LAYERS), plan, device)
        roof_ns = sum(report.roof_ns for report in stage_reports(trace)) / LAYERS
        times.append((size, layer_ns(trace) / roof_ns))
    return times


def _plan(schedule: Megakernel) -> Plan:
    return Plan(schedule, sync=Semaphores(GridSync()))


def _split(layer: Pipeline, splits: Mapping[str, int]) -> Pipeline:
    stages = {stage.name: stage for stage in layer.stages}
    for name, count in splits.items():
        work = stages[name].work.in_splits(count)
        assert work is not None, "only changes that can be are tried"
        stages[name] = replace(stages[name], work=work)
    return layer.with_stages(stages)
