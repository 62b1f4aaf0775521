"""Every file that wavesim writes: whole or not at all, or line by line under a lock.

Example: the disk fills while a report is written. The report of yesterday, at the same path, is still whole:
the new one was written beside it, flushed to the disk and only then renamed into place. Two sweeps that keep
their results in one file each take the lock, add their line and let go; a sweep that is killed in between
loses its lock, and one that meets a full disk removes its own bytes and no others.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from wavesim.errors import OutputError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import require_no_input

STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
LONGEST_PATH = 4096
MOST_LINKS = 40  # that lead to one another, as Linux follows them


def write_text(path: str | Path, text: str) -> Path:
    """Replaces a file's content by UTF-8 text. Returns the path. Raises `OutputError`; the old file stays."""
    return write_bytes(path, text.encode(errors="backslashreplace"))  # a lone surrogate has no UTF-8


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Replaces a file's content. Returns the path. Raises `OutputError`; the old file stays whole."""
    with replacing(path) as file:
        file.write(data)
    return Path(path)


def require_writable(*paths: str | Path | None) -> None:
    """Raises `OutputError` for a path that can't be written, before work whose result would be lost."""
    for path in paths:
        if path is not None:
            _require_writable(Path(path))


def _require_writable(path: Path) -> None:
    try:
        direct = _opened_directly(path)
        if direct is not None:
            direct.close()
            return
        folder = _target_of(path).parent
        while not folder.exists():
            folder = folder.parent
        # Only a file tells: on a read-only file system, root is allowed to write and still cannot.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OutputError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when the block ends without an error.

    Its folder is made if need be; a link keeps pointing where it points, and owner and access rights stay.
    A device or an open descriptor, such as /dev/stdout, is written to directly. Raises `OutputError`, which
    says that the old file is whole; `BrokenPipeError` where a descriptor's reader has gone.
    """
    path = Path(path)
    try:
        direct = _opened_directly(path)
        if direct is None:
            with _part_of(_target_of(path)) as file:
                yield file
        else:
            with direct:
                yield direct
    except (OutputError, BrokenPipeError):
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> OutputError:
    """One line for a write that failed: file, reason, and what became of what was there before."""
    kept = " What was there before is whole." if os.path.isfile(path) else ""  # noqa: PTH113  # never raises
    reason = error.strerror or error
    return OutputError(f"{_shown(path)}: cannot be written ({reason}); make room or give another path.{kept}")


def _target_of(path: Path, links_left: int = MOST_LINKS) -> Path:
    """What a path leads to through links. Raises `OutputError` for an input, and for links of strangers.

    As the system has it where links are followed when a file is opened (fs.protected_symlinks): in a folder
    that all may write, such as /tmp, only one's own links and those of the folder's owner.
    """
    if links_left < 0:
        raise OutputError(f"{_shown(path)}: its links lead in a circle; give another path")
    for place in (path.absolute(), *path.absolute().parents):
        if place.is_symlink():
            link, folder = place.lstat(), place.parent.stat()
            is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
            if is_shared and link.st_uid not in (os.geteuid(), folder.st_uid):
                raise OutputError(
                    f"{_shown(path)}: {_shown(place)} is another user's link in a folder that all may write; "
                    "give another path"
                )
            led = place.parent / place.readlink() / path.absolute().relative_to(place)
            return _target_of(led, links_left - 1)
    with contextlib.suppress(FileNotFoundError):
        require_no_input(path.stat(), path)
    return path


@contextlib.contextmanager
def _part_of(target: Path) -> Iterator[BinaryIO]:
    """A new file beside `target` that is renamed to it in the end, or removed after an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Of a short name of its own: one made of the target's may be longer than a file system takes.
    part = target.parent / f".{secrets.token_hex(8)}.part"
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            _keep_owner_and_rights(target, number)
            os.fsync(number)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _keep_owner_and_rights(target: Path, number: int) -> None:
    """Gives an open file those of the file that it will replace, as far as this user may."""
    try:
        before = target.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(PermissionError):
        os.fchown(number, before.st_uid, before.st_gid)
    os.fchmod(number, stat.S_IMODE(before.st_mode))


def _opened_directly(path: Path) -> BinaryIO | None:
    """A device or one of our own open descriptors, opened; None for a file that can be replaced.

    Raises `OutputError` for what is neither: a FIFO would wait for a reader that may never come.
    """
    number = _descriptor(path)
    if number is not None:
        return os.fdopen(os.dup(number), "wb")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    except ValueError as error:  # a NUL in the path
        raise OutputError(f"{_shown(path)}: cannot be written ({error}); give another path") from None
    if stat.S_ISCHR(mode):
        return path.open("wb")
    if not stat.S_ISREG(mode):
        raise OutputError(
            f"{_shown(path)}: not a regular file; give the path of one, or of one that is not there yet"
        )
    if not os.access(path, os.W_OK):
        raise OutputError(f"{_shown(path)}: read-only; make it writable or give another path")
    return None


def _descriptor(path: Path) -> int | None:
    if str(path.parent) in DESCRIPTORS and re.fullmatch("[0-9]{1,9}", path.name):
        return int(path.name)
    return STREAMS.get(str(path))


def _shown(path: Path) -> str:
    return one_line(str(path), LONGEST_PATH)


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
    number = os.open(_target_of(path), flags, 0o666)
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
    if not hasattr(fcntl, "flock"):  # Python in a browser, where nobody else writes
        yield
        return
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
    node = str(os.fstat(number).st_ino)
    with contextlib.suppress(OSError):
        for line in LOCKS.read_text().splitlines():
            words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF
            if words[1] == "FLOCK" and words[5].split(":")[-1] == node:
                return f"process {words[4]}"
    return "another process"
