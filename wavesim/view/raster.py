"""A trace laid out in rows, one per SM slot; timelines too large for a bar per tile, as a picture of these.

Example: 20,000 tiles on 132 SMs become a 1,800 x 660 palette image of some 15 KB that a browser
draws as fast as an empty one. Runs are exact to the pixel; nothing is sampled.
"""

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.trace.trace import IntArray, Trace
from wavesim.view.theme import DARK, LIGHT, Theme, counterparts


@dataclass(frozen=True)
class Segments:
    """Stretches of time on rows; `block` is the trace row they belong to, -1 for idle. Arrays (n,)."""

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    block: IntArray

    def __len__(self) -> int:
        return int(self.row.size)

    def longer_than(self, shortest_ns: float) -> "Segments":
        """Those that last at least so long."""
        return self.where(self.end_ns - self.start_ns >= max(1.0, shortest_ns))

    def spread(self, span: IntArray) -> "Segments":
        """Each segment on as many rows as its block covers; `span` (blocks,)."""
        times = span[self.block]
        first = np.repeat(np.cumsum(times) - times, times)
        below = np.arange(int(times.sum())) - first
        every = np.repeat(np.arange(len(self)), times)
        return Segments(self.row[every] + below, self.start_ns[every], self.end_ns[every], self.block[every])

    def where(self, mask: NDArray[np.bool_]) -> "Segments":
        """Those that a mask picks."""
        return Segments(self.row[mask], self.start_ns[mask], self.end_ns[mask], self.block[mask])


@dataclass(frozen=True)
class SmRows:
    """The layout: `slots` rows per SM, SM 0 first. Times count from the first issue.

    `work` has one segment per block, from the end of its leading wait to its end; `waiting` holds
    leading waits and those inside; `idle` what no block occupied until the trace's last end. `span` is how
    many rows each block covers, from its row on: a kernel of two blocks per SM fills an SM of 16 slots too.
    """

    sm_count: int
    slots: int
    makespan_ns: int
    work: Segments
    waiting: Segments
    idle: Segments
    span: IntArray

    @property
    def count(self) -> int:
        """Rows in all."""
        return self.sm_count * self.slots


def lay_out(trace: Trace) -> SmRows:
    """Rows and segments of a trace."""
    slots = int(trace.slot.max()) + 1 if len(trace) else 1
    origin = int(trace.issue_ns.min()) if len(trace) else 0
    span = _spans(trace, slots)
    row = trace.sm * slots + np.minimum(trace.slot * span, slots - span)
    waiting = _waiting(trace, row, origin)
    work_start = trace.start_ns - origin
    leads = waiting.start_ns <= work_start[waiting.block]
    np.maximum.at(work_start, waiting.block[leads], waiting.end_ns[leads])
    blocks, end = np.arange(len(trace)), trace.end_ns - origin
    work = Segments(row, work_start, end, blocks)
    count = trace.header.sm_count
    idle = _idle(Segments(row, trace.issue_ns - origin, end, blocks).spread(span), count * slots)
    return SmRows(count, slots, trace.makespan_ns, work, waiting, idle, span)


def _spans(trace: Trace, slots: int) -> IntArray:
    """How many of an SM's rows a block of each stage stands for."""
    per_sm = np.array([max(1, info.blocks_per_sm) for info in trace.header.stages])
    spans: IntArray = np.maximum(1, slots // per_sm)[trace.stage]
    return spans


def _waiting(trace: Trace, row: IntArray, origin: int) -> Segments:
    """Single waits where they were recorded, else each block's whole wait at its start."""
    if trace.waits is not None and trace.waits.block.size:
        waits = trace.waits
        segments = Segments(row[waits.block], waits.start_ns - origin, waits.end_ns - origin, waits.block)
        return segments.longer_than(1)
    block = np.flatnonzero(trace.wait_ns > 0)
    start = trace.start_ns[block] - origin
    return Segments(row[block], start, start + trace.wait_ns[block], block)


def _idle(held: Segments, count: int) -> Segments:
    """Gaps between the blocks that hold a row, from time 0 to the last end."""
    last = int(held.end_ns.max()) if len(held) else 0
    every = np.arange(count)
    rows = np.concatenate([held.row, every])
    begins = np.concatenate([held.start_ns, np.full(count, last)])
    ends = np.concatenate([held.end_ns, np.full(count, last)])
    order = np.lexsort((begins, rows))
    rows, begins, ends = rows[order], begins[order], ends[order]
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]])
    # A block of several rows and one of a single row may overlap: what counts is the last end so far.
    reached = np.maximum.accumulate(ends + rows * (last + 1)) - rows * (last + 1)
    before = np.where(is_first, 0, np.concatenate([[0], reached[:-1]]))
    gaps = Segments(rows, before, begins, np.full(rows.size, -1))
    return gaps.longer_than(1)


EMPTY, IDLE, IDLE_HATCH, WAITING, WAITING_HATCH, FIRST_STAGE = range(6)
HATCH_STEP = 12  # pixels from one hatch line to the next
HATCH_WIDTH = 2
URI_START = "data:image/png;base64,"

Codes = list[bytes]  # a line of the picture each, a byte per pixel
# Which pixels of a line have a code, as ones.
IS_IDLE, IS_WAITING = (bytes(int(code == kind) for code in range(256)) for kind in (IDLE, WAITING))


def paint(
    rows: SmRows, stage: NDArray[np.int64], width: int, scale: int, end_ns: float, has_lines: bool = False
) -> Codes:
    """Palette codes, rows * scale lines of `width`, of a timeline from 0 to `end_ns`.

    `stage` is one per block; `has_lines` leaves a line of background between rows.
    """
    canvas = [bytearray([EMPTY]) * width for _ in range(rows.count)]
    per_ns = width / max(end_ns, 1.0)
    _fill(canvas, rows.idle, np.full(len(rows.idle), IDLE), per_ns)
    gap = 1 if width / max(1.0, len(rows.work) / max(1, rows.count)) >= 8 else 0
    work, waiting = rows.work.spread(rows.span), rows.waiting.spread(rows.span)
    _fill(canvas, work, stage[work.block] + FIRST_STAGE, per_ns, gap)
    _fill(canvas, waiting, np.full(len(waiting), WAITING), per_ns)
    return _hatched(canvas, scale, has_lines=has_lines)


def _fill(
    canvas: list[bytearray], segments: Segments, codes: NDArray[np.int64], per_ns: float, gap: int = 0
) -> None:
    """Writes segments as runs: between them the canvas stays; `gap` pixels are left at each end."""
    width = len(canvas[0]) if canvas else 0
    begin = np.floor(segments.start_ns * per_ns + 0.5).astype(np.int64)
    until = np.floor(segments.end_ns * per_ns + 0.5).astype(np.int64) - gap
    until = np.clip(np.maximum(until, begin + 1), 0, width)
    begin = np.clip(begin, 0, width - 1)
    order = np.lexsort((begin, segments.row))
    reached = [0] * len(canvas)
    for row, first, last, code in zip(
        *(column[order].tolist() for column in (segments.row, begin, until, codes)), strict=True
    ):
        start = max(first, reached[row])
        if last > start:
            canvas[row][start:last] = bytes([code]) * (last - start)
            reached[row] = last


def _hatched(canvas: list[bytearray], scale: int, *, has_lines: bool) -> Codes:
    """Each row as `scale` lines. A line is one large number here, and hatching is added to it."""
    width = len(canvas[0]) if canvas else 0
    slashes = [bytes((x + y) % HATCH_STEP < HATCH_WIDTH for x in range(width)) for y in range(HATCH_STEP)]
    hatches = [(_number(line), _number(line[::-1])) for line in slashes]
    image = []
    for row, line in enumerate(canvas):
        plain, idle, waiting = (_number(part) for part in (line, *map(line.translate, (IS_IDLE, IS_WAITING))))
        for y in range(row * scale, (row + 1) * scale):
            slash, back = hatches[y % HATCH_STEP]
            image.append((plain + (idle & slash | waiting & back)).to_bytes(width, "big"))
        if has_lines:
            image[-1] = bytes(width)
    return image


def _number(line: bytes | bytearray) -> int:
    return int.from_bytes(line, "big")


def png_uri(codes: Codes, theme: Theme, stages: int) -> str:
    """The codes as a data: URI of a palette PNG in a theme's colours."""
    colours = [theme.background, theme.idle, theme.idle_hatch, theme.waiting, theme.waiting_hatch]
    colours += [theme.stage_colour(index) for index in range(stages)]
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    size = len(codes[0]) if codes else 0, len(codes)
    lines = b"".join(b"\0" + line for line in codes)  # PNG's filter "none" for each
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", *size, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", b"\0"),  # EMPTY is the paper's own colour, whatever the page makes of it
        (b"IDAT", zlib.compress(lines, 3)),
        (b"IEND", b""),
    )
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)
    return URI_START + base64.b64encode(png).decode()


def recoloured(uri: str, colours: Mapping[str, str]) -> str:
    """A data: URI that `png_uri` wrote with each #RRGGBB of its palette exchanged."""
    png = base64.b64decode(uri.removeprefix(URI_START))
    at = png.index(b"PLTE")
    size = struct.unpack(">I", png[at - 4 : at])[0]
    old = png[at + 4 : at + 4 + size]
    entries = (f"#{old[i : i + 3].hex().upper()}" for i in range(0, size, 3))
    new = b"".join(bytes.fromhex(colours.get(entry, entry)[1:]) for entry in entries)
    return URI_START + base64.b64encode(png[: at - 4] + _chunk(b"PLTE", new) + png[at + 8 + size :]).decode()


def dark_rasters(layout: Mapping[str, Any]) -> dict[str, list[str]]:
    """A light layout's images in dark colours, as the `meta` by which a page of both themes finds them."""
    sources = [image["source"] for image in layout.get("images") or ()]
    colours = counterparts(LIGHT, DARK)
    dark = [recoloured(source, colours) if source.startswith(URI_START) else source for source in sources]
    return {"darkImages": dark} if dark else {}


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
