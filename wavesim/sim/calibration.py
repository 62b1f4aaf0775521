"""Calibration: a cost model from what a user has before trying tile sync, the stream-sync run.

Picture: the stream-sync trace says that a tile of the first GEMM takes 151 us and one of the
second 80 us, and that 1.6 us pass between the kernels. With two blocks per SM it also says how
much faster a block runs once its neighbour has left.
"""

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.sim.cost import OVERHEADS, CostModel
from wavesim.trace import Trace

# Speed of each of two blocks on one SM, relative to one alone: 0.70 to 0.75 in a prototype of our two-block
# GEMM. Used where no trace shows a block alone: none was taken, or it has no partly filled wave.
DEFAULT_SHARED_SPEED = 0.72


def calibrate(trace: Trace) -> CostModel:
    """The cost model of a stream-sync trace: tile times, speed on a shared SM, kernel boundary.

    What one wait and one post cost cannot be seen there and is left at `OVERHEADS`. Raises
    `RecordingError` for a trace of another plan: the run to be predicted must not be looked at.
    """
    if trace.header.plan != "stream":
        raise RecordingError(
            f"trace of plan {trace.header.plan!r}; calibrate on a stream-sync trace, plan 'stream'"
        )
    stages = [info.name for info in trace.header.stages]
    most = max(info.blocks_per_sm for info in trace.header.stages)
    sharing, recorded = _median_times(trace) if most == 1 else _shared_times(trace, most)
    tile_ns = [round(time * _clock_ratio(trace)) for time in recorded]
    overheads = OVERHEADS | {"boundary_ns": _boundary_ns(trace)}
    return CostModel(dict(zip(stages, tile_ns, strict=True)), sharing=sharing, **overheads)


def _clock_ratio(trace: Trace) -> float:
    """Timed rounds over the one recorded pass: they ran at another clock, by a few percent."""
    rounds_ns = trace.time_ns - OVERHEADS["setup_ns"]
    return rounds_ns / trace.makespan_ns if trace.header.rounds_ns and rounds_ns > 0 else 1.0


def _boundary_ns(trace: Trace) -> int:
    """Mean time from a kernel's last end to the next one's first start."""
    count = len(trace.header.stages)
    starts = [int(trace.start_ns[trace.stage == s].min()) for s in range(count)]
    ends = [int(trace.end_ns[trace.stage == s].max()) for s in range(count)]
    gaps = [max(0, start - end) for start, end in zip(starts[1:], ends[:-1], strict=True)]
    return round(sum(gaps) / len(gaps)) if gaps else OVERHEADS["boundary_ns"]


Times = tuple[tuple[float, ...], list[int]]


def _median_times(trace: Trace) -> Times:
    """One block per SM: nothing is shared, a stage's tile time is its median block's. No post is in it."""
    durations = trace.end_ns - trace.start_ns
    return (1.0,), [int(np.median(durations[trace.stage == s])) for s in range(len(trace.header.stages))]


def _shared_times(trace: Trace, most: int) -> Times:
    """Several blocks per SM: least squares for the speeds and the time of a block alone.

    For block i of stage s: sum over n of (time with n blocks on the SM) x speed(n) = work(s), with
    speed(1) = 1. Where the trace shows too little of a block alone, speeds stay at the default.
    """
    time_ns = _time_by_company(trace, most)
    stages = len(trace.header.stages)
    default = tuple(max(DEFAULT_SHARED_SPEED ** (n - 1), 1 / n) for n in range(1, most + 1))
    alone_share = time_ns[:, 0].sum() / time_ns.sum()
    speeds = _fit_speeds(trace, time_ns, stages) if 0.02 < alone_share < 0.98 else default
    if not all(1 / n - 0.05 <= speed <= 1.0 for n, speed in enumerate(speeds, start=1)):
        speeds = default
    work = time_ns @ np.array(speeds)
    return tuple(speeds), [int(np.median(work[trace.stage == s])) for s in range(stages)]


def _fit_speeds(trace: Trace, time_ns: NDArray[np.float64], stages: int) -> tuple[float, ...]:
    seen = [n for n in range(1, time_ns.shape[1]) if time_ns[:, n].sum() > 0]
    member = -(trace.stage[:, None] == np.arange(stages)).astype(float)
    scale = time_ns.sum(axis=1).mean()
    system = np.hstack([time_ns[:, seen] / scale, member])
    solution = np.linalg.lstsq(system, -time_ns[:, 0] / scale, rcond=None)[0]
    speeds = [1.0] + [0.0] * (time_ns.shape[1] - 1)
    for position, n in enumerate(seen):
        speeds[n] = float(solution[position])
    for n in range(1, len(speeds)):
        speeds[n] = round(speeds[n] or speeds[n - 1] * n / (n + 1), 3)
    return tuple(speeds)


def _time_by_company(trace: Trace, most: int) -> NDArray[np.float64]:
    """Nanoseconds each block computed while n blocks in all computed on its SM, (blocks, most)."""
    result = np.zeros((len(trace), most))
    for sm in np.unique(trace.sm):
        rows = np.flatnonzero(trace.sm == sm)
        starts, ends = trace.start_ns[rows], trace.end_ns[rows]
        edges = np.unique(np.concatenate([starts, ends]))
        lengths = np.diff(edges)
        inside = (starts[:, None] <= edges[:-1]) & (ends[:, None] >= edges[1:])
        company = np.clip(inside.sum(axis=0), 1, most)
        for n in range(1, most + 1):
            result[rows, n - 1] = (inside * (lengths * (company == n))).sum(axis=1)
    return result
