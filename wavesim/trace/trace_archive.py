"""The traces of a folder as one file: traces.npz.xz, a third of what they take apart, for most of it repeats.

Example: 216 traces are 13 columns, each with the blocks of all traces one after the other; `names` lists what
each trace's file is called, how many blocks it has and its usual clock, `header` holds their headers as JSON.
What a block's time gives at that clock is left out of its `cycles`. Archives without clocks are read, too.
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
MOST_CLOCK = 1 << 16  # in cycles per 1,024 ns: 60 GHz

Columns = Mapping[str, NDArray[Any]]


def pack_traces(folder: Path) -> Path | None:
    """Moves all .npz of a folder into its archive, beside those there; None where there is none.

    A file of a name that is packed already takes its place. Raises `RecordingError` or `OutputError`.
    """
    import lzma  # noqa: PLC0415  # a Python in a browser may lack it; its traces are loose

    # Tables of 32-bit numbers: what a byte is depends on its place among four, and not on the byte before.
    packing = {"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 2}
    loose = sorted(folder.glob("*.npz"))
    if not loose:
        return None
    packed = dict(_beside(folder / ARCHIVE))
    for member in loose:
        with member.open("rb") as file:
            packed[member.name] = read_arrays(member, file)
    traces = dict(sorted(packed.items()))
    data = _npz(_table(traces))
    path = folder / ARCHIVE
    with replacing(path) as out:
        out.write(lzma.compress(data, filters=[packing]))
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


def _table(traces: Mapping[str, Columns]) -> Columns:
    """The columns of all traces, and what says where each is and what its header was."""
    first = next(iter(traces.values()))
    table = {name: _joined(name, traces) for name in first if name != "header"}
    clocks = [_clock(columns) for columns in traces.values()]
    if "cycles" in first:
        pairs = zip(clocks, traces.values(), strict=True)
        beyond = [columns["cycles"] - _cycles_at(clock, columns) for clock, columns in pairs]
        table["cycles"] = narrowed(np.concatenate(beyond))
    sizes = [int(columns["stage"].size) for columns in traces.values()]
    headers = [json.loads(columns["header"].astype(np.uint8).tobytes()) for columns in traces.values()]
    names = list(zip(traces, sizes, clocks, strict=True))
    return {**table, "names": _bytes(names), "header": _bytes(headers)}


def _clock(columns: Columns) -> int:
    """The median of a trace's blocks, in cycles per 1,024 ns; 0 where it has none."""
    if "cycles" not in columns or not columns["cycles"].size:
        return 0
    spent_ns = np.maximum(1, columns["end_ns"].astype(np.int64) - columns["start_ns"])
    return min(MOST_CLOCK, max(0, int(np.median((columns["cycles"].astype(np.int64) << 10) // spent_ns))))


def _cycles_at(clock: int, columns: Columns) -> NDArray[Any]:
    """What each block's time gives at a clock."""
    return (columns["end_ns"].astype(np.int64) - columns["start_ns"]) * clock // 1_024


def _with_cycles(clock: list[int], columns: Columns) -> dict[str, NDArray[Any]]:
    """A trace as it was before its clock's cycles were left out."""
    if not clock:
        return dict(columns)
    return {**columns, "cycles": columns["cycles"] + _cycles_at(clock[0], columns)}


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
        ends = np.cumsum([count for _, count, *_ in names])
        columns = {name: _parts(name, column, ends) for name, column in table.items()}
        own = [{key: parts[index] for key, parts in columns.items()} for index in range(len(names))]
        return {
            name: _with_cycles(clock, each) | {"header": _bytes(header)}
            for (name, _, *clock), each, header in zip(names, own, headers, strict=True)
        }
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise RecordingError(f"{path}: damaged: {one_line(str(error))}") from None


def _require_texts(path: Path, names: Any) -> None:
    if not isinstance(names, list) or not all(_is_member(entry) for entry in names):
        raise RecordingError(f"{path}: damaged: names are no list of a text, a count and a clock each")


def _is_member(entry: Any) -> bool:
    if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
        return False
    return all(isinstance(clock, int) and 0 <= clock <= MOST_CLOCK for clock in entry[2:])


def _parts(name: str, column: NDArray[Any], ends: NDArray[Any]) -> list[NDArray[Any]]:
    """A column cut into its traces'."""
    if column.size != ends[-1]:
        raise ValueError(f"{column.size} entries of {name} for {ends[-1]} blocks")
    whole = np.cumsum(column) if name in STEPS else column
    return [whole[first:end] for first, end in pairwise([0, *(int(end) for end in ends)])]
