"""What the calls on one stream share on the device: counters and an error buffer, left as they were found.

Example: `states.of_stream(stream, number, words)` is a stream's state; two calls on it follow each other,
whatever they compute, so one state does for all. A call that is captured in a graph gets one of its own,
`states.captured(...)`: its graph may be replayed beside any other call. Memory is nobody's library's, but the
driver's own, and is zeroed before its first use; from then on the kernels put it back.
"""

import itertools
import threading

import numpy as np
from numpy.typing import NDArray

from wavesim.safety.hang.mirror import ERRORS
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.tensors import allowed_while_capturing
from wavesim_gpu.layers.calls import CallSlot, process_log

STREAMS_KEPT = 64  # with more, an idle one's state becomes the new one's
WORD = 4
FIRST_WORDS = 1 << 14  # counters of a stream's state: most calls need a few hundred
ALIGNMENT = 256
SLAB_BYTES = 1 << 20  # one allocation serves many captured calls
DEVICE_TO_HOST = 2  # cudaMemcpyKind
_tokens = itertools.count(1)


class ZeroedMemory:
    """Device memory that is all zeros when it is taken, even while a graph is captured; never given back."""

    def __init__(self) -> None:
        self._cupy = require_cupy()
        with allowed_while_capturing():
            self._stream = self._cupy.cuda.Stream(non_blocking=True)
        self._lock = threading.Lock()
        self._slabs: list[object] = []
        self._next = self._end = 0

    def take(self, size: int) -> int:
        """The address of so many bytes."""
        size = -(-size // ALIGNMENT) * ALIGNMENT
        with self._lock:
            if self._next + size > self._end:
                self._add_slab(max(size, SLAB_BYTES))
            address, self._next = self._next, self._next + size
        return address

    def words(self, address: int, count: int) -> NDArray[np.uint32]:
        """What so many words of 4 bytes there hold now."""
        result = np.zeros(count, np.uint32)
        with allowed_while_capturing():
            copy = self._cupy.cuda.runtime.memcpyAsync
            copy(result.ctypes.data, address, result.nbytes, DEVICE_TO_HOST, self._stream.ptr)
            self._stream.synchronize()
        return result

    def _add_slab(self, size: int) -> None:
        with allowed_while_capturing():
            slab = self._cupy.cuda.Memory(size)
            # Not on the caller's stream, where a graph would repeat it.
            self._cupy.cuda.runtime.memsetAsync(slab.ptr, 0, size, self._stream.ptr)
            self._stream.synchronize()
        self._slabs.append(slab)
        self._next, self._end = int(slab.ptr), int(slab.ptr) + size


class CallState:
    """Counters and error buffer at their addresses, the slot where failures are reported, and a lock.

    Whoever launches a call holds `lock` from its first kernel to its last, as calls that mixed would count on
    the same counters. `stream_number` says whose it is now; `token` differs from every other state's, and
    changes with stream and addresses. `is_whole`: every call on it was launched to its end.
    """

    def __init__(
        self, memory: ZeroedMemory, slot: CallSlot, stream: int, stream_number: int, words: int
    ) -> None:
        self.lock = threading.Lock()
        self.slot, self._memory = slot, memory
        self.is_whole = True
        self.lend(stream, stream_number)
        self._place(words)

    def lend(self, stream: int, stream_number: int) -> None:
        """From now on it is another stream's."""
        self.stream = self.slot.stream = stream
        self.stream_number, self.token = stream_number, next(_tokens)

    def make_room(self, words: int) -> None:
        """Room for so many counters. What is queued goes on with the memory that it has, which is kept."""
        if words > self.words:
            self._place(2 * words)

    def is_idle(self) -> bool:
        """Whether no call on it is under way. Asks the GPU, but does not wait for its work."""
        has_ended = int(self._memory.words(self._ended, 1)[0]) == self.slot.count & 0xFFFFFFFF
        # The last block says so before it puts the counters back.
        return has_ended and not self._memory.words(self.counters, self.words).any()

    def _place(self, words: int) -> None:
        size = -(-words * WORD // ALIGNMENT) * ALIGNMENT
        self.counters = self._memory.take(size + ERRORS.itemsize)
        self.errors, self.words = self.counters + size, words
        assert ERRORS.fields is not None
        self._ended = self.errors + ERRORS.fields["ended"][1]
        self.token = next(_tokens)


class CallStates:
    """The states of one context, which must be current where a state is made. Any thread may use them.

    `by_stream` has those of streams, by the number that the driver gives a stream.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self._device = int(require_cupy().cuda.Device().id)
        self._memory = ZeroedMemory()
        self._lock = threading.Lock()
        self.by_stream: dict[int, CallState] = {}

    def of_stream(self, stream: int, number: int, words: int, broken: CallState | None = None) -> CallState:
        """The state of a stream, whose number it is; a new one has room for at least so many counters.

        `broken`, which its caller found not to be whole while it held the lock, is not given again. Without
        the lock nobody can tell: a state is not whole either while another thread launches over it.
        """
        with self._lock:
            state = self.by_stream.get(number)
            if state is None or state is broken:
                state = self._idle(stream, number) or self._new(stream, number, max(words, FIRST_WORDS))
                self.by_stream[number] = state
        return state

    def captured(self, stream: int, words: int) -> CallState:
        """A state of a graph's own, for as long as the process: nobody tells when a graph is gone."""
        with self._lock:
            return self._new(stream, 0, words, is_captured=True)

    def _new(self, stream: int, number: int, words: int, *, is_captured: bool = False) -> CallState:
        slot = process_log().open_slot(self._device, stream, is_captured=is_captured)
        return CallState(self._memory, slot, stream, number, words)

    def _idle(self, stream: int, number: int) -> CallState | None:
        """Where there are many, the one that was made first, for another stream; None if it is in use."""
        if len(self.by_stream) < STREAMS_KEPT:
            return None
        key, oldest = next(iter(self.by_stream.items()))
        if not oldest.lock.acquire(blocking=False):
            return None
        try:
            if not (oldest.is_whole and oldest.is_idle()):
                return None
            del self.by_stream[key]
            oldest.lend(stream, number)
            return oldest
        finally:
            oldest.lock.release()
