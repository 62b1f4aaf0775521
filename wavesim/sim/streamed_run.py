"""simulate_megakernel(): the work lists of a plan run on a simulated device, as the one Trace, and by stage.

Example: of a layer of Llama-3 8B the product "down" takes 30 us: an SM waits 1.4 us of these for "up", with
its ring full, and 0.6 us for bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wavesim.costs.device_costs import law_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.work_lists import NOTHING, WorkLists, lists_of_plan
from wavesim.sim.header import describe_stage, header_of
from wavesim.sim.weight_stream import PS, StageEntry, StreamingSm, WeightStream
from wavesim.trace.header import DependencyInfo, Header
from wavesim.trace.trace import Trace, Waits
from wavesim.work.streamed.law import MegakernelCosts

MOST_LOADS = 1_000_000  # a few seconds of one core
REPORT = "megakernel"  # in the costs of a trace's header


@dataclass(frozen=True)
class StageReport:
    """A stage of a megakernel, means over the SMs that have items of it.

    `time_ns`: from the last post of the stage before to its own. `wait_ns`: for that stage; `stall_ns`: for
    bytes that were not in the ring; `ring_bytes`: in the ring when the SM began. `roof_ns`: what a kernel
    takes that only reads `bytes`.
    """

    stage: str
    time_ns: int
    wait_ns: int
    stall_ns: int
    ring_bytes: int
    bytes: int
    roof_ns: int


def megakernel_costs(device: Device) -> MegakernelCosts:
    """The constants known of a device. Raises `DescriptionError` where there are none."""
    costs = law_of(MegakernelCosts, device.name)
    if costs is None:
        raise DescriptionError(
            f"no megakernel's constants are known of {device.name}; write a section [megakernel] into its "
            "file, or use h200"
        )
    return costs


def simulate_megakernel(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    costs: MegakernelCosts | None = None,
    *,
    waits: bool = True,
) -> Trace:
    """Runs the work lists of a plan; deterministic. Without `waits` nothing waits for a stage.

    Raises `DescriptionError` as `lists_of_plan` does, and `DeadlockError`.
    """
    costs = costs or megakernel_costs(device)
    return run_lists(lists_of_plan(pipeline, plan, device), plan, device, costs, waits=waits)


def run_lists(
    lists: WorkLists, plan: Plan, device: Device, costs: MegakernelCosts, *, waits: bool = True
) -> Trace:
    """The same of lists that are made already, perhaps by hand. Raises `DescriptionError` for too much."""
    loads = sum(lists.bytes_by_sm) // lists.schedule.chunk_bytes
    if loads > MOST_LOADS:
        raise DescriptionError(
            f"megakernel: {loads:,} loads of {lists.schedule.chunk_bytes:,} bytes; at most {MOST_LOADS:,} "
            "are simulated. Describe fewer layers, keys or sequences, or larger chunks"
        )
    stream = WeightStream(lists, costs, waits=waits)
    stream.run()
    rows = [
        (
            item.stage,
            item.x,
            item.y,
            item.z,
            sm.number,
            times.group,
            *(round(at / PS) for at in (times.start, times.wait, times.end)),
        )
        for sm in stream.sms
        for item, times in zip(sm.items, sm.times, strict=True)
    ]
    order = sorted(range(len(rows)), key=lambda row: rows[row][0])
    stage, x, y, z, sm, slot, start, wait, end = np.array([rows[row] for row in order], dtype=np.int64).T
    return Trace(
        _header(lists, plan, device, costs, reports_of(stream, costs)),
        *(stage, x, y, z, sm, slot),
        issue_ns=start,
        start_ns=start,
        wait_ns=wait,
        end_ns=end,
        waits=_waits(lists, stage, start, wait),
    )


def reports_of(stream: WeightStream, costs: MegakernelCosts) -> tuple[StageReport, ...]:
    """Of every stage of a run."""
    return tuple(_reports(stream, costs))


def stage_reports(trace: Trace) -> tuple[StageReport, ...]:
    """Those that a trace's header has. Raises `DescriptionError` for a trace of no megakernel."""
    entries = trace.header.costs.get(REPORT)
    if not isinstance(entries, list):
        raise DescriptionError(f"trace of plan {trace.header.plan} is of no megakernel; simulate one")
    return tuple(StageReport(**entry) for entry in entries)


def layer_ns(trace: Trace) -> int:
    """What a layer adds: where a trace has several the time per layer behind the first."""
    layers = int(trace.header.parameters.get("layers", 1))
    if layers == 1:
        return trace.makespan_ns
    reports = stage_reports(trace)
    per_layer = len(reports) // layers
    return round(sum(report.time_ns for report in reports[per_layer:]) / (layers - 1))


def _reports(stream: WeightStream, costs: MegakernelCosts) -> Iterator[StageReport]:
    stages, before = stream.lists.pipeline.stages, 0
    for number, stage in enumerate(stages):
        own = [
            [(item, times) for item, times in zip(sm.items, sm.times, strict=True) if item.stage == number]
            for sm in stream.sms
        ]
        own = [entries for entries in own if entries]
        end = max(times.end for entries in own for _, times in entries)
        size = sum(stream.lists.bytes_of(item) for entries in own for item, _ in entries)
        levels = [_level(sm, entry) for sm in stream.sms for entry in sm.entries if entry.stage == number]
        groups = min(stream.lists.schedule.groups, max(map(len, own)))
        yield StageReport(
            stage.name,
            time_ns=round((end - before) / PS),
            wait_ns=round(sum(max(t.wait for _, t in entries) for entries in own) / len(own) / PS),
            stall_ns=round(sum(t.stall for entries in own for _, t in entries) / len(own) / groups / PS),
            ring_bytes=round(sum(levels) / max(1, len(levels))),
            bytes=size,
            roof_ns=round(size / (costs.read_bytes_per_s or costs.dram_bytes_per_s) * 1e9),
        )
        before = end


def _level(sm: StreamingSm, entry: StageEntry) -> int:
    """Bytes in the ring when a stage began."""
    behind = zip(sm.chunks[entry.chunk :], sm.arrived[entry.chunk :], strict=False)
    return sum(size for (_, size), arrived in behind if arrived <= entry.ready)


def _waits(lists: WorkLists, stage: Any, start: Any, wait: Any) -> Waits:
    """Each wait that spun; counters are the header's dependencies, one semaphore each."""
    numbers = {edge: number for number, edge in enumerate(_edges(lists))}
    waits_for = {item.stage: item.wait for own in lists.items for item in own}
    rows = np.flatnonzero(wait)
    dependency = [numbers[waits_for[int(stage[row])], int(stage[row])] for row in rows]
    return Waits(
        rows, np.array(dependency, dtype=np.int64), np.zeros_like(rows), start[rows], (start + wait)[rows]
    )


def _edges(lists: WorkLists) -> Sequence[tuple[int, int]]:
    """(producer, consumer) of each wait, by the number of the consumer."""
    edges = {(item.wait, item.stage) for own in lists.items for item in own if item.wait != NOTHING}
    return sorted(edges, key=lambda edge: edge[1])


def _header(
    lists: WorkLists, plan: Plan, device: Device, costs: MegakernelCosts, reports: Sequence[StageReport]
) -> Header:
    pipeline, groups = lists.pipeline, lists.schedule.groups
    stages = pipeline.stages
    constants: Mapping[str, Any] = asdict(costs)
    return header_of(
        pipeline,
        plan,
        device,
        stages=tuple(describe_stage(stage, stage.kernel.block, device, groups) for stage in stages),
        dependencies=tuple(
            DependencyInfo(
                stages[producer].name,
                stages[consumer].name,
                "grid",
                (0,) * stages[producer].grid.tiles,
                (stages[producer].grid.tiles,),
            )
            for producer, consumer in _edges(lists)
        ),
        parameters={**pipeline.parameters, "ring_bytes": lists.ring_bytes},
        costs={**constants, REPORT: [asdict(report) for report in reports]},
        setup_ns=costs.setup_ns,
    )
