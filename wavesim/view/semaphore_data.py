"""What a trace's semaphores counted when: every post, the moment each became ready, who asked first.

Example: row 3 of the first GEMM gets 24 posts between 130 and 137 µs; at the 24th it is ready.
A tile is posted when its last split-K slice has ended.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.trace.header import DependencyInfo
from wavesim.trace.trace import IntArray, Trace

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SemaphoreHistory:
    """Posts to the semaphores of one dependency, in time order.

    `semaphore` and `post_ns` are one per post, (posts,); `awaited`, `ready_ns` and `asked_ns` one per
    semaphore, (semaphores,). `ready_ns` is -1 if the value was never reached, `asked_ns` -1 if no
    recorded wait spun on it.
    """

    info: DependencyInfo
    semaphore: IntArray
    post_ns: IntArray
    awaited: IntArray
    ready_ns: IntArray
    asked_ns: IntArray

    def levels(self, times_ns: IntArray) -> FloatArray:
        """Value over awaited value, 0..1, (semaphores, times)."""
        count = self.awaited.size
        columns = np.searchsorted(times_ns, self.post_ns, side="left")
        posts = np.zeros((count, times_ns.size + 1))
        np.add.at(posts, (self.semaphore, columns), 1)
        shares: FloatArray = np.cumsum(posts[:, :-1], axis=1) / self.awaited[:, None]
        return np.clip(shares, 0.0, 1.0)


def semaphore_histories(trace: Trace) -> list[SemaphoreHistory]:
    """One history per dependency. Raises `DescriptionError` for a plan that has no semaphores."""
    if not trace.header.dependencies:
        raise DescriptionError(
            f"plan {trace.header.plan_label!r} has no semaphores; draw a trace of row or tile semaphores"
        )
    return [_history(trace, index, info) for index, info in enumerate(trace.header.dependencies)]


def _history(trace: Trace, index: int, info: DependencyInfo) -> SemaphoreHistory:
    names = [stage.name for stage in trace.header.stages]
    stage = names.index(info.producer)
    columns = trace.header.stages[stage].grid[0]
    rows = trace.stage == stage
    tile = trace.y[rows] * columns + trace.x[rows]
    posted = np.zeros(len(info.semaphore_of_tile), dtype=np.int64)
    np.maximum.at(posted, tile, trace.end_ns[rows] - trace.issue_ns.min())
    order = np.argsort(posted, kind="stable")
    semaphore = np.asarray(info.semaphore_of_tile, dtype=np.int64)[order]
    awaited = np.asarray(info.value_of_semaphore, dtype=np.int64)
    ready = np.full(awaited.size, -1, dtype=np.int64)
    for one in range(awaited.size):
        times = posted[order][semaphore == one]
        if times.size >= awaited[one]:
            ready[one] = times[awaited[one] - 1]
    return SemaphoreHistory(
        info, semaphore, posted[order], awaited, ready, _asked(trace, index, awaited.size)
    )


def _asked(trace: Trace, index: int, count: int) -> IntArray:
    """When a recorded wait first spun on each semaphore, -1 for those nobody had to wait for."""
    asked = np.full(count, -1, dtype=np.int64)
    if trace.waits is None:
        return asked
    mine = trace.waits.dependency == index
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, trace.waits.semaphore[mine], trace.waits.start_ns[mine] - trace.issue_ns.min())
    found = first < np.iinfo(np.int64).max
    asked[found] = first[found]
    return asked
