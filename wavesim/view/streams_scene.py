"""A stream program's timeline, and launches from the device, as plain values for a browser that draws them.

Example: rows for the host, four streams, one hardware queue, two copy engines, eight SMs, on one time axis;
k1 of stream s1 stands hatched where it was ready and its queue was held by a copy of s0.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from wavesim.sim.sms import BlockSpan
from wavesim.sim.streams.device_launch_engine import GridRun, LaunchTimeline
from wavesim.sim.streams.operation import OperationRun
from wavesim.sim.streams.program import Memcpy, StreamProgram
from wavesim.sim.streams.stream_order import LEGACY
from wavesim.sim.streams.timeline import StreamTimeline

COLOURS = ("h2d", "kernel", "d2h", "host")  # in the order of the theme's colours
WORDS = {"h2d": "copy to the device", "kernel": "kernel", "d2h": "copy to the host", "host": "host function"}
LABELS = {LEGACY: "null stream"}
MOST_SM_ROWS = 16
US = 1_000


def scene_of_streams(timeline: StreamTimeline, unshared_ns: int | None = None) -> dict[str, Any]:
    """All that is drawn of a timeline; times in nanoseconds from the first call.

    `unshared_ns` is what the program takes where every stream has a hardware queue of its own.
    """
    rows = _rows(timeline)
    places = {(row["group"], row["name"]): number for number, row in enumerate(rows)}
    numbers = {operation.name: number for number, operation in enumerate(timeline.operations)}
    colours = {operation.name: _colour(operation) for operation in timeline.program.operations}
    return {
        "title": _title(timeline, unshared_ns),
        "subtitle": _subtitle(timeline),
        "endNs": max(1, timeline.end_ns),
        "rows": rows,
        "operations": [_operation(operation, places, numbers, colours) for operation in timeline.operations],
        "host": [
            {
                "row": places["host", entry.thread],
                "words": entry.call,
                "start": entry.start_ns,
                "wait": entry.wait_ns,
                "end": entry.end_ns,
            }
            for entry in timeline.host
        ],
        "blocks": _blocks(timeline, numbers),
        "busy": busy_shares(timeline.blocks, timeline.machine.device.sm_count),
        "smCount": timeline.machine.device.sm_count,
        "notes": list(dict.fromkeys(timeline.notes)),
        "kinds": [[word, WORDS[word]] for word in COLOURS if word in colours.values()],
    }


def _title(timeline: StreamTimeline, unshared_ns: int | None) -> str:
    end_ns = timeline.end_ns
    if unshared_ns is not None and end_ns > unshared_ns:
        return f"{_us(end_ns)}, {_us(end_ns - unshared_ns)} of them because streams share a hardware queue"
    name, busy_ns = timeline.busiest
    return f"{_us(end_ns)}; {name} {'run' if name == 'kernels' else 'is busy'} for {_us(busy_ns)} of them"


def _subtitle(timeline: StreamTimeline) -> str:
    machine = timeline.machine
    queues = f"{machine.queues} hardware queue{'' if machine.queues == 1 else 's'}"
    return (
        f"{timeline.program.name}; simulated on the {machine.name} machine ({machine.device.sm_count} SMs, "
        f"{queues}): {machine.source}"
    )


def _us(time_ns: int) -> str:
    return f"{time_ns / US:,.0f} µs" if time_ns >= 10 * US else f"{time_ns / US:.1f} µs"


def _rows(timeline: StreamTimeline) -> list[dict[str, Any]]:
    """Host threads, streams, queues, engines in that order; SMs are drawn below these."""
    result = timeline.operations
    streams = _streams(timeline.program, result)
    rows = [{"group": "host", "name": thread.name} for thread in timeline.program.threads]
    rows += [{"group": "streams", "name": name, "label": LABELS.get(name, name)} for name in streams]
    queues = sorted({entry.queue for entry in result}, key=_by_number)
    rows += [{"group": "queues", "name": name} for name in queues]
    engines = {entry.engine for entry in result if entry.kind != "kernel"}
    return rows + [{"group": "engines", "name": name} for name in sorted(engines)]


def _streams(program: StreamProgram, operations: Iterable[OperationRun]) -> list[str]:
    """The default stream first, where anything is on it, then those that the program made and used."""
    used = {operation.stream for operation in operations}
    made = [stream.name for stream in program.streams]
    return [*sorted(used - set(made)), *(name for name in made if name in used)]


def _by_number(name: str) -> tuple[str, int]:
    words, _, number = name.rpartition(" ")
    return words, int(number)


def _colour(call: Any) -> str:
    if isinstance(call, Memcpy):
        return "d2h" if call.direction == "d2h" else "h2d"
    return "host" if hasattr(call, "ns") else "kernel"


def _operation(
    operation_times: OperationRun,
    places: dict[tuple[str, str], int],
    numbers: dict[str, int],
    colours: dict[str, str],
) -> dict[str, Any]:
    return {
        "name": operation_times.name,
        "colour": COLOURS.index(colours[operation_times.name]),
        "words": WORDS[colours[operation_times.name]],
        "streamName": operation_times.stream,
        "queueName": operation_times.queue,
        "engineName": operation_times.engine,
        "stream": places["streams", operation_times.stream],
        "queue": places["queues", operation_times.queue],
        "engine": places.get(("engines", operation_times.engine), -1),
        "submitted": operation_times.submitted_ns,
        "ready": operation_times.ready_ns,
        "head": operation_times.head_ns,
        "left": operation_times.left_ns,
        "start": operation_times.start_ns,
        "end": operation_times.end_ns,
        "after": [numbers[name] for name in operation_times.after],
        "held": numbers.get(operation_times.held_by, -1),
        "heldBy": operation_times.held_by,
        "false": operation_times.false_ns,
    }


def _blocks(timeline: StreamTimeline, numbers: dict[str, int]) -> list[list[int]]:
    """[operation, SM, row within the SM, start, end] where SMs have rows of their own, else nothing."""
    if timeline.machine.device.sm_count > MOST_SM_ROWS:
        return []
    return [
        [numbers[block.operation], block.sm, block.slot, block.start_ns, block.end_ns]
        for block in timeline.blocks
    ]


def busy_shares(blocks: Iterable[BlockSpan], sm_count: int) -> list[list[float]]:
    """[time, share of the SMs that hold a block], from each time on."""
    changes = sorted(
        change for block in blocks for change in ((block.start_ns, 1, block.sm), (block.end_ns, -1, block.sm))
    )
    held = [0] * sm_count
    busy, steps = 0, [[0.0, 0.0]]
    for time_ns, change, sm in changes:
        before = held[sm] > 0
        held[sm] += change
        busy += (held[sm] > 0) - before
        if steps[-1][0] == time_ns:
            steps.pop()
        steps.append([float(time_ns), busy / sm_count])
    return steps


MOST_ROWS = 24
MOST_POINTS = 600  # more than a picture has columns of two pixels


def scene_of_launches(timeline: LaunchTimeline) -> dict[str, Any]:
    """All that is drawn of a run; times in nanoseconds from the parent's start."""
    end_ns = max(1, timeline.end_ns)
    shown = timeline.grids if len(timeline.grids) <= MOST_ROWS else timeline.grids[:1]
    return {
        "title": _launch_title(timeline),
        "subtitle": _launch_subtitle(timeline),
        "endNs": end_ns,
        "pool": timeline.machine.pool,
        "mostPending": timeline.most_pending,
        "pending": thinned(timeline.pending, end_ns),
        "lost": _lost(timeline.grids, end_ns),
        "grids": [_grid(entry) for entry in shown],
        "left": len(timeline.grids) - len(shown),
        "busy": thinned(busy_shares(timeline.blocks, timeline.machine.device.sm_count), end_ns),
        "smCount": timeline.machine.device.sm_count,
    }


def _launch_title(timeline: LaunchTimeline) -> str:
    if not timeline.launches:
        return f"{us_text(timeline.end_ns)}; nobody launches"
    taken = f"{us_text(timeline.end_ns)} with {timeline.launches:,} launch{'es' * (timeline.launches > 1)}"
    if timeline.lost:
        return f"{taken}, of which {timeline.lost:,} are lost and their work is not done"
    return f"{taken}; at most {timeline.most_pending:,} of them are pending"


def _launch_subtitle(timeline: LaunchTimeline) -> str:
    machine = timeline.machine
    more = "a slower pool in memory takes more" if machine.is_virtualised else "more are lost"
    return (
        f"simulated on the {machine.name} machine ({machine.device.sm_count} SMs; {machine.pool:,} launches "
        f"can be pending, {more}): {machine.source}"
    )


def us_text(time_ns: int) -> str:
    """A time for a title, in microseconds."""
    return f"{time_ns / US:,.0f} µs" if time_ns >= 100 * US else f"{time_ns / US:.1f} µs"


def _grid(grid_times: GridRun) -> dict[str, Any]:
    return {
        "name": grid_times.name,
        "depth": grid_times.depth,
        "stream": grid_times.stream,
        "called": grid_times.called_ns,
        "start": grid_times.start_ns,
        "work": grid_times.work_ns,
        "end": grid_times.end_ns,
        "lost": grid_times.lost,
    }


def _lost(grids: Iterable[GridRun], end_ns: int) -> list[list[int]]:
    """[time, how many], as many as a picture can tell apart."""
    counts: dict[int, int] = {}
    for grid in grids:
        if grid.lost:
            place = grid.called_ns * MOST_POINTS // end_ns
            counts[place] = counts.get(place, 0) + 1
    return [[place * end_ns // MOST_POINTS, number] for place, number in sorted(counts.items())]


def thinned(steps: Iterable[Sequence[float]], end_ns: int) -> list[list[float]]:
    """Of steps [time, value] at most two of each small piece of time: its largest and its last value."""
    kept: list[list[float]] = []
    pieces: list[int] = []
    for time_ns, value in steps:
        piece = int(time_ns) * MOST_POINTS // max(1, end_ns)
        if pieces[-2:] != [piece, piece]:
            pieces.append(piece)
            kept.append([time_ns, value])
            continue
        if kept[-1][1] > kept[-2][1]:
            kept[-2] = kept[-1]
        kept[-1] = [time_ns, value]
    return kept
