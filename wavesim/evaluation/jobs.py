"""The scoring in independent pieces, done one after the other or by several processes.

Example: each recorded case is a job, and so is each size of a blind run; two processes need half the time and
find the same predictions in the same order.
"""

from collections.abc import Callable, Iterable, Sequence

from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.guard.workers import worker_pool

Job = Callable[[], list[ScoredPrediction]]  # picklable: a `functools.partial` of a module's function


def run_jobs(
    jobs: Sequence[Job], progress: Callable[[int, int], None] | None = None, processes: int = 1
) -> list[ScoredPrediction]:
    """All jobs' predictions, in the order of the jobs. `progress(done, total)` is called after each."""
    if processes == 1:
        return _collected((job() for job in jobs), len(jobs), progress)
    with worker_pool(processes) as pool:
        return _collected(pool.map(_run, jobs), len(jobs), progress)


def _run(job: Job) -> list[ScoredPrediction]:
    return job()


def _collected(
    results: Iterable[list[ScoredPrediction]], total: int, progress: Callable[[int, int], None] | None
) -> list[ScoredPrediction]:
    found: list[ScoredPrediction] = []
    for done, members in enumerate(results, start=1):
        found += members
        if progress is not None:
            progress(done, total)
    return found
