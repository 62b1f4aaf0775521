"""Slices of the tracks of a Perfetto trace, the protobuf that tg4perfetto and others write.

Example: a begin at 5 us and an end at 9 us on track "group_0" below "block_3" are one `TrackSpan` of four
microseconds, whose `tracks` are ("block_3", "group_0"). Source: protos/perfetto/trace of Perfetto 54:
Trace.packet 1; TracePacket timestamp 8, track_event 11, track_descriptor 60; TrackEvent type 9, track_uuid
11, name 23; TrackDescriptor uuid 1, name 2, parent_uuid 5.
"""

from collections.abc import Iterator
from typing import NamedTuple

from wavesim.errors import RecordingError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
PACKET, TIMESTAMP, EVENT, DESCRIPTOR = 1, 8, 11, 60
TYPE, TRACK, NAME, BEGIN, END = 9, 11, 23, 1, 2
UUID, TRACK_NAME, PARENT, PROCESS, PROCESS_NAME = 1, 2, 5, 3, 6
LONGEST_VARINT, MOST_DEEP = 10, 16
Field = int | bytes


class TrackSpan(NamedTuple):
    """A slice: its name, the names of its tracks from the outermost on, and when."""

    name: str
    tracks: tuple[str, ...]
    start_ns: int
    end_ns: int


def track_spans(data: bytes, place: str) -> Iterator[TrackSpan]:
    """All slices that begin and end. Raises `RecordingError` for what is no protobuf of a trace."""
    names: dict[int, tuple[str, int]] = {}  # of a track: its name and the one above it
    open_slices: dict[int, list[tuple[str, int]]] = {}
    for number, packet in fields(data, place):
        if number != PACKET or not isinstance(packet, bytes):
            raise RecordingError(
                f"{place}: field {number} at the top; expected the packets of a Perfetto trace"
            )
        own = dict(fields(packet, place))
        if isinstance(descriptor := own.get(DESCRIPTOR), bytes):
            track = dict(fields(descriptor, place))
            names[_integer(track.get(UUID))] = _name_of(track, place), _integer(track.get(PARENT))
        if isinstance(event := own.get(EVENT), bytes):
            slice_ = dict(fields(event, place))
            at, track_number = _integer(own.get(TIMESTAMP)), _integer(slice_.get(TRACK))
            begun = open_slices.setdefault(track_number, [])
            if slice_.get(TYPE) == BEGIN:
                begun.append((_text(slice_.get(NAME)), at))
            elif slice_.get(TYPE) == END and begun:
                name, since = begun.pop()
                yield TrackSpan(name, _path(names, track_number), since, max(since, at))


def _name_of(track: dict[int, Field], place: str) -> str:
    """A track's own name, or its process's."""
    process = track.get(PROCESS)
    inner = dict(fields(process, place)) if isinstance(process, bytes) else {}
    return _text(track.get(TRACK_NAME)) or _text(inner.get(PROCESS_NAME))


def _path(names: dict[int, tuple[str, int]], track: int) -> tuple[str, ...]:
    path: list[str] = []
    while track in names and len(path) < MOST_DEEP:
        name, track = names[track]
        path.insert(0, name)
    return tuple(path)


def _text(value: Field | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _integer(value: Field | None) -> int:
    return value if isinstance(value, int) else 0


def fields(data: bytes, place: str) -> Iterator[tuple[int, Field]]:
    """The numbers and values of a message's fields; of nested ones the bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at, place)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at, place)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at, place)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            raise RecordingError(
                f"{place}: byte {at}: no field of a Perfetto trace, or the file is cut short"
            )
        part = data[at : at + size]
        yield key >> 3, part if kind == BYTES else int.from_bytes(part, "little")
        at += size


def _varint(data: bytes, at: int, place: str) -> tuple[int, int]:
    value = 0
    for step in range(LONGEST_VARINT):
        if at + step >= len(data):
            break
        byte = data[at + step]
        value |= (byte & 0x7F) << (7 * step)
        if not byte & 0x80:
            return value, at + step + 1
    raise RecordingError(f"{place}: byte {at}: no number of a Perfetto trace, or the file is cut short")
