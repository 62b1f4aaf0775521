"""Kernel launches on the streams of a plan, and a CUDA graph of them all.

Example: `enqueue()` resets the semaphores, launches every kernel on its stream and joins; `launcher()`
captures the same once as a graph that it replays, and every replay starts from reset semaphores.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from wavesim.errors import DeadlockError
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.kernel_launch import DeviceLaunch
from wavesim_gpu.hang.launch_recorder import active_recorder
from wavesim_gpu.hang.planned_run import PlannedRun


class Launches:
    """What one run launches, in order, on `stream_count` streams, over the counters of `sync`.

    Runs begin and end on the first stream, whoever starts them: one begins when the one before has ended, on
    any thread, as launches or as a graph. They share all that they write.
    """

    def __init__(self, sync: SyncState, launches: Sequence[DeviceLaunch], stream_count: int) -> None:
        self.sync, self.launches = sync, tuple(launches)
        self._cupy = require_cupy()
        self.streams = tuple(self._cupy.cuda.Stream(non_blocking=True) for _ in range(stream_count))
        self._queueing = threading.RLock()  # launches of two threads must not mix
        self._is_broken_off = False
        self._unreported: DeadlockError | None = None
        # What a recorder is told of a run, and what it calls the last launches of the run before.
        self.run = PlannedRun(self.launches, tuple(int(stream.ptr) for stream in self.streams), sync)
        self._ends: tuple[str, ...] = ()
        # Operands and tables are made on the default stream, which these streams do not wait for.
        self._cupy.cuda.Device().synchronize()

    def enqueue(self) -> None:
        """Resets, launches everything and joins, all on the program's streams; the first one ends last.

        Where an exception comes between, what has been launched ends at once and leaves nothing behind.
        """
        with self._whole_run():
            self._record()
            self._enqueue()

    def launcher(self, repeats: int = 1) -> Callable[[], None]:
        """What replays the graph of so many runs, one after the other."""
        graph = self._capture(repeats)

        def launch() -> None:
            with self._whole_run():
                for _ in range(repeats):
                    self._record()
                graph.launch(self.streams[0])

        return launch

    def synchronize(self) -> None:
        """Until everything enqueued is done. Raises `DeadlockError` if a wait ran out of time."""
        for stream in self.streams:
            stream.synchronize()
        error, self._unreported = self._unreported, None
        if error is not None:
            raise error
        self.sync.check()

    def _record(self) -> None:
        """Tells an active recorder what this run launches, before it does."""
        recorder = active_recorder()
        if recorder is not None:
            self._ends = recorder.note_planned(self.run, self._ends)

    def _enqueue(self) -> None:
        first, *others = self.streams
        self.sync.reset(first)
        ready = self._event(first)
        for stream in others:
            stream.wait_event(ready)
        for launch in self.launches:
            launch.enqueue(self.streams)
        for stream in others:
            first.wait_event(self._event(stream))

    def _capture(self, repeats: int) -> Any:
        """A CUDA graph of so many runs. In it only wait-kernels order parallel branches."""
        first = self.streams[0]
        with self._queueing, first:
            first.begin_capture()
            try:
                for _ in range(repeats):
                    self._enqueue()
            except BaseException:
                with suppress(
                    Exception
                ):  # it complains that the streams have not joined, and ends all the same
                    first.end_capture()
                raise
            return first.end_capture()

    @contextmanager
    def _whole_run(self) -> Iterator[None]:
        """Around the launches of a run: all of them get out, or none leaves a trace."""
        with self._queueing:
            if self._is_broken_off:
                self._break_off()
            try:
                yield
            except BaseException:
                self._is_broken_off = True
                with suppress(Exception):  # of a GPU that is lost; the next run tries again, and says so
                    self._break_off()
                raise

    def _break_off(self) -> None:
        """Blocks that wait for launches that never came write NaN and end; the next run starts from zeros."""
        beside = self._cupy.cuda.Stream(non_blocking=True)
        self.sync.call_off(beside)
        for stream in (beside, *self.streams):
            stream.synchronize()
        try:
            self.sync.check()  # of the runs before
        except DeadlockError as error:
            self._unreported = error
        self.sync.clear()
        self._is_broken_off = False

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event
