"""Traces from inside kernels, by the tools that people have, as the one `Trace`: SMs by time, tails, waits.

Example: `load_in_kernel("rows.chrome_trace")` takes a file of Proton's instrumentation: a row per block with
its SM, and as waiting what its scopes of that name took. A file of our own recorder is a trace already.

Formats: Proton's Chrome trace (Triton 3.6: events of process "KERNEL Core7 CTA42"); any Chrome trace whose
events, or the names of their process and thread, tell an SM and a block; the protobuf that tg4perfetto writes
for FlashInfer and Mirage (tracks "block_3", with or without "sm_7", above "group_0"); CUTLASS's IKET
(`run-iket ... --postprocess json`, "JSON Trace Shape" in its guide). Proton's was made on a GPU, the others
are read by their documented format.
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.profile.perfetto_tracks import track_spans
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import open_data
from wavesim.trace.header import Header, StageInfo
from wavesim.trace.placing import slots
from wavesim.trace.trace import Trace

MOST_BYTES = 256 << 20  # unpacked
MOST_BLOCKS = 1 << 22
LOOKED_AT = 1 << 20  # bytes in which a file says what it is
ARCHIVE, GZIP = b"PK", b"\x1f\x8b"
_WAITS = re.compile(r"wait|spin|acquire|poll|sync|stall", re.IGNORECASE)
_SM = re.compile(r"\b(?:core|sm)[ _:=#]*(\d{1,5})(?!\d)|\bsm_(\d{1,5})_", re.IGNORECASE)
_BLOCK = re.compile(r"(?:\b|_)(?:cta|block|blk)[ _:=#]*(\d{1,9})", re.IGNORECASE)
_IN_KERNEL = re.compile(
    rb'(?:Core|SM|sm)[ _:]?\d+[ _,]*(?:CTA|cta|[Bb]lock)[ _:]?\d+|\x07?block_\d+|"warpLoc'
)
_UNNAMED = "kernel"


@dataclass(frozen=True)
class RecordedSpan:
    """An event of one block: where, when, in nanoseconds; `scope` is its own name."""

    kernel: str
    sm: int | None
    block: int
    scope: str
    start_ns: int
    end_ns: int


def load_in_kernel(path: str | Path, device: Device | None = None) -> Trace | None:
    """The trace that the file holds; None where it is no trace from inside kernels, such as a profile.

    Raises `RecordingError` for a damaged one, or one with an SM that `device` has not.
    """
    path = Path(path)
    with open_data(path) as file:
        start = file.read(2)
    if start == ARCHIVE:
        return Trace.load(path)
    data = _read(path, is_packed=start == GZIP)
    if not _IN_KERNEL.search(data[:LOOKED_AT]):
        return None
    spans = _of_json(data, str(path)) if data.lstrip()[:1] in (b"{", b"[") else _of_tracks(data, str(path))
    return trace_of_spans(list(spans), path.name, device)


def _read(path: Path, *, is_packed: bool) -> bytes:
    with open_data(path) as file:
        try:
            data = (gzip.GzipFile(fileobj=file) if is_packed else file).read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingError(f"{path}: damaged: {one_line(str(error))}") from None
    if len(data) > MOST_BYTES:
        raise RecordingError(f"{path}: more than {MOST_BYTES:,} bytes; at most that many are read")
    return data


def _of_json(data: bytes, place: str) -> Iterator[RecordedSpan]:
    document = json_value(data, place)
    if isinstance(document, dict) and "launches" in document:
        yield from _of_iket(document["launches"], place)
        return
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise RecordingError(f"{place}: field 'traceEvents' is no list; expected a Chrome trace")
    names = {
        (event.get("pid"), event.get("tid") if event["name"] == "thread_name" else None): str(
            event.get("args", {}).get("name", "")
        )
        for event in events
        if isinstance(event, dict)
        and event.get("ph") == "M"
        and event.get("name") in ("process_name", "thread_name")
    }
    for number, event in enumerate(events):
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        try:
            yield from _of_event(event, names)
        except (TypeError, ValueError, AttributeError) as error:
            raise RecordingError(f"{place}: event {number}: {type(error).__name__} ({error})") from None


def _of_iket(launches: Any, place: str) -> Iterator[RecordedSpan]:
    """Ranges and lifetimes of warps as their blocks'; a kernel that ran again is named with its launch."""
    try:
        names = [str(launch["kernelName"]) for launch in launches]
        for name, launch in zip(names, launches, strict=True):
            kernel = f"{name} (launch {launch['gridId']})" if names.count(name) > 1 else name
            warps = [
                (str(span["rangeName"]), span, warp)
                for span in launch.get("ranges", ())
                for warp in span["warpLocs"]
            ] + [("", span, span["warpLocation"]) for span in launch.get("warpLifetimes", ())]
            width, height, _ = (
                1 + max((int(warp["ctaId"][axis]) for _, _, warp in warps), default=0) for axis in range(3)
            )
            for scope, span, warp in warps:
                x, y, z = map(int, warp["ctaId"])
                block, sm = x + width * (y + height * z), int(warp["smId"])
                yield RecordedSpan(kernel, sm, block, scope, int(span["startTs"]), int(span["endTs"]))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise RecordingError(
            f"{place}: no trace of IKET as its guide shows it: {type(error).__name__} ({error})"
        ) from None


def _of_event(event: Mapping[str, Any], names: Mapping[tuple[Any, Any], str]) -> Iterator[RecordedSpan]:
    """The event as a block's, where its process or thread names one."""
    process, thread = event.get("pid"), event.get("tid")
    given = event.get("args") or {}
    named = (process, names.get((process, None), ""), thread, names.get((process, thread), ""))
    words = " ".join(map(str, named))
    sm, block = (
        _number(_SM, words, given, "sm", "sm_id", "smid"),
        _number(_BLOCK, words, given, "cta", "block_id"),
    )
    if block is None:
        return
    start = round(1e3 * float(event["ts"]))
    end = start + round(1e3 * float(event.get("dur", 0)))
    kernel = str(event.get("cat") or _UNNAMED)
    yield RecordedSpan(kernel, sm, block, str(event.get("name", "")), start, end)


def _number(pattern: re.Pattern[str], words: str, given: Mapping[str, Any], *fields: str) -> int | None:
    for field in fields:
        if isinstance(given.get(field), int):
            return int(given[field])
    match = pattern.search(words)
    return int(next(group for group in match.groups() if group)) if match else None


def _of_tracks(data: bytes, place: str) -> Iterator[RecordedSpan]:
    for span in track_spans(data, place):
        words = " ".join(span.tracks)
        block = _BLOCK.search(words)
        if block is not None:
            sm = _SM.search(words)
            number = int(next(group for group in sm.groups() if group)) if sm else None
            yield RecordedSpan(_UNNAMED, number, int(block[1]), span.name, span.start_ns, span.end_ns)


def trace_of_spans(spans: list[RecordedSpan], workload: str, device: Device | None = None) -> Trace:
    """A row per kernel and block, from its first event to its last; scopes of such a name are waiting."""
    if not spans:
        raise RecordingError(
            f"{workload}: no event of a block; expected an SM and a block in its process or track"
        )
    rows: dict[tuple[str, int, int | None], list[RecordedSpan]] = {}
    for span in spans:
        rows.setdefault((span.kernel, span.block, span.sm), []).append(span)
    if len(rows) > MOST_BLOCKS:
        raise RecordingError(f"{workload}: {len(rows):,} blocks; at most {MOST_BLOCKS:,} are read")
    has_sms = all(sm is not None for _, _, sm in rows)
    names = list(dict.fromkeys(kernel for kernel, _, _ in rows))
    zero = min(span.start_ns for span in spans)
    stage = np.array([names.index(kernel) for kernel, _, _ in rows])
    block = np.array([number for _, number, _ in rows])
    sm = np.array([number for _, _, number in rows]) if has_sms else block.copy()
    start = np.array([min(span.start_ns for span in own) for own in rows.values()]) - zero
    end = np.array([max(span.end_ns for span in own) for own in rows.values()]) - zero
    waiting = np.array([_waited(own) for own in rows.values()])
    sm_count = device.sm_count if device is not None else int(sm.max()) + 1
    if sm.max() >= sm_count:
        raise RecordingError(f"{workload}: SM {sm.max()}; {device.name if device else 'it'} has {sm_count}")
    slot = slots(sm, start, end)
    infos = tuple(
        StageInfo(
            name, (int(block[stage == number].max()) + 1, 1, 1), int(slot[stage == number].max()) + 1, 0
        )
        for number, name in enumerate(names)
    )
    note = "" if has_sms else "the file names no SM: each block is drawn as an SM of its own"
    known = {"name": device.name if device is not None else "unknown", "sm_count": sm_count}
    header = Header("measured", known, workload, "recorded", "As recorded", infos, note=note)
    nothing = np.zeros_like(block)
    return Trace(header, stage, block, nothing, nothing, sm, slot, start, start, waiting, end)


def _waited(own: Iterable[RecordedSpan]) -> int:
    """Time in scopes that wait, each moment once: warps wait side by side."""
    total, until = 0, -(1 << 62)
    for begin, end in sorted((span.start_ns, span.end_ns) for span in own if _WAITS.search(span.scope)):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total
