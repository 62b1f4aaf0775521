"""Every file that wavesim writes: whole or not at all, and one writer at a time.

Example: the disk fills while a report is written. The report of yesterday, at the same path, is still whole:
the new one was written beside it, flushed to the disk and only then renamed into place.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from wavesim.errors import OutputError


def write_text(path: str | Path, text: str) -> Path:
    """Replaces a file's content by UTF-8 text. Returns the path. Raises `OutputError`; the old file stays."""
    return write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Replaces a file's content. Returns the path. Raises `OutputError`; the old file stays whole."""
    with replacing(path) as file:
        file.write(data)
    return Path(path)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of `path` when the block ends without an error.

    Its folder is made if need be; a link keeps pointing where it points. What is no regular file, such as
    /dev/stdout, is written to directly. Raises `OutputError`, which says that the old file is whole.
    """
    path = Path(path)
    try:
        if _is_special(path):
            with path.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".part", delete=False
        ) as file:
            part = Path(file.name)
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                part.chmod(_mode(target))
                part.replace(target)
            except BaseException:
                part.unlink()
                raise
    except OSError as error:
        raise _output_error(path, error) from error


def _is_special(path: Path) -> bool:
    """Whether a path leads to a device. Raises `OutputError` for a FIFO or socket, which may block."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        raise OutputError(
            f"{path}: not a regular file; give the path of one, or of a file that is not there yet"
        )
    return stat.S_ISCHR(mode)


def _mode(target: Path) -> int:
    """The access rights of the file that is replaced, or those that a new file gets."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _output_error(path: Path, error: OSError) -> OutputError:
    if isinstance(error, OutputError):
        return error
    kept = " What was there before is whole." if path.exists() else ""
    return OutputError(
        f"{path}: cannot be written ({error.strerror or error}); make room or give another path.{kept}"
    )
