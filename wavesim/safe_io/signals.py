"""One policy for signals: SIGINT, SIGTERM and SIGHUP end a command with one line, and nothing done is lost.

Example: `kill` of a sweep raises `Stopped` in it, once. Its results are in their file, its workers end with
it, and the status is 143, which is 128 and the signal's number. A second signal ends the process on the spot.

A program's first import is this one, and it imports next to nothing: a signal before `end_at_once` is called
meets Python's own handlers.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
FIRST_STATUS = 128


class Stopped(KeyboardInterrupt):
    """A signal has asked the process to end; as `KeyboardInterrupt`, so that Ctrl-C is one case of it."""


def word(number: int) -> str:
    """What a signal does to a command: "terminated"."""
    return WORDS[signal.Signals(number)]


def end_at_once(name: str) -> None:
    """From now on a signal writes one line and ends the process: while it starts, and while it ends."""

    def end(number: int, _frame: object) -> None:
        try:
            os.write(2, f"{name}: {word(number)}\n".encode())
        finally:
            os._exit(FIRST_STATUS + number)

    _handle(end)


def raise_once(name: str) -> list[int]:
    """From now on the first signal raises `Stopped`; a second ends the process. Returns those received."""
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        end_at_once(name)
        raise Stopped

    _handle(stop)
    return received


def _handle(handler: Callable[[int, object], None]) -> None:
    for number in WORDS:
        # What was ignored from the start stays so: nohup, or a job in the background.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Holds a terminal's signals back while processes are started, which inherit that: the parent decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class TimeIsOver(BaseException):
    """What `ended_after` raises; no `Exception`, as libraries make those their own."""


@contextlib.contextmanager
def ended_after(seconds: int, words: str) -> Iterator[None]:
    """In the main thread: raises `TimeIsOver` with these words inside, once so many seconds have passed."""

    def give_up(*_: object) -> None:
        raise TimeIsOver(words)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def end_with(parent: Callable[[], object]) -> None:
    """In a worker: Ctrl-C is left to the parent, and the worker ends once `parent()` returns or fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        try:
            parent()
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
