"""A command as the whole of a process: its signals, its streams and the status that it ends with.

Example: the reader of `wavesim compare toy | head -1` goes early: no traceback, and status 141, as the shell
has it for programs that a closed pipe ends. `wavesim compare toy > /dev/full` is an error with status 2. A
message that cannot be shown ends nothing. A terminal for ASCII shows other letters as escapes.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from wavesim.errors import OutputError
from wavesim.safe_io import signals

OUTPUT, MESSAGES = 1, 2


class ReaderGoneError(BrokenPipeError):
    """Nobody reads standard output any more."""


class _Output(io.TextIOWrapper):
    """Standard output. The first write that fails raises; later ones, such as Python's last, are dropped."""

    has_failed = False

    def write(self, text: str, /) -> int:
        with self._failing():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._failing():
            super().flush()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            has_failed, self.has_failed = self.has_failed, True
            if has_failed:
                return
            if isinstance(error, BrokenPipeError):
                raise ReaderGoneError from None
            words = f"standard output cannot be written to ({error.strerror}); send it elsewhere"
            raise OutputError(words) from error


class _Messages(io.TextIOWrapper):
    """Standard error, which must not end the work that it is about."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def guard_streams() -> None:
    """Replaces standard output and standard error by ones that behave as said above."""
    # Where the shell has closed them, their numbers would go to the next files that are opened.
    _occupy(OUTPUT, os.O_RDONLY)  # so that writing fails
    _occupy(MESSAGES, os.O_WRONLY)
    sys.stdout = _stream(_Output, OUTPUT, sys.stdout)
    sys.stderr = _stream(_Messages, MESSAGES, sys.stderr)


def _occupy(number: int, flags: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, flags)
        if opened != number:  # a lower number was closed too
            os.dup2(opened, number)
            os.close(opened)


def _stream(kind: type[io.TextIOWrapper], number: int, before: TextIO | None) -> io.TextIOWrapper:
    """A stream on one of the process's descriptors, with the encoding of the one before, if it was open."""
    raw = io.FileIO(number, "wb", closefd=False)
    return kind(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else "utf-8",
        errors="backslashreplace",
        line_buffering=number == MESSAGES or raw.isatty(),
    )


STOPPED = 2
READER_GONE = 141  # 128 and SIGPIPE


def run_program(name: str, command: Callable[[], int]) -> int:
    """Runs a command and returns its status: its own, or 2 where output cannot be written or memory is short.

    After a signal 128 and its number (130, 143, 129), and 141 where nobody reads the output any more.
    """
    guard_streams()
    received = signals.raise_once(name)
    try:
        status = _status(name, command)
    except Exception:
        if not received:  # else the signal's exception, of which an import made one of its own
            raise
    signals.end_at_once(name)
    if received:
        sys.stderr.write(f"{name}: {signals.word(received[0])}\n")
        return signals.FIRST_STATUS + received[0]
    return status


def error_text(error: OSError) -> str:
    """One line for an error of the system that no part of ours has explained."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}; give another path"


def _status(name: str, command: Callable[[], int]) -> int:
    try:
        status = _exit_code(command)
        sys.stdout.flush()
    except ReaderGoneError:
        return READER_GONE
    except OutputError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return STOPPED
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""  # numpy's says how much it wanted
        sys.stderr.write(f"{name}: out of memory{reason}; free some, raise its limit, or ask for less\n")
        return STOPPED
    except KeyboardInterrupt:
        return signals.FIRST_STATUS  # and the signal's number
    return status


def _exit_code(command: Callable[[], int]) -> int:
    try:
        return command()
    except SystemExit as end:  # argparse, after its help or its complaint
        return end.code if isinstance(end.code, int) else 0
