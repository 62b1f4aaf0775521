"""Files that grow by whole lines, under a lock, so that several processes may append to one.

Example: two sweeps keep their results in one file. Each takes the lock, adds its line and lets go; one that
is killed in between loses its lock, and one that meets a full disk removes its own bytes and no others.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from wavesim.errors import OutputError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.writing import cannot_write

LONGEST_WAIT_S = 10.0
POLL_S = 0.002
LOCKS = Path("/proc/locks")
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def append_line(path: Path, line: str) -> None:
    """Adds one line to a file, which is made if need be. Raises `OutputError`; the lines before it stay."""
    try:
        number = open_appending(path)
        try:
            with locked(number, path):
                append(number, line.encode() + b"\n")
        finally:
            os.close(number)
    except OutputError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def open_appending(path: Path) -> int:
    """The descriptor of a file to read and to append to, made if need be. Raises `OSError`, `ValueError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without O_NONBLOCK, opening a FIFO may wait for another program.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    number = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a regular file")
    return number


def append(number: int, data: bytes) -> None:
    """Writes all of `data` behind a file's end, or nothing. For whoever holds its lock; raises `OSError`."""
    before = os.fstat(number).st_size
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(number, rest) :]
    except BaseException:
        with contextlib.suppress(OSError):  # best effort: whoever reads it drops a line that was cut off
            os.ftruncate(number, before)
        raise


@contextlib.contextmanager
def locked(number: int, path: Path) -> Iterator[None]:
    """Holds the lock of an open file, which `path` names in errors.

    Raises `OutputError` where another holds it for `LONGEST_WAIT_S`, or where files cannot be locked.
    """
    _take(number, path)
    try:
        yield
    finally:
        fcntl.flock(number, fcntl.LOCK_UN)


def _take(number: int, path: Path) -> None:
    until = time.monotonic() + LONGEST_WAIT_S
    while True:
        try:
            return fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise _still_held(number, path) from None
        except OSError as error:
            raise (_no_locks(path) if error.errno in NO_LOCKS else error) from None
        time.sleep(POLL_S)


def _no_locks(path: Path) -> OutputError:
    return OutputError(
        f"{one_line(str(path))}: its file system has no locks, without which writers lose each other's "
        "lines; give a path on a local disk"
    )


def _still_held(number: int, path: Path) -> OutputError:
    return OutputError(
        f"{one_line(str(path))}: {_holder(number)} has held its lock for {LONGEST_WAIT_S:g} s; end that, or "
        "give another path"
    )


def _holder(number: int) -> str:
    """Who holds a file's lock, as far as the system tells: "process 4711"."""
    node = str(os.fstat(number).st_ino)
    with contextlib.suppress(OSError):
        for line in LOCKS.read_text().splitlines():
            words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF
            if words[1] == "FLOCK" and words[5].split(":")[-1] == node:
                return f"process {words[4]}"
    return "another process"
