"""Traces as one file for Perfetto (ui.perfetto.dev): a process per SM, a thread per slot, arrows.

Example: "simulated, row semaphores: SM 3" above "measured, row semaphores: SM 3"; on slot 0 the slice
"gemm2 (5, 2)" with "waits for row 2 of gemm1" inside it, and an arrow to it from the last tile of that row.

Format: Trace Event Format of Chromium (JSON, times in microseconds), which Perfetto reads; `.json.gz` too.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.writing import write_bytes
from wavesim.trace.metrics import link_rates
from wavesim.trace.trace import Trace, Transfers
from wavesim.workloads.catalogue import parse_tile, workload

Tile = tuple[int, int, int]  # stage, x, y


def find_last_producers(trace: Trace, pipeline: Pipeline | None = None) -> dict[int, int]:
    """{consumer block: producer block}; of a split-K tile the slice that ended last.

    Without a pipeline that of the trace's catalogued workload; empty if it has none. Raises
    `DescriptionError` for a pipeline of other grids than the trace's.
    """
    if pipeline is None:
        pipeline = _catalogued(trace)
    elif not _fits(trace, pipeline):
        raise DescriptionError(
            f"pipeline {pipeline.name} has other stages or grids than the trace of {trace.header.workload}"
        )
    if pipeline is None:
        return {}
    names = [stage.name for stage in pipeline.stages]
    columns = (trace.stage, trace.x, trace.y)
    tiles: list[Tile] = list(zip(*(column.tolist() for column in columns), strict=True))
    ends = trace.end_ns.tolist()
    last: dict[Tile, int] = {}
    for block, tile in enumerate(tiles):
        if tile not in last or ends[block] > ends[last[tile]]:
            last[tile] = block
    producers = {}
    for block, (stage, x, y) in enumerate(tiles):
        dependency = pipeline.dependency_of(names[stage])
        if dependency is not None:
            reads = [last[names.index(name), *tile] for name, tile in dependency.producer_tiles(x, y)]
            producers[block] = max(reads, key=ends.__getitem__)
    return producers


def _catalogued(trace: Trace) -> Pipeline | None:
    """The workload that the trace's header names, if it is catalogued and has the trace's grids."""
    settings = trace.header.parameters
    try:
        tokens = int(settings["tokens"]) if "tokens" in settings else None
        tile = parse_tile(str(settings["tile"])) if "tile" in settings else None
        pipeline = workload(trace.header.workload, tokens, tile)
    except (DescriptionError, ValueError):
        return None
    return pipeline if _fits(trace, pipeline) else None


def _fits(trace: Trace, pipeline: Pipeline) -> bool:
    ours = [(stage.name, (stage.grid.x, stage.grid.y, stage.grid.z)) for stage in pipeline.stages]
    return ours == [(info.name, tuple(info.grid)) for info in trace.header.stages]


KINDS = (".json", ".json.gz")
MOST_SMS = 10_000  # pids of one trace; the next begins at a multiple of it
EVENTS_PID = MOST_SMS - 1  # launches and kernel boundaries, beside the SMs
ARRIVALS_PID = EVENTS_PID - 1  # of GPU 0; the next have lower ones
MOST_DEVICES_SHOWN = 64
Event = dict[str, Any]


def write_perfetto(path: str | Path, *traces: Trace, pipeline: Pipeline | None = None) -> Path:
    """Writes traces, simulated and measured alike, into one file; returns its path.

    Every block is a slice of category "tile", from start to end, and its waits are slices of category
    "wait" inside it. A flow arrow leads to each consumer tile from the last to end of the tiles it reads,
    by `pipeline`'s dependencies or, for a catalogued workload, without it. What crosses between GPUs is a
    slice of category "transfer" where it arrives, with an arrow to it from the block that sent it. All traces
    begin at time zero, their first issue.

    Raises `DescriptionError` for no traces, another ending than .json or .json.gz, too many SMs, and
    a pipeline whose grids are not the trace's.
    """
    path = Path(path)
    if not traces:
        raise DescriptionError("write_perfetto: no traces; give at least one after the path")
    require_ending(path)
    events = [event for index, trace in enumerate(traces) for event in _events(trace, index, pipeline)]
    document = {
        "displayTimeUnit": "ns",
        "otherData": {f"trace {index}": _description(trace) for index, trace in enumerate(traces)},
        "traceEvents": events,
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    return write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def require_ending(path: Path) -> None:
    """Raises `DescriptionError` for a file that Perfetto would not read by its name."""
    if not path.name.endswith(KINDS):
        raise DescriptionError(f"path is {path.name!r}; its ending must be {' or '.join(KINDS)}")


def _description(trace: Trace) -> str:
    head = trace.header
    when = f", {head.date[:10]}, commit {head.commit[:7]}" if head.source == "measured" else ""
    return f"{head.workload}, {head.plan_label}, {head.source} on {head.device.get('name')}{when}"


def _events(trace: Trace, index: int, pipeline: Pipeline | None) -> Iterator[Event]:
    most = ARRIVALS_PID - MOST_DEVICES_SHOWN
    if trace.header.sm_count > most:
        raise DescriptionError(f"trace {index} has {trace.header.sm_count} SMs; at most {most}")
    pids = index * MOST_SMS + trace.sm
    origin = int(trace.issue_ns.min()) if len(trace) else 0
    yield from _names(trace, index)
    yield from _tiles(trace, pids.tolist(), origin)
    yield from _waits(trace, pids.tolist(), origin)
    yield from _arrows(trace, pids.tolist(), origin, f"{index}.", find_last_producers(trace, pipeline))
    yield from _links(trace, index, origin)
    yield from _transfers(trace, pids.tolist(), index, origin)
    for event in trace.events:
        place = {"pid": index * MOST_SMS + EVENTS_PID, "tid": 0}
        span = _span(event.start_ns - origin, event.end_ns - origin)
        yield {"ph": "X", "name": f"{event.name}, {event.stage}", "cat": "launch", **place, **span}


def _names(trace: Trace, index: int) -> Iterator[Event]:
    """What processes and threads are called, in the order they are shown."""
    label = f"{trace.header.source}, {trace.header.plan_label.lower()}"
    base = index * MOST_SMS
    used = sorted(set(zip(trace.sm.tolist(), trace.slot.tolist(), strict=True)))
    per_device = trace.header.sm_count // trace.header.device_count
    for sm in sorted({sm for sm, _ in used}):
        device = f"GPU {sm // per_device} " if trace.device is not None else ""
        yield _meta("process_name", base + sm, name=f"{label}: {device}SM {sm % per_device}")
        yield _meta("process_sort_index", base + sm, sort_index=base + sm)
    for sm, slot in used:
        yield {**_meta("thread_name", base + sm, name=f"slot {slot}"), "tid": slot}
    if trace.events:
        yield _meta("process_name", base + EVENTS_PID, name=f"{label}: launches")
        yield _meta("process_sort_index", base + EVENTS_PID, sort_index=base - 1)


def _meta(kind: str, pid: int, **arguments: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "args": arguments}


def _span(start_ns: int, end_ns: int) -> Event:
    return {"ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}


def _tiles(trace: Trace, pids: list[int], origin: int) -> Iterator[Event]:
    stages = trace.header.stages
    columns = (trace.stage, trace.x, trace.y, trace.z, trace.slot)
    times = (trace.issue_ns - origin, trace.start_ns - origin, trace.wait_ns, trace.end_ns - origin)
    rows = zip(pids, *(column.tolist() for column in (*columns, *times)), strict=True)
    for pid, stage, x, y, z, slot, issue, start, wait, end in rows:
        tile = f"({x}, {y})" if stages[stage].grid[2] == 1 else f"({x}, {y}), slice {z}"
        facts = {"stage": stages[stage].name, "x": x, "y": y, "z": z, "issue_ns": issue, "wait_ns": wait}
        place = {"pid": pid, "tid": slot}
        name = f"{stages[stage].name} {tile}"
        yield {"ph": "X", "name": name, "cat": "tile", **place, **_span(start, end), "args": facts}


def _waits(trace: Trace, pids: list[int], origin: int) -> Iterator[Event]:
    """Single waits where they were recorded, else each block's whole wait at its start."""
    for block, name, start, end in _spans(trace, origin):
        place = {"pid": pids[block], "tid": int(trace.slot[block])}
        yield {"ph": "X", "name": name, "cat": "wait", **place, **_span(start, end)}


def _spans(trace: Trace, origin: int) -> Iterator[tuple[int, str, int, int]]:
    """(block, what it waits for, start, end) of every wait that took time."""
    waits = trace.waits
    if waits is None or not waits.block.size:
        for block in (trace.wait_ns > 0).nonzero()[0].tolist():
            start = int(trace.start_ns[block]) - origin
            yield block, "waits for a semaphore", start, start + int(trace.wait_ns[block])
        return
    columns = (waits.block, waits.dependency, waits.semaphore, waits.start_ns - origin, waits.end_ns - origin)
    for block, dependency, semaphore, start, end in zip(*(c.tolist() for c in columns), strict=True):
        if end > start:
            info = trace.header.dependencies[dependency]
            value = info.value_of_semaphore[semaphore]
            yield block, f"waits for {info.policy} {semaphore} of {info.producer} = {value}", start, end


def _links(trace: Trace, index: int, origin: int) -> Iterator[Event]:
    """A counter per direction of each link, in GB/s."""
    devices = range(trace.header.device_count)
    for source, target in ((first, second) for first in devices for second in devices if first != second):
        name, place = f"GB/s, GPU {source} to {target}", {"pid": index * MOST_SMS + EVENTS_PID, "tid": 0}
        for time, rate in link_rates(trace, source, target):
            counted = {"GB/s": round(rate, 3)}
            yield {"ph": "C", "name": name, **place, "ts": (time - origin) / 1000, "args": counted}


def _transfers(trace: Trace, pids: list[int], index: int, origin: int) -> Iterator[Event]:
    """What crosses between GPUs: a slice where it arrives, and an arrow to it from the block that sent it."""
    result = trace.transfers
    if result is None or not result.block.size:
        return
    per_device = trace.header.sm_count // trace.header.device_count
    base = index * MOST_SMS + ARRIVALS_PID
    for device in sorted(set(result.target.tolist())):
        yield _meta("process_name", base - device, name=f"{trace.header.source}: arrives at GPU {device}")
        first = index * MOST_SMS + device * per_device
        yield _meta("process_sort_index", base - device, sort_index=first)
    lanes = _lanes(result)
    columns = (result.block, result.source, result.target, result.start_ns - origin, result.end_ns - origin)
    rows = zip(lanes, result.bytes.tolist(), *(column.tolist() for column in columns), strict=True)
    for number, (lane, size, block, source, target, start, end) in enumerate(rows):
        place = {"pid": base - target, "tid": lane}
        name = f"from GPU {source}, {size:,} bytes"
        yield {"ph": "X", "name": name, "cat": "transfer", **place, **_span(start, end)}
        flow = {"name": "transfer", "cat": "transfer", "id": f"{index}.t{number}"}
        left = {"pid": pids[block], "tid": int(trace.slot[block])}
        # Within the block's slice: what an epilogue sends may leave after the tile has ended.
        inside = min(max(start, int(trace.start_ns[block]) - origin), int(trace.end_ns[block]) - origin - 1)
        yield {"ph": "s", **flow, **left, "ts": inside / 1000}
        yield {"ph": "f", "bp": "e", **flow, **place, "ts": max(start, end - 1) / 1000}


def _lanes(transfers: Transfers) -> list[int]:
    """A lane for each transfer, in which no other of its receiver is under way."""
    free: dict[int, list[int]] = {}  # by receiver: when each lane is free
    lanes = [0] * len(transfers.block)
    for number in sorted(range(len(lanes)), key=lambda entry: int(transfers.start_ns[entry])):
        ends = free.setdefault(int(transfers.target[number]), [])
        start, end = int(transfers.start_ns[number]), int(transfers.end_ns[number])
        lane = next((place for place, until in enumerate(ends) if until <= start), len(ends))
        ends[lane : lane + 1] = [end]
        lanes[number] = lane
    return lanes


def _arrows(
    trace: Trace, pids: list[int], origin: int, prefix: str, producers: dict[int, int]
) -> Iterator[Event]:
    """From within the producer's slice, at its end, to within the consumer's, no earlier."""
    for consumer, producer in producers.items():
        flow = {"name": "dependency", "cat": "dependency", "id": f"{prefix}{consumer}"}
        posted = int(trace.end_ns[producer]) - origin
        first, last = int(trace.start_ns[consumer]) - origin, int(trace.end_ns[consumer]) - origin
        ends = (("s", producer, posted - 1), ("f", consumer, min(max(first, posted), last - 1)))
        for kind, block, time in ends:
            place = {"pid": pids[block], "tid": int(trace.slot[block])}
            event = {"ph": kind, **flow, **place, "ts": time / 1000}
            yield {**event, "bp": "e"} if kind == "f" else event
