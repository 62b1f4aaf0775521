"""Nsight Systems profiles: the sqlite file that `nsys export --type sqlite` writes.

Example: the table `CUPTI_ACTIVITY_KIND_KERNEL` has a row per launch with grid, block, registers and shared
memory in columns of their own, `TARGET_INFO_GPU` a row per GPU with all its limits. Columns come and go
between versions, so those that exist are asked for first; names are indices into `StringIds`.

The file is data: what it defines beside plain tables is refused (`wavesim/safe_io/tables.py`).
"""

from array import array
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.profile.profile import CALL_UNKNOWN, UNKNOWN_NS, IntArray, Lane, Profile, call_kind
from wavesim.profile.profile_builder import (
    MAX_LAUNCHES,
    MAX_NAME,
    MAX_NS,
    MAX_SHAPES,
    ProfileBuilder,
    places_of,
)
from wavesim.profile.profiled_device import device_from_properties
from wavesim.safe_io.tables import Row, Tables, open_tables

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
GPUS = "TARGET_INFO_GPU"
STRINGS = "StringIds"
NAMES = ("demangledName", "shortName")
PLACE = ("start", "end", "deviceId", "streamId", "globalPid", "correlationId")
COLUMNS = {
    KERNELS: (
        *(*PLACE, *NAMES, "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread"),
        *("staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId"),
    ),
    **dict.fromkeys(COPIES, PLACE),
    CALLS: ("start", "correlationId", "nameId"),
    GPUS: (
        *("id", "cuDevice", "name", "computeMajor", "computeMinor", "smCount"),
        *("maxShmemPerSm", "sharedMemPerSm"),
    ),
    STRINGS: ("id", "value"),
}
Flags = NDArray[np.bool_]
SQLITE_MAGIC = b"SQLite format 3\x00"
MAX_SIZE = 1 << 31


def load_nsight(path: str | Path) -> Profile:
    """Reads an sqlite export. Raises `RecordingError` in one line: not sqlite, damaged, no kernels."""
    path = Path(path)
    with open_tables(path, COLUMNS) as tables:
        return _Reader(path, tables).profile()


class _Reader:
    """One file's tables."""

    def __init__(self, path: Path, tables: Tables) -> None:
        self._path = path
        self._tables = tables
        self._builder = ProfileBuilder(path, "Nsight Systems")
        self._names: dict[int, str] = {}

    def profile(self) -> Profile:
        """What the tables say."""
        if KERNELS not in self._tables:
            raise RecordingError(
                f"{self._path}: no table {KERNELS}; record with `nsys profile --trace=cuda` and export to "
                "sqlite"
            )
        self._names = self._used_names()
        replayed = array("b")
        for row in self._tables.rows(KERNELS):
            self._kernel(row, replayed)
        for table in COPIES:
            for row in self._tables.rows(table):
                self._copy(row, replayed)
        if not replayed:
            raise RecordingError(f"{self._path}: no GPU kernels in this Nsight Systems profile")
        flags = np.frombuffer(replayed, dtype=np.int8).astype(bool)
        if flags.any():
            self._builder.notes.append(
                f"{int(flags.sum()):,} operations are replayed by CUDA graphs: their launch gaps are the "
                "device's own."
            )
        return self._builder.build(self._devices(), *self._host_calls(flags))

    def _used_names(self) -> dict[int, str]:
        used: set[int] = set()
        numbers = (_name_of(row) for row in self._tables.rows(KERNELS, NAMES))
        calls = (row.get("nameId") for row in self._tables.rows(CALLS, ("nameId",)))
        for number in chain(numbers, calls):
            if isinstance(number, int):
                used.add(number)
            if len(used) > MAX_SHAPES:
                raise RecordingError(
                    f"{self._path}: more than {MAX_SHAPES:,} different names; this is no profile"
                )
        return {
            row["id"]: row["value"][:MAX_NAME]
            for row in self._tables.rows(STRINGS)
            if row.get("id") in used and isinstance(row.get("value"), str)
        }

    def _kernel(self, row: Row, replayed: "array[int]") -> None:
        times = _times(row)
        if times is None:
            self._builder.skipped += 1
            return
        name = _name_of(row)
        grid = _sizes(row, "grid")
        block = _sizes(row, "block")
        shared = [_size(row.get(key), 0) for key in ("staticSharedMemory", "dynamicSharedMemory")]
        device = _size(row.get("deviceId"), 0) or 0
        key = (
            name[:MAX_NAME] if isinstance(name, str) else self._names.get(name) or f"kernel {str(name)[:20]}",
            device,
            grid,
            None if block is None else _size(block[0] * block[1] * block[2], 1),
            _size(row.get("registersPerThread"), 1),
            None if None in shared else sum(size for size in shared if size is not None),
            None,
        )
        self._builder.add(key, _lane(row, device), *times, _identifier(row))
        replayed.append(row.get("graphNodeId") not in (None, 0) or row.get("graphId") not in (None, 0))

    def _copy(self, row: Row, replayed: "array[int]") -> None:
        times = _times(row)
        if times is None:
            self._builder.skipped += 1
            return
        self._builder.add(None, _lane(row, _size(row.get("deviceId"), 0) or 0), *times, _identifier(row))
        replayed.append(False)

    def _host_calls(self, replayed: Flags) -> tuple[IntArray, Flags, IntArray]:
        """When the host launched each operation, whether a graph did, and by what kind of call."""
        links = self._builder.column("link")
        calls, starts, kinds = array("q"), array("q"), array("q")
        for row in self._tables.rows(CALLS):
            start, link = row.get("start"), _identifier(row)
            if isinstance(start, int) and 0 <= start < MAX_NS and link >= 0 and len(calls) < MAX_LAUNCHES:
                calls.append(link)
                starts.append(start)
                kinds.append(call_kind(self._names.get(row.get("nameId") or 0, "")))
        places = places_of(links, calls)
        host_ns = np.append(np.array(starts, dtype=np.int64), UNKNOWN_NS)[places]
        return host_ns, replayed, np.append(np.array(kinds, dtype=np.int64), CALL_UNKNOWN)[places]

    def _devices(self) -> dict[int, Device | None]:
        devices: dict[int, Device | None] = dict.fromkeys(self._builder.kernel_devices())
        for row in self._tables.rows(GPUS):
            number = row.get("cuDevice", row.get("id"))
            if number in devices:
                properties = {
                    "name": row.get("name"),
                    "computeMajor": row.get("computeMajor"),
                    "computeMinor": row.get("computeMinor"),
                    "numSms": row.get("smCount"),
                    "sharedMemPerMultiprocessor": row.get("maxShmemPerSm", row.get("sharedMemPerSm")),
                }
                devices[number], note = device_from_properties(properties)
                if note and note not in self._builder.notes:
                    self._builder.notes.append(note)
        if None in devices.values() and not self._builder.notes:
            self._builder.notes.append(
                f"No table {GPUS} for a device: occupancy and waves are unknown. Name it with --device."
            )
        return devices


def _name_of(row: Row) -> Any:
    return row.get(NAMES[0], row.get(NAMES[1]))


def _times(row: Row) -> tuple[int, int] | None:
    start, end = row.get("start"), row.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end < MAX_NS:
        return None
    return start, end - start


def _lane(row: Row, device: int) -> Lane:
    return Lane(str(row.get("globalPid", ""))[:60], device, str(row.get("streamId", ""))[:60])


def _identifier(row: Row) -> int:
    value = row.get("correlationId")
    return value if isinstance(value, int) and 0 <= value < MAX_NS else -1


def _size(value: Any, least: int) -> int | None:
    return value if isinstance(value, int) and least <= value < MAX_SIZE else None


def _sizes(row: Row, stem: str) -> tuple[int, int, int] | None:
    x, y, z = (_size(row.get(f"{stem}{axis}"), 1) for axis in "XYZ")
    return None if x is None or y is None or z is None else (x, y, z)
