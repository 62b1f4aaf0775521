"""Nsight Systems profiles: the sqlite file that `nsys export --type sqlite` writes.

Example: the table `CUPTI_ACTIVITY_KIND_KERNEL` has a row per launch with grid, block, registers and shared
memory in columns of their own, `TARGET_INFO_GPU` a row per GPU with all its limits. Columns come and go
between versions, so those that exist are asked for first; names are indices into `StringIds`.

The file is data: it is opened read-only, views and triggers in it are never run.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from wavesim.advise.profile import UNKNOWN_NS, IntArray, Lane, Profile
from wavesim.advise.profile_builder import MAX_LAUNCHES, MAX_NAME, ProfileBuilder
from wavesim.advise.profiled_device import device_from_properties
from wavesim.errors import RecordingError
from wavesim.model.device import Device

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
GPUS = "TARGET_INFO_GPU"
SQLITE_MAGIC = b"SQLite format 3\x00"
MAX_NS = 1 << 62
MAX_SIZE = 1 << 31
MAX_TEXT = 1 << 20
MAX_STEPS_OF_SQLITE = 20_000  # calls of the progress handler, each after a million instructions
BATCH = 10_000

Row = dict[str, Any]


def load_nsight(path: str | Path) -> Profile:
    """Reads an sqlite export. Raises `RecordingError` in one line: not sqlite, damaged, no kernels."""
    path = Path(path)
    try:
        uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            _restrict(connection)
            return _Reader(path, connection).profile()
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        # The message may quote the file, line ends included.
        reason = "".join(letter if letter.isprintable() else "?" for letter in str(error))[:200]
        raise RecordingError(f"{path}: damaged Nsight Systems export: {reason}") from None


def _restrict(connection: sqlite3.Connection) -> None:
    """Nothing the file defines is executed, and no query runs for ever."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
    calls = iter(range(MAX_STEPS_OF_SQLITE))
    connection.set_progress_handler(lambda: next(calls, None) is None, 1_000_000)


class _Reader:
    """One file's tables."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._builder = ProfileBuilder(path, "Nsight Systems")
        self._tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if isinstance(name, str)
        }
        self._names: dict[int, str] = {}

    def profile(self) -> Profile:
        """What the tables say."""
        if KERNELS not in self._tables:
            raise RecordingError(
                f"{self._path}: no table {KERNELS}; record with `nsys profile --trace=cuda` and export to "
                "sqlite"
            )
        replayed = [self._kernel(row) for row in self._rows(KERNELS)]
        replayed += [self._copy(row) for table in COPIES for row in self._rows(table)]
        if not any(flag is not None for flag in replayed):
            raise RecordingError(f"{self._path}: no GPU kernels in this Nsight Systems profile")
        flags = np.array([bool(flag) for flag in replayed if flag is not None], dtype=bool)
        if flags.any():
            self._builder.notes.append(
                f"{int(flags.sum()):,} operations are replayed by CUDA graphs: their launch gaps are the "
                "device's own."
            )
        return self._builder.build(self._devices(), self._host_ns(), flags)

    def _rows(self, table: str) -> Iterator[Row]:
        """A table's rows as dicts of the columns that it has."""
        if table not in self._tables:
            return
        cursor = self._connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608  # one of our own constants
        columns = [item[0] for item in cursor.description]
        while batch := cursor.fetchmany(BATCH):
            for values in batch:
                yield dict(zip(columns, values, strict=True))

    def _kernel(self, row: Row) -> bool | None:
        times = _times(row)
        if times is None:
            self._builder.skipped += 1
            return None
        name = self._string(row.get("demangledName", row.get("shortName")))
        grid = _sizes(row, "grid")
        block = _sizes(row, "block")
        shared = [_size(row.get(key), 0) for key in ("staticSharedMemory", "dynamicSharedMemory")]
        device = _size(row.get("deviceId"), 0) or 0
        key = (
            name[:MAX_NAME],
            device,
            grid,
            None if block is None else _size(block[0] * block[1] * block[2], 1),
            _size(row.get("registersPerThread"), 1),
            None if None in shared else sum(size for size in shared if size is not None),
            None,
        )
        self._builder.add(key, _lane(row, device), *times, _identifier(row))
        return row.get("graphNodeId") not in (None, 0) or row.get("graphId") not in (None, 0)

    def _copy(self, row: Row) -> bool | None:
        times = _times(row)
        if times is None:
            self._builder.skipped += 1
            return None
        self._builder.add(None, _lane(row, _size(row.get("deviceId"), 0) or 0), *times, _identifier(row))
        return False

    def _string(self, index: Any) -> str:
        if not self._names:
            for row in self._rows("StringIds"):
                if isinstance(row.get("id"), int) and isinstance(row.get("value"), str):
                    self._names[row["id"]] = row["value"][:MAX_NAME]
                if len(self._names) > MAX_LAUNCHES:
                    raise RecordingError(
                        f"{self._path}: more than {MAX_LAUNCHES:,} strings; this is no profile"
                    )
            self._names.setdefault(-1, "")
        return index[:MAX_NAME] if isinstance(index, str) else self._names.get(index, f"kernel {index}")

    def _host_ns(self) -> IntArray:
        links = self._builder.column("link")
        host = np.full(len(links), UNKNOWN_NS)
        calls = {
            _identifier(row): row["start"]
            for row in self._rows(CALLS)
            if isinstance(row.get("start"), int) and 0 <= row["start"] < MAX_NS
        }
        for place, link in enumerate(links.tolist()):
            host[place] = calls.get(link, UNKNOWN_NS) if link >= 0 else UNKNOWN_NS
        return host

    def _devices(self) -> dict[int, Device | None]:
        found: dict[int, Device | None] = dict.fromkeys(self._builder.kernel_devices())
        for row in self._rows(GPUS):
            number = row.get("cuDevice", row.get("id"))
            if number in found:
                properties = {
                    "name": row.get("name"),
                    "computeMajor": row.get("computeMajor"),
                    "computeMinor": row.get("computeMinor"),
                    "numSms": row.get("smCount"),
                    "sharedMemPerMultiprocessor": row.get("maxShmemPerSm", row.get("sharedMemPerSm")),
                }
                found[number], note = device_from_properties(properties)
                if note and note not in self._builder.notes:
                    self._builder.notes.append(note)
        if None in found.values() and not self._builder.notes:
            self._builder.notes.append(
                f"No table {GPUS} for a device: occupancy and waves are unknown. Name it with --device."
            )
        return found


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
