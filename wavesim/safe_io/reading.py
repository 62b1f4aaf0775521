"""Every file that wavesim reads from outside: regular, of a bounded size, and opened without waiting.

Example: a FIFO that nobody writes to, or /dev/zero, given as a profile is refused in one line, at once.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from wavesim.errors import RecordingError


def open_data(path: str | Path, most_bytes: int | None = None) -> BinaryIO:
    """Opens a regular file for reading. Raises `RecordingError`: missing, no regular file, or too large."""
    path = Path(path)
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the path
        raise RecordingError(f"{str(path)!r}: cannot be read: {error}") from None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise RecordingError(f"{path}: not a regular file; give the path of one")
    file = os.fdopen(number, "rb")
    if most_bytes is not None and status.st_size > most_bytes:
        file.close()
        raise RecordingError(f"{path}: {status.st_size:,} bytes; at most {most_bytes:,} are read")
    return file


def read_bytes(path: str | Path, most_bytes: int) -> bytes:
    """A whole file. Raises `RecordingError` as `open_data` does, also where it grows while it is read."""
    with open_data(path, most_bytes) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise RecordingError(f"{path}: more than {most_bytes:,} bytes; at most that many are read")
    return data


def read_packed(path: str | Path, most_bytes: int) -> bytes:
    """What an .xz file unpacks to. Raises `RecordingError` as `open_data` does, or for a damaged one."""
    import lzma  # noqa: PLC0415  # a Python in a browser may lack it, and has no packed files

    with open_data(path, most_bytes) as file:
        unpacker = lzma.LZMADecompressor()
        try:
            data = unpacker.decompress(file.read(most_bytes), most_bytes)
        except (lzma.LZMAError, EOFError) as error:
            raise RecordingError(f"{path}: damaged: {error}") from None
    if not unpacker.eof:
        raise RecordingError(f"{path}: cut short, or unpacks to more than {most_bytes:,} bytes")
    return data


def read_text(path: str | Path, most_bytes: int) -> str:
    """A whole file of UTF-8, without the byte order mark that some editors set.

    Raises `RecordingError` as `read_bytes` does, or for another encoding.
    """
    try:
        return read_bytes(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path}: not UTF-8: {error}") from None
