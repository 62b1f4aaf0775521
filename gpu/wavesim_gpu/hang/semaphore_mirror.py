"""A copy of the semaphores in a file that other processes can read, also while every SM of the GPU spins.

Example: `with mirror_semaphores("/dev/shm/semaphores", program): ...` copies the program's counters and its
error buffer every 100 ms. The file is mapped into this process and pinned, so that DMA writes it: no SM is
needed, and after a kill the last copy is still there. It must be in /dev/shm, as files on a disk cannot be
pinned. `wavesim why-hang` reads it.
"""

import ctypes
import json
import mmap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from wavesim.errors import DescriptionError, OutputError
from wavesim.safe_io.writing import write_bytes
from wavesim.safety.hang.mirror import ERRORS, HEAD, MAGIC, mirror_head
from wavesim_gpu.cusync.sync_state import SyncState, counter_name
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.driver_api import require_driver
from wavesim_gpu.hang.launch_facts import Fields, LaunchFacts
from wavesim_gpu.hang.planned_run import PlannedRun

DEVICE_TO_HOST = 2  # cudaMemcpyKind
PAGE, WORD = mmap.PAGESIZE, 4
SHORTEST_MS, LONGEST_MS = 1, 60_000


@dataclass(frozen=True)
class Mirrored:
    """Device memory that is copied: where it is, and what the file's header says of it."""

    address: int
    size: int
    kind: str  # "arrays" or "errors"
    fields: Fields


def counters(
    name: str,
    address: int,
    count: int,
    *,
    operation: str,
    kind: str = "semaphores",
    awaited: int | Sequence[int] | None = None,
    waiters: Sequence[str] = (),
) -> Mirrored:
    """Counters of your own: `count` unsigned words of 4 bytes at a device address. Fields as in `Mirror`."""
    fields: Fields = {"name": name, "operation": operation, "kind": kind, "count": count}
    if awaited is not None:
        fields["awaited"] = awaited if isinstance(awaited, int) else list(awaited)
    return Mirrored(address, count * WORD, "arrays", fields | {"waiters": list(waiters)})


class MirroredProgram(Protocol):
    """What a mirror needs of a program: its state on the device, and the run that it repeats."""

    sync: SyncState
    run: PlannedRun


def of_state(sync: SyncState) -> list[Mirrored]:
    """Started blocks, semaphores and the error buffer of a program."""
    words, names = int(sync.words.data.ptr), sync.names
    parts = [
        counters(f"blocks of {name} started", words + WORD * index, 1, operation=name, kind="started")
        for index, name in enumerate(names)
        if sync.headers[name].counts_blocks and not sync.plan.schedule.fetches_tiles
    ]
    first = len(names) + 1
    parts += [
        counters(
            f"{array.producer} {array.policy.name}",
            words + WORD * (first + array.first),
            array.table.count,
            operation=array.producer,
            awaited=array.values,
            waiters=[consumer for _, consumer in array.edges],
        )
        for array in sync.arrays
    ]
    semaphores = range(first, first + sum(array.table.count for array in sync.arrays))
    said = {
        "operations": list(names),
        # By number; the one after the stages' starts is no counter of these programs.
        "counters": [
            *(counter_name(sync.arrays, names, index) for index in range(len(names))),
            "",
            *(counter_name(sync.arrays, names, index) for index in semaphores),
        ],
    }
    return [*parts, Mirrored(int(sync.errors.data.ptr), ERRORS.itemsize, "errors", said)]


@contextmanager
def mirror_semaphores(
    path: str | Path, *what: "MirroredProgram | Mirrored", every_ms: float = 100
) -> Iterator["SemaphoreMirror"]:
    """Copies until it is left. At most one program, whose launches the file describes too.

    The file stays. Raises `DescriptionError`, `OutputError`, and `DeviceError` without a GPU.
    """
    if not SHORTEST_MS <= every_ms <= LONGEST_MS:
        raise DescriptionError(
            f"every_ms is {every_ms!r}; it must be {SHORTEST_MS} to {LONGEST_MS}, milliseconds between copies"
        )
    programs = [item for item in what if not isinstance(item, Mirrored)]
    if len(programs) > 1:
        raise DescriptionError("mirror_semaphores takes one program; use a mirror, with a file, for each")
    parts = [item for item in what if isinstance(item, Mirrored)]
    parts += [part for item in programs for part in of_state(item.sync)]
    situation = _situation(Path(path), programs[0]) if programs else None
    with SemaphoreMirror(path, parts, situation) as mirror, mirror.copying(every_ms):
        yield mirror


def _situation(path: Path, program: "MirroredProgram") -> Fields:
    facts, run = LaunchFacts(), program.run
    parts = {}
    for address in run.addresses:
        part = facts.part(address)
        parts[part["name"]] = part
    return {
        "name": path.stem,
        "devices": list(parts.values()),
        "operations": run.operations(facts.stream),
        "waits": run.waits(),
        "all_waits": True,
    }


class SemaphoreMirror:
    """The file, mapped and pinned, and the stream of the copies into it."""

    def __init__(self, path: str | Path, parts: Sequence[Mirrored], situation: Fields | None = None) -> None:
        self._cupy = require_cupy()
        self._parts = list(parts)
        text, self._offsets = _laid_out(self._parts, situation)
        size = self._offsets[-1] if self._offsets else PAGE
        write_bytes(path, text.ljust(size, b"\0"))
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._memory = ctypes.c_char.from_buffer(self._map)
        self._address, self._text_bytes = ctypes.addressof(self._memory), len(text) - HEAD.size
        self._device = int(self._cupy.cuda.Device().id)
        self._pin(path)
        self._stream = self._cupy.cuda.Stream(non_blocking=True, priority=_first_priority())
        self.copies = 0

    def _pin(self, path: str | Path) -> None:
        try:
            self._cupy.cuda.runtime.hostRegister(self._address, len(self._map), 0)
        except Exception as error:
            del self._memory
            self._map.close()
            raise OutputError(
                f"{path}: the driver does not pin this file ({error}), as most file systems on a disk do not "
                "allow it. Use a path in /dev/shm"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cupy.cuda.runtime.hostUnregister(self._address)
        del self._memory
        self._map.close()

    def copy(self) -> None:
        """One copy of everything, and the time of it. Waits for the copies alone, not for kernels."""
        for part, offset in zip(self._parts, self._offsets, strict=False):
            self._cupy.cuda.runtime.memcpyAsync(
                self._address + offset, part.address, part.size, DEVICE_TO_HOST, self._stream.ptr
            )
        self._stream.synchronize()
        self.copies += 1
        self._map[: HEAD.size] = HEAD.pack(MAGIC, self._text_bytes, self.copies, time.time_ns())

    @contextmanager
    def copying(self, every_ms: float) -> Iterator[None]:
        """A thread copies within, and once more at the end."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._copy_until, args=(is_over, every_ms / 1000), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _copy_until(self, is_over: threading.Event, seconds: float) -> None:
        with self._cupy.cuda.Device(self._device):
            while True:
                self.copy()
                if is_over.wait(seconds):
                    break
            self.copy()


def _laid_out(parts: Sequence[Mirrored], situation: Fields | None) -> tuple[bytes, list[int]]:
    """What stands before the arrays, and where each is; last, where the file ends.

    The arrays begin at a page of their own, which is found by trying: their places are in the header.
    """
    for pages in range(1, 1 + len(json.dumps(situation)) // PAGE + len(parts) + 64):
        at, offsets = pages * PAGE, []
        for part in parts:
            offsets.append(at)
            at += -(-part.size // 16) * 16
        header: Fields = {"arrays": []}
        for part, offset in zip(parts, offsets, strict=True):
            entry = part.fields | {"offset": offset}
            if part.kind == "arrays":
                header["arrays"].append(entry)
            else:
                header["errors"] = entry
        if situation is not None:
            header["situation"] = situation
        text = mirror_head(header)
        if len(text) <= pages * PAGE:
            return text, [*offsets, -(-at // PAGE) * PAGE]
    raise DescriptionError("the names of what is mirrored take too much room; use shorter ones")


def _first_priority() -> int:
    least, greatest = c_int(), c_int()
    require_driver().cuCtxGetStreamPriorityRange(byref(least), byref(greatest))
    return greatest.value
