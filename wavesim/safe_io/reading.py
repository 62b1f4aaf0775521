"""Every file that wavesim reads from outside: regular, of a bounded size, and opened without waiting.

Example: a FIFO that nobody writes to, or /dev/zero, given as a profile is refused in one line, at once.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from wavesim.errors import OutputError, RecordingError
from wavesim.safe_io.escaping import one_line

MOST_UNPACKER_BYTES = 1 << 28  # of a dictionary: the largest that xz itself makes has 64 MB
_kept: set[tuple[int, int]] | None = None  # what has been read, by device and inode
_kept_folders: dict[Path, frozenset[str] | None] = {}  # whose files another program reads; suffixes, or all


@contextlib.contextmanager
def inputs_kept() -> Iterator[None]:
    """Within, no output takes the place of a file that was read (`require_no_input`)."""
    global _kept  # noqa: PLW0603  # one command, one process
    before, _kept = _kept, set()
    folders = dict(_kept_folders)
    try:
        yield
    finally:
        _kept = before
        _kept_folders.clear()
        _kept_folders.update(folders)


def keep_folder(folder: Path, suffixes: frozenset[str] | None = None) -> None:
    """A compiler may read any file there, or any of these suffixes: no output takes the place of one."""
    _kept_folders[folder.resolve()] = suffixes


def require_no_input(status: os.stat_result, path: Path) -> None:
    """Raises `OutputError` for a file of which something was read, also where another file had named it."""
    if _kept is not None and (status.st_dev, status.st_ino) in _kept:
        raise OutputError(f"{one_line(str(path))}: is read as an input; give the output another path")
    whole = path.resolve()
    for folder, suffixes in _kept_folders.items():
        if whole.is_relative_to(folder) and (suffixes is None or whole.suffix.lower() in suffixes):
            raise OutputError(
                f"{one_line(str(path))}: the compiler may include it; give the output another path"
            )


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
    if _kept is not None:
        _kept.add((status.st_dev, status.st_ino))
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
    if data is None:  # a device that has nothing to say now, opened without waiting
        raise RecordingError(f"{path}: holds nothing to read; give the path of a file")
    if len(data) > most_bytes:
        raise RecordingError(f"{path}: more than {most_bytes:,} bytes; at most that many are read")
    return data


def read_packed(path: str | Path, most_bytes: int) -> bytes:
    """What an .xz file unpacks to. Raises `RecordingError` as `open_data` does, or for a damaged one."""
    import lzma  # noqa: PLC0415  # a Python in a browser may lack it, and has no packed files

    with open_data(path, most_bytes) as file:
        unpacker = lzma.LZMADecompressor(memlimit=MOST_UNPACKER_BYTES)
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
