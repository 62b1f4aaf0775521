"""Programs that read what others wrote, as processes with bounds: time, memory, output, what they may open.

Example: 489 bytes of CUDA C++ can keep a compiler busy for minutes, and an `#include` can name a FIFO or a
file that is none of its author's business. A process of its own ends after its time, and `open_only` lets it
open nothing outside of some folders, where the system is Linux with Landlock.
"""

import ctypes
import os
import resource
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MOST_MESSAGE = 2_000  # bytes of standard error that are read


@dataclass(frozen=True)
class Bounds:
    """What one process may take: seconds by the clock, bytes of addresses, bytes of a file that it writes."""

    seconds: float
    memory_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class Ended:
    """How a process ended. `status` is None where its time was over; below 0 it is a signal's."""

    status: int | None
    output: bytes = b""
    message: str = ""


def run_bounded(
    words: Sequence[str],
    bounds: Bounds,
    *,
    given: bytes = b"",
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a program on what is `given` as its input, in `folder`. A signal to this process ends it too."""
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as said,
    ):
        source.write(given)
        source.seek(0)
        try:
            done = subprocess.run(  # noqa: S603  # the caller's own program and options
                words,
                stdin=source,
                stdout=out,
                stderr=said,
                cwd=folder,
                env=environment,
                timeout=bounds.seconds,
                preexec_fn=lambda: _limit(bounds),
                start_new_session=True,  # Ctrl-C goes to this process, which then ends it
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ended(None)
        return Ended(done.returncode, _read(out), _read(said, MOST_MESSAGE).decode(errors="replace").strip())


def _read(file: BinaryIO, most: int = -1) -> bytes:
    file.seek(0)
    return file.read(most)


def _limit(bounds: Bounds) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, bounds.memory_bytes),
        (resource.RLIMIT_FSIZE, bounds.output_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(bounds.seconds) + 1),
    ):
        _, hard = resource.getrlimit(kind)
        # Whoever started this may have set a narrower limit, which can't be widened.
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))


# Landlock: numbers of system calls that all architectures share, and rights over files of its first version.
_CREATE, _ADD, _RESTRICT, _PATH_BENEATH = 444, 445, 446, 1
_ALL_RIGHTS, _READ_FILE, _READ_FOLDER = 2**13 - 1, 1 << 2, 1 << 3
_NO_NEW_PRIVILEGES = 38  # of prctl


def open_only(folders: Iterable[Path]) -> bool:
    """From now on this process opens nothing outside of these folders; False where the system can't have it.

    Links count as what they lead to. What is open stays open.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "prctl"):
        return False
    handled = ctypes.create_string_buffer(struct.pack("=Q", _ALL_RIGHTS), 8)
    rules = library.syscall(_CREATE, handled, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    for folder in folders:
        try:
            number = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # there is nothing in it to open
        rule = ctypes.create_string_buffer(struct.pack("=Qi", _READ_FILE | _READ_FOLDER, number), 12)
        library.syscall(_ADD, rules, _PATH_BENEATH, rule, 0)
        os.close(number)
    is_set = library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and library.syscall(_RESTRICT, rules, 0) == 0
    os.close(rules)
    return bool(is_set)
