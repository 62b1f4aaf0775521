"""Streams of ours beside the caller's: work forked from a stream and joined to it again.

Example: `with side_streams.forked(stream, 1) as (own,)` gives a stream that goes on from where the caller's
is. However the block ends, by an exception too, the caller's stream goes on only after all that was launched
on it. Each of the caller's streams has its own, so that work on different streams never meets.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.tensors import allowed_while_capturing, stream_at

KEPT = 64  # of the caller's streams; CUDA keeps what is dropped until its work is done
PER_THREAD = 2  # the address by which every thread means a default stream of its own


@dataclass
class _Side:
    """The streams beside one of the caller's. `lock`: forks that overlapped would wait in circles."""

    lock: Any = field(default_factory=threading.Lock)
    streams: list[Any] = field(default_factory=list)


class SideStreams:
    """Side streams by the caller's stream. Any thread may use them.

    `priority` 0 is the lowest, so that what waits on them is never issued ahead of the caller's kernels.
    """

    def __init__(self, priority: int = 0) -> None:
        self._priority = priority
        self._lock = threading.Lock()
        self._sides: OrderedDict[tuple[int, int, int], _Side] = OrderedDict()

    @contextmanager
    def forked(self, stream: Any, count: int) -> Iterator[list[Any]]:
        """`count` streams that start where `stream` is now; it goes on after all of their work."""
        cuda = require_cupy().cuda
        side = self._side(int(cuda.Device().id), int(stream.ptr))
        with side.lock:
            own = self._streams(side, stream, count)
            ready = _event(cuda, stream)
            for other in own:
                other.wait_event(ready)
            try:
                yield own
            finally:
                for other in own:
                    stream.wait_event(_event(cuda, other))

    def _side(self, device: int, pointer: int) -> _Side:
        key = (device, pointer, threading.get_ident() if pointer == PER_THREAD else 0)
        with self._lock:
            side = self._sides.setdefault(key, _Side())
            self._sides.move_to_end(key)
            if len(self._sides) > KEPT:
                self._sides.popitem(last=False)
        return side

    def _streams(self, side: _Side, stream: Any, count: int) -> list[Any]:
        """The side's first streams, made where there are too few."""
        if len(side.streams) < count:
            with allowed_while_capturing():
                while len(side.streams) < count:
                    side.streams.append(_beside(stream, self._priority))
        return side.streams[:count]


def _beside(stream: Any, priority: int) -> Any:
    """A new stream on the same SMs: in the stream's green context, if it has one."""
    green = _green_context(stream)
    if green is None:
        return require_cupy().cuda.Stream(non_blocking=True, priority=priority)
    from cuda.bindings import driver  # noqa: PLC0415  # only where there is a GPU

    flag = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    status, made = driver.cuGreenCtxStreamCreate(green, flag, priority)
    if int(status) != 0:
        raise DeviceError(f"no stream in the green context of stream {stream.ptr:#x}: {status.name}")
    return stream_at(int(made))


def _green_context(stream: Any) -> Any:
    """The stream's green context; None without one, and for drivers that know none."""
    from cuda.bindings import driver  # noqa: PLC0415  # only where there is a GPU

    try:
        status, green = driver.cuStreamGetGreenCtx(driver.CUstream(int(stream.ptr)))
    except RuntimeError:  # the driver has no such function
        return None
    return green if int(status) == 0 and int(green) != 0 else None


def _event(cuda: Any, stream: Any) -> Any:
    """A mark of where a stream is now."""
    made = cuda.Event(disable_timing=True)
    made.record(stream)
    return made
