"""Worker processes that end with their parent, whatever ends it, and that leave Ctrl-C to it.

Example: `kill -9` of a sweep closes the pipe that its workers listen to, and each of them ends at once, in
the middle of a simulation if need be. So does an exception that leaves `worker_pool`.
"""

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from wavesim.safe_io.signals import end_with, held_back

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@contextlib.contextmanager
def worker_pool(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """A pool of `count` processes, or one per core; an error in the block ends them without waiting."""
    from multiprocessing import resource_tracker  # noqa: PLC0415  # a browser's Python has none

    # Not fork: a notebook's process has threads, whose locks a forked child would hold for ever.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    theirs, ours = context.Pipe(duplex=False)
    with held_back():
        resource_tracker.ensure_running()  # which lets signals through again afterwards, hence twice
    with theirs, ours, ProcessPoolExecutor(count, context, _begin, (theirs,)) as pool:
        try:
            with held_back():
                pool.submit(os.getpid)  # starts what all workers are started from
            yield pool
        except BaseException:
            # In this order: a pool that breaks while it still has work reports every piece of it.
            pool.shutdown(wait=False, cancel_futures=True)
            ours.close()
            raise


def _begin(parent: "Connection") -> None:
    end_with(parent.recv_bytes)
