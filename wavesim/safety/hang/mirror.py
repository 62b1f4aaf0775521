"""The mirror file: semaphores of a running process as another process can read them, also while it hangs.

Example: a thread copies all counters into pinned memory that is a file in /dev/shm, ten times a second.
A copy needs no SM, so it goes on while all of them spin; after a kill the file is still there.

Layout: 8 bytes `MAGIC`; three unsigned integers of 8 bytes, lowest byte first: length of the header, number
of copies made so far, time of the last one in nanoseconds since 1970. Then the header, JSON, and the arrays
where it says, each of unsigned integers of 4 bytes:

    {"arrays": [{"name": "gemm1 rows", "operation": "gemm1", "kind": "semaphores", "offset": 8192, "count": 8,
                 "awaited": [24, 24, ...], "waiters": ["gemm2"]},
                {"name": "started", "operation": "gemm1", "kind": "started", "offset": 8224, "count": 1}],
     "errors": {"offset": 8256, "operations": ["gemm1", "gemm2"], "counters": ["start of gemm1", ...]},
     "situation": {...}}

"semaphores" count posts, and are ready at `awaited` (one number for all, or one each); "started" counts an
operation's blocks that have begun. `errors` is an error buffer of `ERRORS` (`watch.cuh`), its stages named by
`operations` and its counters by `counters`. `situation` is optional, as `docs/why-hang.md` has it.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError, Waiter
from wavesim.safe_io.bounds import bounded_text, shown, whole
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.reading import read_bytes
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.situation_file import situation_of

MAGIC = b"WSMIRR1\n"
HEAD = struct.Struct("<8sQQQ")
MOST_BYTES = 64 << 20
MOST_ARRAYS, MOST_COUNTERS = 4_096, 1 << 22  # counters: of all arrays together
MAX_STAGES, MAX_WAITERS = 16, 64  # of an error buffer
WAITER = np.dtype(
    [(name, "<i4") for name in ("stage", "x", "y", "z", "counter", "sm", "block", "reserved")]
    + [("seen", "<u4"), ("awaited", "<u4")]
)
ERRORS = np.dtype(
    [
        ("aborted", "<u4"),
        ("waiter_count", "<u4"),
        ("issued", "<u4", (MAX_STAGES,)),
        ("waiters", WAITER, (MAX_WAITERS,)),
        ("ended", "<u4"),
    ]
)
COUNTER = np.dtype("<u4")


@dataclass(frozen=True, eq=False)
class MirroredArray:
    """Counters of one operation as they stood; `awaited` is what each has to reach, if that is known."""

    name: str
    operation: str
    kind: str
    values: NDArray[np.uint32]
    awaited: NDArray[np.int64] | None = None
    waiters: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Mirror:
    """What a mirror file says: counters, and who gave up waiting; `copies` made, the last at `time_ns`."""

    arrays: Sequence[MirroredArray]
    copies: int
    time_ns: int
    gave_up: Sequence[Waiter] = ()
    situation: Situation | None = None


def mirror_head(header: Mapping[str, Any], copies: int = 0, time_ns: int = 0) -> bytes:
    """What stands before the arrays; a new copy rewrites its first `HEAD.size` bytes."""
    text = json.dumps(header).encode()
    return HEAD.pack(MAGIC, len(text), copies, time_ns) + text


def load_mirror(path: str | Path) -> Mirror:
    """Reads a mirror file, also while it is written. Raises `RecordingError`."""
    path = Path(path)
    data = read_bytes(path, MOST_BYTES)
    if len(data) < HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise RecordingError(f"{path}: no mirror of semaphores; it begins with {MAGIC!r}")
    _, length, copies, time_ns = HEAD.unpack_from(data)
    if length > len(data) - HEAD.size:
        raise RecordingError(
            f"{path}: the header has {length:,} bytes and the file {len(data):,}; it is cut off"
        )
    header = json_value(data[HEAD.size : HEAD.size + length], f"{path}: header")
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
        raise RecordingError(f"{path}: header: field 'arrays' is missing; it lists the counters")
    entries = header["arrays"]
    if len(entries) > MOST_ARRAYS:
        raise RecordingError(f"{path}: header: {len(entries):,} arrays; at most {MOST_ARRAYS:,} are read")
    arrays, left = [], MOST_COUNTERS
    for position, entry in enumerate(entries):
        arrays.append(_array(path, position, entry, data, left))
        left -= len(arrays[-1].values)
    situation = situation_of(path, header["situation"]) if header.get("situation") else None
    return Mirror(arrays, copies, time_ns, _gave_up(path, header.get("errors"), data), situation)


def _array(path: Path, position: int, entry: Any, data: bytes, most: int) -> MirroredArray:
    place = f"{path}: header: arrays[{position}]"
    if not isinstance(entry, dict):
        raise RecordingError(f"{place} is {shown(entry)}; expected an object")
    values = _numbers(place, entry, data, COUNTER, _whole(place, entry, "count", most))
    awaited = entry.get("awaited")
    if awaited is not None:
        listed = awaited if isinstance(awaited, list) else [awaited]
        expected = len(values) if isinstance(awaited, list) else 1
        if len(listed) != expected or any(type(item) is not int for item in listed):
            raise RecordingError(
                f"{place}.awaited is {shown(awaited)}; expected {len(values)} integers, or one"
            )
        awaited = np.broadcast_to(np.array(listed, dtype=np.int64), len(values))
    waiters = entry.get("waiters", [])
    if not isinstance(waiters, list) or any(not isinstance(item, str) for item in waiters):
        raise RecordingError(f"{place}.waiters is {shown(waiters)}; expected a list of texts")
    return MirroredArray(
        name=bounded_text(f"{place}.name", entry.get("name")),
        operation=bounded_text(f"{place}.operation", entry.get("operation")),
        kind=bounded_text(f"{place}.kind", entry.get("kind", "semaphores")),
        values=values,
        awaited=awaited,
        waiters=tuple(waiters),
    )


def _whole(place: str, entry: Mapping[str, Any], name: str, most: int) -> int:
    return whole(f"{place}.{name}", entry.get(name), 0, most)


def _numbers(place: str, entry: Mapping[str, Any], data: bytes, kind: Any, count: int) -> NDArray[Any]:
    offset = _whole(place, entry, "offset", len(data))
    if offset + count * kind.itemsize > len(data):
        raise RecordingError(f"{place} ends at byte {offset + count * kind.itemsize:,} of {len(data):,}")
    return np.frombuffer(data, kind, count, offset)


def _gave_up(path: Path, entry: Any, data: bytes) -> tuple[Waiter, ...]:
    if entry is None:
        return ()
    place = f"{path}: header: errors"
    if not isinstance(entry, dict) or not isinstance(entry.get("operations"), list):
        raise RecordingError(f"{place} is {shown(entry)}; expected offset and operations")
    names, counters = entry["operations"], entry.get("counters", [])
    if not isinstance(counters, list):
        raise RecordingError(f"{place}.counters is {shown(counters)}; expected a list of texts")
    buffer = _numbers(place, entry, data, ERRORS, 1)[0]
    rows = buffer["waiters"][: min(int(buffer["waiter_count"]), MAX_WAITERS)]
    return tuple(_waiter(row, names, counters) for row in rows)


def _waiter(row: Any, names: Sequence[Any], counters: Sequence[Any]) -> Waiter:
    stage = int(row["stage"])
    name = str(names[stage]) if 0 <= stage < len(names) else f"stage {stage}"
    counter = int(row["counter"])
    awaited = str(counters[counter]) if 0 <= counter < len(counters) else f"counter {counter}"
    tile = (int(row["x"]), int(row["y"]), int(row["z"]))
    return Waiter(name, tile, int(row["sm"]), -1, awaited, int(row["seen"]), int(row["awaited"]))
