"""Settings that a reader may ask for next, computed while nothing else is to be done.

Example: the what-if shows 1,024 tokens; one after the other 1,152, 896, 1,280 and on are simulated, so that
the next move of the slider has its answer and the strip of gains fills from the middle outwards. A thread
does so in a kernel, short turns of the event loop where there are no threads, and nothing without a loop.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from wavesim.errors import WavesimError

SOON_S = 0.02  # in which a message has left
START_S = 0.05  # what was asked for is drawn first
FIRST = 3  # settings, after which it is told
TELL_S = 0.4  # between two drawings of what is known by then
BETWEEN_S = 0.01  # in which a slider's message is answered
AHEAD_OF = 3  # sizes in the direction of a move to one against it


class Ahead:
    """`compute(setting)` for each, in a thread; now and then, and in the end, `tell()` on the event loop."""

    def __init__(self, compute: Callable[[int], object], tell: Callable[[], None]) -> None:
        self._compute, self._tell = compute, tell
        self._round = 0
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def soon(self, say: Callable[[], None]) -> None:
        """Once what was asked for is on its way; at once without a loop."""
        if self._loop is None:
            say()
        else:
            self._loop.call_later(SOON_S, say)

    def restart(self, settings: Iterable[int]) -> None:
        """These from now on; what was left of the last ones is dropped."""
        self._round += 1
        if self._loop is None:
            return
        left = iter(list(settings))
        try:
            threading.Thread(target=self._run, args=(left, self._round), daemon=True).start()
        except RuntimeError:  # a browser has none
            self._loop.call_later(START_S, self._turn, left, self._round)

    def _run(self, left: Iterator[int], round_: int) -> None:
        assert self._loop is not None
        time.sleep(START_S)
        told_s, done = time.monotonic(), 0
        while round_ == self._round and not self._loop.is_closed():
            is_done = not self._next(left)
            done += 1
            if is_done or done == FIRST or time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                with suppress(RuntimeError):  # the loop has been closed meanwhile
                    self._loop.call_soon_threadsafe(self._told, round_)
            if is_done:
                return
            time.sleep(BETWEEN_S)

    def _turn(self, left: Iterator[int], round_: int) -> None:
        if self._loop is not None and round_ == self._round and self._next(left):
            self._tell()
            self._loop.call_later(START_S, self._turn, left, round_)

    def _told(self, round_: int) -> None:
        if round_ == self._round:
            self._tell()

    def _next(self, left: Iterator[int]) -> bool:
        """Computes the next one; whether there was one."""
        for setting in left:
            try:
                self._compute(setting)
            except WavesimError:
                continue  # it says so when it is asked for
            return True
        return False


def nearest_first(values: Iterable[int], at: int, moved: int = 0) -> list[int]:
    """The others, from the nearest outwards; those in the direction of the last move before the rest."""
    ordered = sorted(values)
    place = ordered.index(at) if at in ordered else 0

    def distance(item: tuple[int, int]) -> float:
        steps = item[0] - place
        return abs(steps) / (AHEAD_OF if steps * moved > 0 else 1)

    return [value for _, value in sorted(enumerate(ordered), key=distance) if value != at]
