"""Standard output and standard error of a command: what cannot be written is said once, or does no harm.

Example: `wavesim compare toy > /dev/full` is an error with status 2, as with any other file. A message that
cannot be shown ends nothing: the work goes on. A terminal for ASCII shows other letters as escapes.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from wavesim.errors import OutputError

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
