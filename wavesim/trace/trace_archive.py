"""The traces of a folder as one file: traces.npz.xz, a third of what they take apart, for most of it repeats.

Example: 216 traces are 13 columns, each with the blocks of all traces one after the other; `names` lists what
each trace's file is called and how many blocks it has, `header` holds their headers as a JSON list.
"""

import io
import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import read_packed
from wavesim.safe_io.writing import replacing, write_bytes
from wavesim.trace.trace import Trace
from wavesim.trace.trace_file import bounded_json, narrowed, read_arrays

ARCHIVE = "traces.npz.xz"
MAX_UNPACKED_BYTES = 1 << 28  # ten times the largest folder of recordings
STEPS = ("issue_ns", "start_ns", "end_ns")  # kept as differences between neighbouring blocks, which are small
Columns = Mapping[str, NDArray[Any]]


def pack_traces(folder: Path) -> Path | None:
    """Moves all .npz of a folder into its archive, beside those there; None where there is none.

    A file of a name that is packed already takes its place. Raises `RecordingError` or `OutputError`.
    """
    import lzma  # noqa: PLC0415  # a Python in a browser may lack it; its traces are loose

    loose = sorted(folder.glob("*.npz"))
    if not loose:
        return None
    packed = dict(_beside(folder / ARCHIVE))
    for member in loose:
        with member.open("rb") as file:
            packed[member.name] = read_arrays(member, file)
    traces = dict(sorted(packed.items()))
    first = next(iter(traces.values()))
    table = {name: _joined(name, traces) for name in first if name != "header"}
    names = [(name, int(columns["stage"].size)) for name, columns in traces.items()]
    headers = [json.loads(columns["header"].astype(np.uint8).tobytes()) for columns in traces.values()]
    data = _npz({**table, "names": _bytes(names), "header": _bytes(headers)})
    path = folder / ARCHIVE
    with replacing(path) as out:
        out.write(lzma.compress(data, preset=9))
    for member in loose:
        member.unlink()
    return path


def trace_paths(folder: Path) -> list[Path]:
    """Where the traces of a folder are, loose or packed: `load_trace` reads each. Raises `RecordingError`."""
    return sorted({*folder.glob("*.npz"), *(folder / name for name in _beside(folder / ARCHIVE))})


def has_trace(path: Path) -> bool:
    """Whether a trace is there, as a file or in the archive beside it. Raises `RecordingError`."""
    return path.exists() or path.name in _beside(path)


def load_trace(path: Path) -> Trace:
    """A trace from its file or else from the archive beside it. Raises `RecordingError`."""
    if path.exists() or not has_trace(path):
        return Trace.load(path)
    columns = _beside(path)[path.name]
    return Trace.of_arrays(
        path,
        {name: column if name == "header" else column.astype(np.int64) for name, column in columns.items()},
    )


def unpack_traces(folder: Path, into: Path) -> None:
    """Writes the packed traces of a folder as files of their own. Raises `RecordingError`."""
    for name, columns in _beside(folder / ARCHIVE).items():
        write_bytes(into / name, _file_of(columns))


def _file_of(columns: Columns) -> bytes:
    plain = {name: column if name == "header" else narrowed(column) for name, column in columns.items()}
    return _npz(plain)


def _npz(columns: Columns) -> bytes:
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **columns)
    return data.getvalue()


def _joined(name: str, traces: Mapping[str, Columns]) -> NDArray[Any]:
    """A column of all traces, in 32 bits where it fits."""
    column = np.concatenate([columns[name].astype(np.int64) for columns in traces.values()])
    return narrowed(np.diff(column, prepend=0) if name in STEPS else column)


def _bytes(value: Any) -> NDArray[Any]:
    return np.frombuffer(json.dumps(value, separators=(",", ":")).encode(), np.uint8)


def _beside(path: Path) -> Mapping[str, Columns]:
    archive = path.with_name(ARCHIVE)
    if not archive.exists():
        return {}
    return _members_at(archive, archive.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _members_at(path: Path, changed_ns: int) -> Mapping[str, Columns]:
    del changed_ns  # a part of the key: an archive that was written anew is read anew
    table = read_arrays(path, io.BytesIO(read_packed(path, MAX_UNPACKED_BYTES)))
    texts = {key: table.pop(key, np.zeros(0)).astype(np.uint8).tobytes() for key in ("names", "header")}
    names, headers = (bounded_json(text, f"{path}: field {key!r}") for key, text in texts.items())
    _require_texts(path, names)
    try:
        ends = np.cumsum([count for _, count in names])
        columns = {name: _parts(name, column, ends) for name, column in table.items()}
        return {
            name: {key: parts[index] for key, parts in columns.items()} | {"header": _bytes(headers[index])}
            for index, (name, _) in enumerate(names)
        }
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise RecordingError(f"{path}: damaged: {one_line(str(error))}") from None


def _require_texts(path: Path, names: Any) -> None:
    if not isinstance(names, list) or not all(
        isinstance(entry, list) and entry and isinstance(entry[0], str) for entry in names
    ):
        raise RecordingError(f"{path}: damaged: names are no list of a text and a count each")


def _parts(name: str, column: NDArray[Any], ends: NDArray[Any]) -> list[NDArray[Any]]:
    """A column cut into its traces'."""
    if column.size != ends[-1]:
        raise ValueError(f"{column.size} entries of {name} for {ends[-1]} blocks")
    whole = np.cumsum(column) if name in STEPS else column
    return [whole[first:end] for first, end in pairwise([0, *(int(end) for end in ends)])]
