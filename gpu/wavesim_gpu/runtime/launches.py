"""Kernel launches on the streams of a plan, and a CUDA graph of them all.

Example: `enqueue()` resets the semaphores, launches every kernel on its stream and joins; captured once, the
same becomes a graph that can be replayed, and every replay starts from reset semaphores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.kernels.backend import KernelLaunch
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.functions import Function
from wavesim_gpu.runtime.launch_attributes import launch_extended


@dataclass(frozen=True)
class DeviceLaunch:
    """One kernel launch: what, how large, with which parameters, on which stream of the program's."""

    function: Function
    shape: KernelLaunch
    arguments: tuple[Any, ...]
    stream: int

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it."""
        shape, stream = self.shape, streams[self.stream]
        if shape.cluster > 1 or shape.is_dependent:
            launch_extended(self.function.function, shape, self.arguments, stream)
            return
        self.function.function(
            (shape.blocks, 1, 1),
            (shape.threads, 1, 1),
            self.arguments,
            shape.dynamic_shared_bytes,
            stream,
        )


class Launches:
    """What one run launches, in order, on `stream_count` streams, over the counters of `sync`."""

    def __init__(self, sync: SyncState, launches: Sequence[DeviceLaunch], stream_count: int) -> None:
        self.sync, self.launches = sync, tuple(launches)
        self._cupy = require_cupy()
        self.streams = tuple(self._cupy.cuda.Stream(non_blocking=True) for _ in range(stream_count))
        # Operands and tables are made on the default stream, which these streams do not wait for.
        self._cupy.cuda.Device().synchronize()

    def enqueue(self) -> None:
        """Resets, launches everything and joins, all on the program's streams; the first one ends last."""
        first, *others = self.streams
        self.sync.reset(first)
        ready = self._event(first)
        for stream in others:
            stream.wait_event(ready)
        for launch in self.launches:
            launch.enqueue(self.streams)
        for stream in others:
            first.wait_event(self._event(stream))

    def capture(self, repeats: int = 1) -> Any:
        """The same as a CUDA graph, `repeats` times. In it only wait-kernels order parallel branches."""
        first = self.streams[0]
        with first:
            first.begin_capture()
            try:
                for _ in range(repeats):
                    self.enqueue()
            finally:
                graph = first.end_capture()
        return graph

    def launcher(self, repeats: int = 1) -> Callable[[], None]:
        """What replays the graph of so many runs, one after the other."""
        graph = self.capture(repeats)
        return lambda: graph.launch(self.streams[0])

    def synchronize(self) -> None:
        """Until everything enqueued is done. Raises `DeadlockError` if a wait ran out of time."""
        for stream in self.streams:
            stream.synchronize()
        self.sync.check()

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event
