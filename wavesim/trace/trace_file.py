"""The file format of traces: an .npz that numpy alone can read, checked field by field when it is read.

Example: a header whose `stages` hold a number ends with "x.npz: field 'header.stages' holds 7; expected an
object". Files are data and never code: no pickle, a limit on what they unpack to, unknown fields left out.
"""

import types
import zipfile
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.escaping import one_line
from wavesim.trace.header import DependencyInfo, Event, Header, StageInfo, with_current_names

FORMAT = "wavesim-trace"
VERSION = 1
MAX_UNPACKED_BYTES = 1 << 30  # a trace of ten million blocks; larger files are refused unread
MOST_HEADER_BYTES, MOST_HEADER_ITEMS = 1 << 26, 1 << 22  # a number per tile and per semaphore, and the events

# SMs times slots, each a row of a figure: an H200 has 132 x 32. Slots are no more closely bounded: those of a
# measured block are reckoned from its times, so that a kernel can seem to hold one more than an SM has.
MOST_PLACES = 1 << 20

IntArray = NDArray[np.int64]
T = TypeVar("T")


def narrowed(array: IntArray) -> NDArray[Any]:
    """The same integers in 32 bits where they fit, which halves the file."""
    fits = array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)
    return array.astype(np.int32) if fits else array


def read_arrays(path: Path, file: BinaryIO) -> dict[str, NDArray[Any]]:
    """The columns of an open file, all integers (n,), and its header as bytes. Raises `RecordingError`."""
    _require_small(path, file)
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(file, allow_pickle=False) as archive:
            for name in archive.files:
                arrays[name] = _column(path, name, archive[name], sum(map(np.size, arrays.values())))
    except RecordingError:
        raise
    except Exception as error:  # noqa: BLE001 - zlib, zip and numpy each have their own for damaged files
        raise RecordingError(f"{path}: damaged: {one_line(str(error))}") from None
    return arrays


def _require_small(path: Path, file: BinaryIO) -> None:
    """Refuses what is no archive, or one that says that it unpacks to more than a trace."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(info.file_size for info in archive.infolist())
            header = sum(info.file_size for info in archive.infolist() if info.filename == "header.npy")
    except Exception as error:  # noqa: BLE001 - a damaged directory raises many kinds beside BadZipFile
        raise RecordingError(
            f"{path}: not a trace, or truncated: {one_line(str(error))}. Expected an .npz that "
            "Trace.save wrote"
        ) from None
    if header > MOST_HEADER_BYTES:
        raise RecordingError(f"{path}: a header of {header:,} bytes; at most {MOST_HEADER_BYTES:,} are read")
    if size > MAX_UNPACKED_BYTES:
        raise RecordingError(f"{path}: unpacks to {size} bytes; at most {MAX_UNPACKED_BYTES} are read")
    file.seek(0)


def _column(path: Path, name: str, array: NDArray[Any], before: int) -> NDArray[Any]:
    """A column as 64-bit integers, of which `before` are held already; the header as its bytes."""
    is_column = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    if not is_column:
        raise RecordingError(
            f"{path}: field {shown(name)} has shape {array.shape} and type {one_line(str(array.dtype))}; "
            "expected integers (n,)"
        )
    if name == "header":
        return array
    if 8 * (before + array.size) > MAX_UNPACKED_BYTES:  # a byte each in the file, eight here
        raise RecordingError(f"{path}: holds more than {MAX_UNPACKED_BYTES // 8} integers; no trace does")
    return array.astype(np.int64)


def read_header(path: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The header as JSON values, of a version that is known. Raises `RecordingError`."""
    if "header" not in arrays:
        raise RecordingError(f"{path}: field 'header' is missing; the file is not a wavesim trace")
    text = arrays["header"].astype(np.uint8).tobytes()
    head = bounded_json(text, f"{path}: field 'header'")
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise RecordingError(
            f"{path}: field 'header.format' is not {FORMAT!r}; the file is not a wavesim trace"
        )
    if type(head.get("version")) is not int or not 1 <= head["version"] <= VERSION:
        raise RecordingError(
            f"{path}: field 'header.version' is {shown(head.get('version'))}; this wavesim reads 1 to "
            f"{VERSION}. Update wavesim"
        )
    return {key: value for key, value in head.items() if key not in ("format", "version")}


def bounded_json(text: bytes, place: str) -> Any:
    """The value of a header's JSON, whose items are counted first: each takes some 100 bytes once it is read,
    and two in the file. Raises `RecordingError`.
    """
    items = sum(map(text.count, (b",", b"[", b"{")))
    if items > MOST_HEADER_ITEMS:
        raise RecordingError(f"{place} has {items:,} items; at most {MOST_HEADER_ITEMS:,} are read")
    return json_value(text, place)


def _listed(head: dict[str, Any], name: str, path: Path) -> list[Any]:
    """Takes a list out of the header; a missing one is empty."""
    entries = head.pop(name, [])
    if not isinstance(entries, list):
        raise RecordingError(f"{path}: field 'header.{name}' is {shown(entries)}; expected a list")
    return entries


def _built(kind: type[T], entry: Any, path: Path, *where: str) -> T:
    """One dataclass from its JSON: unknown fields are left out, so that newer files stay readable."""
    field_path = ".".join(("header", *where))
    if not isinstance(entry, dict):
        raise RecordingError(f"{path}: field '{field_path}' holds {shown(entry)}; expected an object")
    values, hints = {}, _hints(cast("Any", kind))
    for name, hint in hints.items():
        if name not in entry:
            continue
        value = tuple(entry[name]) if isinstance(entry[name], list) else entry[name]
        if not _fits(value, hint):
            raise RecordingError(
                f"{path}: field '{field_path}.{name}' is {shown(entry[name])}; expected {_text(hint)}"
            )
        values[name] = value
    for field in fields(cast("Any", kind)):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if is_needed and field.name not in values:
            what = _text(hints[field.name])
            raise RecordingError(f"{path}: field '{field_path}.{field.name}' is missing; expected {what}")
    return kind(**values)


@lru_cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from JSON, its lists made tuples, is of an annotated type of this module's."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in args
    if origin is types.UnionType:
        return any(_fits(value, arg) for arg in args)
    if origin is tuple and isinstance(value, tuple):
        if args[-1] is ... and args[0] in (int, str):
            value = tuple({type(item): item for item in value}.values())  # of each type one tells for all
        hints = args[:1] * len(value) if args[-1] is ... else args
        return len(value) == len(hints) and all(map(_fits, value, hints))
    if origin is not None:
        return isinstance(value, origin) and all(_fits(item, args[1]) for item in value.values())
    if hint is Any:
        return True
    kinds = int | float if hint is float else hint
    return isinstance(value, kinds) and not isinstance(value, bool)


def _text(hint: Any) -> str:
    """An annotated type of this module's in words, as JSON has it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin is types.UnionType:
        return " or ".join(map(_text, args))
    if origin is not None:
        return "a list" if origin is tuple else "an object"
    return {str: "a text", int: "an integer", float: "a number", type(None): "null"}[hint]


def header_of(head: dict[str, Any], path: Path) -> Header:
    """The header from its JSON values, checked field by field. Raises `RecordingError`."""
    for name, kind in (("stages", StageInfo), ("dependencies", DependencyInfo)):
        head[name] = [_built(kind, entry, path, name) for entry in _listed(head, name, path)]
    if "costs" in head:
        head["costs"] = with_current_names(head["costs"])
    header = _built(Header, head, path)
    sm_count = header.device.get("sm_count") if isinstance(header.device, dict) else None
    if not isinstance(sm_count, int):
        raise RecordingError(f"{path}: field 'header.device' lacks an integer 'sm_count'")
    if not 1 <= sm_count <= MOST_PLACES:
        raise RecordingError(
            f"{path}: field 'header.device.sm_count' is {shown(sm_count)}; expected 1 to {MOST_PLACES}"
        )
    return header


def read_events(head: dict[str, Any], path: Path) -> tuple[Event, ...]:
    """Takes the events out of a header. Raises `RecordingError`."""
    return tuple(_built(Event, entry, path, "events") for entry in _listed(head, "events", path))
