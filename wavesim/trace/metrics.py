"""Metrics of a trace: where the SM time of a run went.

Example: 4 SMs for 4 waves are 16 tile times. Under stream sync 12 of them compute (75 % busy), 4
are lost in the two half-empty last waves. With semaphores a slot may also be held by a block that
spins: then it is resident, but not busy.

A block counts as 1 / blocks_per_sm of an SM, so that all shares add up to the SMs of the device.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.safe_io.annotated import require_types
from wavesim.trace.spans import merged
from wavesim.trace.trace import Trace

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Metrics:
    """Where the SM time of a run went. Utilisations are 0..1, times integer nanoseconds.

    The times after `makespan_ns` are means over the SMs, and with the busy time they add up to it:
    `tail_loss_ns` no block resident while a kernel runs (last waves, mostly), `waiting_ns` blocks
    spinning on semaphores, `starting_ns` issued but not yet started, `launch_gap_ns` between
    kernels, no block resident anywhere. `waves` is makespan over tile time, None where tile times differ.
    """

    makespan_ns: int
    busy_utilisation: float
    resident_utilisation: float
    waves: float | None
    busy_ns: float
    tail_loss_ns: float
    waiting_ns: float
    starting_ns: float
    launch_gap_ns: float


def metrics_of(trace: Trace) -> Metrics:
    """The metrics of a trace. All zero for a trace with no blocks. Raises `DescriptionError` for no trace."""
    require_types("metrics_of", trace=(trace, Trace))
    makespan = trace.makespan_ns
    if not makespan:
        return Metrics(0, 0.0, 0.0, None, 0.0, 0.0, 0.0, 0.0, 0.0)
    share = sm_share(trace) / trace.header.sm_count
    resident = float(((trace.end_ns - trace.issue_ns) * share).sum())
    waiting = float((trace.wait_ns * share).sum())
    starting = float(((trace.start_ns - trace.issue_ns) * share).sum())
    busy = resident - waiting - starting
    gap = makespan - sum(end - start for start, end in kernel_phases(trace))
    return Metrics(
        makespan_ns=makespan,
        busy_utilisation=busy / makespan,
        resident_utilisation=resident / makespan,
        waves=_waves(trace),
        busy_ns=busy,
        tail_loss_ns=makespan - gap - resident,
        waiting_ns=waiting,
        starting_ns=starting,
        launch_gap_ns=float(gap),
    )


def sm_share(trace: Trace) -> FloatArray:
    """The part of an SM each block stands for, (blocks,): 1 / blocks_per_sm of its stage."""
    per_stage = np.array([1 / max(1, info.blocks_per_sm) for info in trace.header.stages])
    shares: FloatArray = per_stage[trace.stage]
    return shares


def kernel_phases(trace: Trace) -> list[tuple[int, int]]:
    """Spans (start, end) in which some kernel has blocks on the device; kernels that overlap share one."""
    return merged(
        (int(trace.issue_ns[rows].min()), int(trace.end_ns[rows].max()))
        for rows in (trace.stage == stage for stage in range(len(trace.header.stages)))
        if rows.any()
    )


def work_ns(trace: Trace) -> IntArray:
    """Time each block spent computing, (blocks,): from start to end, less its waits."""
    return trace.end_ns - trace.start_ns - trace.wait_ns


def _waves(trace: Trace) -> float | None:
    """Makespan in tile times; None unless all tiles take the same time, as only simulated ones do."""
    work = work_ns(trace)
    return trace.makespan_ns / int(work[0]) if work[0] > 0 and (work == work[0]).all() else None


Steps = tuple[IntArray, FloatArray]


def resident_steps(trace: Trace) -> Steps:
    """(time_ns, SMs): how many SMs' worth of blocks are resident from each time on."""
    share = sm_share(trace)
    return _steps(trace.issue_ns, trace.end_ns, share)


def busy_steps(trace: Trace) -> Steps:
    """(time_ns, SMs): how many SMs' worth of blocks compute from each time on.

    Waits that were not recorded singly are taken to lie at the start of their block.
    """
    share = sm_share(trace)
    if trace.waits is None:
        return _steps(trace.start_ns + trace.wait_ns, trace.end_ns, share)
    waits, spinning = trace.waits, -share[trace.waits.block]
    starts = np.concatenate([trace.start_ns, waits.start_ns])
    ends = np.concatenate([trace.end_ns, waits.end_ns])
    return _steps(starts, ends, np.concatenate([share, spinning]))


def _steps(starts: IntArray, ends: IntArray, weights: FloatArray) -> Steps:
    times, inverse = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    change = np.zeros(times.size)
    np.add.at(change, inverse, np.concatenate([weights, -weights]))
    return times, change.cumsum().round(6)


def link_rates(trace: Trace, source: int, target: int) -> list[tuple[int, float]]:
    """[(time in ns, GB/s from then on)] of one direction; empty where nothing crosses."""
    transfers = trace.transfers
    if transfers is None:
        return []
    changes: list[tuple[int, float]] = []
    for row in np.flatnonzero((transfers.source == source) & (transfers.target == target)).tolist():
        start, end = int(transfers.start_ns[row]), int(transfers.end_ns[row])
        rate = float(transfers.bytes[row]) / max(1, end - start)
        changes += [(start, rate), (end, -rate)]
    rate, steps = 0.0, list[tuple[int, float]]()
    for time, change in sorted(changes):
        rate = max(0.0, rate + change)
        if steps and steps[-1][0] == time:
            steps.pop()
        steps.append((time, rate))
    return steps
