"""The scoring in independent pieces, done one after the other or by several processes.

Example: each recorded case is a job, and so is each size of a blind run; two processes need half the time and
find the same predictions in the same order.
"""

from collections.abc import Callable, Iterable, Sequence

from wavesim.bench.scored_case import ScoredPrediction
from wavesim.safe_io.workers import worker_pool

Job = Callable[[], list[ScoredPrediction]]  # picklable: a `functools.partial` of a module's function


def run_jobs(jobs: Sequence[Job]) -> list[ScoredPrediction]:
    """All jobs' predictions, in the order of the jobs."""
    return flat(run_each(jobs))


def run_each(
    jobs: Sequence[Job], progress: Callable[[int, int], None] | None = None, processes: int = 1
) -> list[list[ScoredPrediction]]:
    """The predictions of each job. `progress(done, total)` is called after each; `processes` share them."""
    if processes == 1:
        return _collected((job() for job in jobs), len(jobs), progress)
    with worker_pool(processes) as pool:
        return _collected(pool.map(_run, jobs), len(jobs), progress)


def flat(by_job: Iterable[Iterable[ScoredPrediction]]) -> list[ScoredPrediction]:
    """Those of all jobs, one after the other."""
    return [member for members in by_job for member in members]


def _run(job: Job) -> list[ScoredPrediction]:
    return job()


def _collected(
    results: Iterable[list[ScoredPrediction]], total: int, progress: Callable[[int, int], None] | None
) -> list[list[ScoredPrediction]]:
    scored: list[list[ScoredPrediction]] = []
    for members in results:
        scored.append(members)
        if progress is not None:
            progress(len(scored), total)
    return scored
