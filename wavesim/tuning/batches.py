"""Batches of work on any concurrent.futures executor; a worker that dies loses nothing, and is named.

Example: of 256 batches on two worker processes one is killed at the hundredth. Whatever has no answer is
given to two fresh ones, and the report says which process ended, and by what.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from wavesim.errors import DeviceError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.workers import worker_pool

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

MOST_BREAKS = 3  # pools of ours that end one after the other before the work is given up
BATCHES = 256  # of a long sweep: enough that workers end at about the same time
MOST_IN_BATCH = 256

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answered = Generator[tuple[Sequence[Item], Answer]]


@runtime_checkable
class NamesLostWorkers(Protocol):
    """An executor that does the work of dead workers again itself, and can say which they were."""

    def lost_workers(self) -> list[str]:
        """Those that were there once and are not now."""


def in_batches(items: Sequence[Item]) -> list[Sequence[Item]]:
    """So large that sending one costs little beside answering it, so small that there are enough of them."""
    size = max(1, min(MOST_IN_BATCH, len(items) // BATCHES))
    return [items[first : first + size] for first in range(0, len(items), size)]


def answered(
    work: Callable[[Sequence[Item]], Answer],
    batches: Sequence[Sequence[Item]],
    executor: Executor | None,
    lost: list[str],
) -> Answered[Item, Answer]:
    """Each batch with its answer, as they finish; names of workers that ended are added to `lost`.

    Without an executor worker processes of our own. What was not yet begun is cancelled when the generator is
    closed. Raises `DeviceError` where workers end again and again.
    """
    if executor is None:
        yield from _on_own_processes(work, list(batches), lost)
        return
    left = list(batches)
    try:
        for batch, answer in _each(executor, work, batches):
            left.remove(batch)
            yield batch, answer
    except (BrokenExecutor, CancelledError) as error:
        why = one_line(str(error) or type(error).__name__)
        lost.append(f"the given executor ended ({why}); what was left was done here")
        yield from ((batch, work(batch)) for batch in left)
    if isinstance(executor, NamesLostWorkers):
        lost += executor.lost_workers()


def _on_own_processes(
    work: Callable[[Sequence[Item]], Answer], left: list[Sequence[Item]], lost: list[str]
) -> Answered[Item, Answer]:
    """The same on process pools of our own: when one breaks, the next one does what is left."""
    is_answered = False
    for _ in range(MOST_BREAKS):
        workers = Started()
        with worker_pool(worker_count()) as pool:
            try:
                for batch, answer in _each(pool, work, left, workers):
                    left = [other for other in left if other is not batch]
                    is_answered = True
                    yield batch, answer
            except BrokenExecutor as error:
                if not is_answered:
                    raise DeviceError(
                        "the worker processes have ended; in a script, put the call under "
                        "`if __name__ == '__main__':`, or pass executor=ThreadPoolExecutor(1)"
                    ) from error
                lost += workers.ended()
            else:
                return
    raise DeviceError(
        f"worker processes have ended {MOST_BREAKS} times ({'; '.join(lost)}); what is finished is kept. "
        "They may need more memory than there is: give executor=ProcessPoolExecutor(1), or smaller grids"
    )


def _each(
    executor: Executor,
    work: Callable[[Sequence[Item]], Answer],
    batches: Sequence[Sequence[Item]],
    workers: "Started | None" = None,
) -> Answered[Item, Answer]:
    """Every batch with its answer; `workers` learns which processes the executor has started for them."""
    waiting: dict[Future[Answer], Sequence[Item]] = {}
    try:
        for batch in batches:
            waiting[executor.submit(work, batch)] = batch
        if workers is not None:
            workers.look()
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        # A pool of our own cancels them itself as it is shut down: where it breaks with futures that somebody
        # else has cancelled, Python 3.11 prints a traceback.
        if workers is None:
            for future in waiting:
                future.cancel()


UNKNOWN_STATUS = 255  # what multiprocessing says where the status of a fork server's child was lost


class Started:
    """The child processes that were started since this was made."""

    def __init__(self) -> None:
        self._before = set(multiprocessing.active_children())
        self._processes: list[BaseProcess] = []

    def look(self) -> None:
        """Takes down those that run now: of one that has ended nothing is known any more."""
        self._processes = [
            process for process in multiprocessing.active_children() if process not in self._before
        ]

    def ended(self) -> list[str]:
        """Those that ended by themselves; a pool that breaks ends the others with SIGTERM."""
        outcomes = []
        for process in self._processes:
            process.join(timeout=1)
            if process.exitcode not in (None, 0, -signal.SIGTERM, UNKNOWN_STATUS):
                outcomes.append(f"process {process.pid} ({_exit_text(process.exitcode)})")
        return outcomes or ["a worker process"]


def _exit_text(exitcode: int) -> str:
    return signal.Signals(-exitcode).name if exitcode < 0 else f"exit status {exitcode}"


def worker_count() -> int:
    """CPUs that this process may use; a page in a browser has one, as it can start no other process."""
    if sys.platform == "emscripten":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
