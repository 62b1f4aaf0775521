"""What the figures of an advice are drawn from: a step's operations as bars, and where its time goes.

Example: a step of 35 ms on 1,600 pixels: operations of one kind less than half a pixel apart become one bar.
Below, for each of 240 slices of the step, the share in which slots work, stand empty in last waves, are
hidden in kernels that can't be seen into, or nothing runs at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.profile.advice import Advice
from wavesim.safe_io.escaping import BREAK, Markup

KINDS = ("gemm", "attention", "memory", "communication", "other", "copy")
PIXELS, BINS = 1_600, 240
MOST_LANES = 12

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StepBars:
    """Bars of one lane and kind: start and length in nanoseconds from the step's start, and hover texts."""

    lane: int
    kind: str
    start_ns: IntArray
    length_ns: IntArray
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StepPicture:
    """One step. `shares` maps work, idle, blind and nothing to their share of each bin, adding up to 1."""

    name: str
    start_ns: int
    end_ns: int
    lanes: tuple[str, ...]
    bars: tuple[StepBars, ...]
    bin_ns: FloatArray
    shares: Mapping[str, FloatArray]


def step_picture(advice: Advice) -> StepPicture:
    """The step that is longest in kernels' time; the whole profile where it has no steps."""
    name, start, end = _window(advice)
    rows = advice.profile.launches
    inside = np.flatnonzero((rows.end_ns > start) & (rows.start_ns < end))
    lanes = _busiest_lanes(advice, inside)
    bars = [
        bar for place, lane in enumerate(lanes) for bar in _bars(advice, inside, lane, place, (start, end))
    ]
    edges = np.linspace(start, end, BINS + 1)
    return StepPicture(
        name,
        start,
        end,
        tuple(_lane_name(advice, lane) for lane in lanes),
        tuple(bars),
        edges[:-1] - start,
        _shares(advice, inside, edges),
    )


def _window(advice: Advice) -> tuple[str, int, int]:
    profile = advice.profile
    rows = profile.launches
    first, last = int(rows.start_ns.min()), int(rows.end_ns.max())
    best, most = ("the whole profile", first, max(last, first + 1)), 0
    order = np.argsort(rows.start_ns, kind="stable")
    starts, before = rows.start_ns[order], np.append(0, np.cumsum(rows.duration_ns[order]))
    for name, step_start, step_end in profile.steps:
        start, end = max(step_start, first), min(step_end, last)
        inside = np.searchsorted(starts, [start, end])
        busy = int(before[inside[1]] - before[inside[0]])
        if end > start and busy > most:
            best, most = (name, start, end), busy
    return best


def _busiest_lanes(advice: Advice, inside: IntArray) -> list[int]:
    rows = advice.profile.launches
    time = np.bincount(
        rows.lane[inside], weights=rows.duration_ns[inside], minlength=len(advice.profile.lanes)
    )
    return [int(lane) for lane in np.argsort(-time, kind="stable") if time[lane] > 0][:MOST_LANES]


def _lane_name(advice: Advice, number: int) -> str:
    lanes = advice.profile.lanes
    lane = lanes[number]
    words = [f"stream {lane.stream.removeprefix('stream ')}"]
    if len({other.device for other in lanes}) > 1:
        words.insert(0, f"GPU {lane.device}")
    if len({other.process for other in lanes}) > len({other.device for other in lanes}):
        words.insert(0, f"process {lane.process}")
    return ", ".join(words)


def _kind_numbers(advice: Advice) -> IntArray:
    kinds = {kernel.shape: KINDS.index(kernel.name.kind) for kernel in advice.kernels}
    return np.array([*(kinds[shape] for shape in advice.profile.shapes), KINDS.index("copy")])


def _bars(advice: Advice, inside: IntArray, lane: int, place: int, window: tuple[int, int]) -> list[StepBars]:
    rows = advice.profile.launches
    mine = inside[rows.lane[inside] == lane]
    kinds = _kind_numbers(advice)[rows.shape[mine]]
    labels = _labels(advice)
    start, end = rows.start_ns[mine].clip(*window), rows.end_ns[mine].clip(*window)
    near = (window[1] - window[0]) / PIXELS / 2
    is_new = np.ones(len(mine), dtype=bool)
    is_new[1:] = (kinds[1:] != kinds[:-1]) | (start[1:] - end[:-1] > near)
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(mine)) - 1
    bars = []
    for number, kind in enumerate(KINDS):
        chosen = np.flatnonzero(kinds[first] == number)
        if chosen.size:
            begin, stop = first[chosen], last[chosen]
            texts = tuple(
                _text(advice, labels, mine[[a, b]], b - a)
                for a, b in zip(begin.tolist(), stop.tolist(), strict=True)
            )
            bars.append(StepBars(place, kind, start[begin] - window[0], end[stop] - start[begin], texts))
    return bars


def _text(advice: Advice, labels: Sequence[str], ends: IntArray, others: int) -> Markup:
    rows = advice.profile.launches
    shape = int(rows.shape[ends[0]])
    name = "copy or fill" if shape < 0 else labels[shape]
    more = f" and {others} more" if others else ""
    time = (rows.end_ns[ends[1]] - rows.start_ns[ends[0]]) / 1e3
    return BREAK.join([f"{name}{more}", f"{time:,.1f} µs"])


def _labels(advice: Advice) -> tuple[str, ...]:
    labels = {kernel.shape: kernel.label for kernel in advice.kernels}
    return tuple(labels[shape] for shape in advice.profile.shapes)


def _shares(advice: Advice, inside: IntArray, edges: FloatArray) -> dict[str, FloatArray]:
    rows = advice.profile.launches
    facts = {kernel.shape: kernel for kernel in advice.kernels}
    waves = [facts[shape].waves for shape in advice.profile.shapes]
    idle = np.array([*(0.0 if w is None else w.idle_share for w in waves), 0.0])
    blind = np.array([*(w is None for w in waves), False])
    shape, start, end = rows.shape[inside], rows.start_ns[inside], rows.end_ns[inside]
    width = edges[1] - edges[0]
    raw = {
        "blind": _binned(start, end, blind[shape].astype(float), edges),
        "idle": _binned(start, end, np.where(blind[shape], 0.0, idle[shape]), edges),
        "work": _binned(start, end, np.where(blind[shape], 0.0, 1 - idle[shape]), edges),
    }
    total = sum(raw.values())
    scale = width / np.maximum(total, width)
    shares = {name: time * scale / width for name, time in raw.items()}
    shares["nothing"] = np.maximum(0.0, 1 - sum(shares.values()))
    return shares


def _binned(start: IntArray, end: IntArray, weight: FloatArray, edges: FloatArray) -> FloatArray:
    """Weighted time of the intervals in each bin: differences of its running integral at the edges."""
    if not start.size:
        return np.zeros(len(edges) - 1)
    points = np.concatenate([start, end])
    slopes = np.concatenate([weight, -weight])
    order = np.argsort(points, kind="stable")
    points, slopes = points[order], np.cumsum(slopes[order])
    heights = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(points))])
    return np.diff(np.interp(edges, points, heights))
