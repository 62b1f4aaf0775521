"""Launches from the device as plain values for a browser that draws them itself.

Example: the pool of pending launches fills up to its 2,048 places, red marks above it are calls that were
lost, and below, on the same axis, stand the SMs that hold a block. Few grids have a row each, by depth.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from wavesim.sim.streams.device_launches import GridTimes, LaunchTimeline
from wavesim.view.streams_scene import US, busy_shares

MOST_ROWS = 24
MOST_POINTS = 600  # more than a picture has columns of two pixels


def scene_of_launches(timeline: LaunchTimeline) -> dict[str, Any]:
    """All that is drawn of a run; times in nanoseconds from the parent's start."""
    end_ns = max(1, timeline.end_ns)
    shown = timeline.grids if len(timeline.grids) <= MOST_ROWS else timeline.grids[:1]
    return {
        "title": _title(timeline),
        "subtitle": _subtitle(timeline),
        "endNs": end_ns,
        "pool": timeline.machine.pool,
        "mostPending": timeline.most_pending,
        "pending": thinned(timeline.pending, end_ns),
        "lost": _lost(timeline.grids, end_ns),
        "grids": [_grid(one) for one in shown],
        "left": len(timeline.grids) - len(shown),
        "busy": thinned(busy_shares(timeline.blocks, timeline.machine.device.sm_count), end_ns),
        "smCount": timeline.machine.device.sm_count,
    }


def _title(timeline: LaunchTimeline) -> str:
    if not timeline.launches:
        return f"{us_text(timeline.end_ns)}; nobody launches"
    taken = f"{us_text(timeline.end_ns)} with {timeline.launches:,} launch{'es' * (timeline.launches > 1)}"
    if timeline.lost:
        return f"{taken}, of which {timeline.lost:,} are lost and their work is not done"
    return f"{taken}; at most {timeline.most_pending:,} of them are pending"


def _subtitle(timeline: LaunchTimeline) -> str:
    machine = timeline.machine
    more = "a slower pool in memory takes more" if machine.is_virtualised else "more are lost"
    return (
        f"simulated on the {machine.name} machine ({machine.device.sm_count} SMs; {machine.pool:,} launches "
        f"can be pending, {more}): {machine.source}"
    )


def us_text(time_ns: int) -> str:
    """A time for a title, in microseconds."""
    return f"{time_ns / US:,.0f} µs" if time_ns >= 100 * US else f"{time_ns / US:.1f} µs"


def _grid(one: GridTimes) -> dict[str, Any]:
    return {
        "name": one.name,
        "depth": one.depth,
        "stream": one.stream,
        "called": one.called_ns,
        "start": one.start_ns,
        "work": one.work_ns,
        "end": one.end_ns,
        "lost": one.lost,
    }


def _lost(grids: Iterable[GridTimes], end_ns: int) -> list[list[int]]:
    """[time, how many], as many as a picture can tell apart."""
    counts: dict[int, int] = {}
    for one in grids:
        if one.lost:
            place = one.called_ns * MOST_POINTS // end_ns
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
