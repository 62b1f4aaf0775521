"""A trace as a small static timeline: one row per SM slot, tiles in their stage's colour.

Example: the toy's twelve tiles are twelve rectangles on four rows; 20,000 tiles are a palette picture of
some 15 KB, once in light and once in dark colours.
"""

import zlib

import numpy as np

from wavesim.safe_io.escaping import Markup, element
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.view.pipeline_picture import stage_class
from wavesim.view.raster import Segments, SmRows, lay_out, paint, png_uri
from wavesim.view.theme import DARK, LIGHT
from wavesim.view.wording import TimeUnit, finding, text_width, unit_for, workload_text

WIDTH, LEFT, RIGHT, TOP, BELOW = 860.0, 56.0, 24.0, 48.0, 62.0
MOST_RECTANGLES = 600
ROW_PX = (1.5, 22.0)
WANTED_HEIGHT = 200.0
LINES_FROM = 6.0
MOST_NAMES = 6  # in the legend
TICKS = 5
PLOT = WIDTH - LEFT - RIGHT


def trace_svg(trace: Trace) -> Markup:
    """The picture of a trace with at least one block."""
    rows, result = lay_out(trace), metrics_of(trace)
    unit = unit_for([trace.makespan_ns], [result.waves])
    row_px = float(np.clip(WANTED_HEIGHT / rows.count, *ROW_PX))
    height = row_px * rows.count
    total = TOP + height + BELOW
    source = trace.header.source
    head = element("text", finding([trace], [result], unit), x=LEFT, y=16, class_="name")
    below = element("text", f"{source}: {workload_text(trace.header)}", x=LEFT, y=35, class_="muted")
    ground = element("rect", x=LEFT, y=TOP, width=PLOT, height=height, class_="idle")
    drawn = _tiles(trace, rows, row_px) if len(trace) <= MOST_RECTANGLES else _raster(trace, rows, row_px)
    inside = [head, below, ground, *drawn, *_sm_labels(rows, row_px), *_axis(trace, unit, TOP + height)]
    inside += _legend(trace, total - 12)
    view = f"0 0 {WIDTH:.0f} {total:.0f}"
    return element(
        "svg", element("title", repr(trace)), *inside, width=WIDTH, height=total, viewBox=view, role="img"
    )


def _tiles(trace: Trace, rows: SmRows, row_px: float) -> list[Markup]:
    """One path per stage and one of waits, hatched."""
    tiles = []
    for stage in range(len(trace.header.stages)):
        path = _path(rows.work.where(trace.stage == stage), rows, row_px)
        tiles.append(element("path", d=path, class_=stage_class(stage)))
    waits = _path(rows.waiting, rows, row_px)
    if waits:
        # An id of its own: two pictures on a page must not share a pattern that one of them may take along.
        name = f"wavesim-hatch-{zlib.crc32(waits.encode()):08x}"
        hatch = element("path", d="M0 0L8 8M-2 6L2 10M6 -2L10 2", class_="hatch", stroke_width=1.6)
        cell = (element("rect", width=8, height=8, class_="waiting"), hatch)
        tiles.append(element("pattern", *cell, id=name, width=8, height=8, patternUnits="userSpaceOnUse"))
        tiles.append(element("path", d=waits, fill=f"url(#{name})"))
    return tiles


def _path(segments: Segments, rows: SmRows, row_px: float) -> str:
    """Rectangles with a hair between neighbours, as one path."""
    per_ns = PLOT / max(1, rows.makespan_ns)
    left = LEFT + segments.start_ns * per_ns
    width = (segments.end_ns - segments.start_ns) * per_ns
    gap = np.minimum(1.0, 0.1 * width)
    top = TOP + segments.row * row_px
    # On rows of few pixels a line between them would be all that is seen.
    tall = rows.span[segments.block] * row_px - (1.0 if row_px >= LINES_FROM else 0.0)
    columns = zip(left, top, width - gap, tall, strict=True)
    return "".join(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in columns)


def _raster(trace: Trace, rows: SmRows, row_px: float) -> list[Markup]:
    """The picture in both themes' colours; the page shows one."""
    scale = max(1, round(2 * row_px))
    codes = paint(rows, trace.stage, round(2 * PLOT), scale, float(rows.makespan_ns))
    stages = len(trace.header.stages)
    return [
        element(
            "image",
            href=png_uri(codes, theme, stages),
            x=LEFT,
            y=TOP,
            width=PLOT,
            height=rows.count * row_px,
            preserveAspectRatio="none",
            class_=f"if-{theme.name}",
        )
        for theme in (LIGHT, DARK)
    ]


def _sm_labels(rows: SmRows, row_px: float) -> list[Markup]:
    """The first and the last SM, and all of them where there is room."""
    per_sm = row_px * rows.slots
    shown = range(rows.sm_count) if per_sm >= 14 else (0, rows.sm_count - 1)
    return [
        element(
            "text", f"SM {sm}", x=LEFT - 8, y=TOP + (sm + 0.5) * per_sm + 4, class_="muted", text_anchor="end"
        )
        for sm in dict.fromkeys(shown)
    ]


def _axis(trace: Trace, unit: TimeUnit, ground: float) -> list[Markup]:
    """Round times below the rows, and what they are."""
    end = float(unit.of(trace.makespan_ns))
    axis = [element("path", d=f"M{LEFT} {ground + 4}h{PLOT}", class_="arrow")]
    for value in np.arange(0, end * 1.0001, _step(end)):
        x = LEFT + PLOT * float(value) / end
        axis.append(element("path", d=f"M{x:.1f} {ground + 4}v4", class_="arrow"))
        axis.append(element("text", f"{value:,g}", x=x, y=ground + 21, class_="muted", text_anchor="middle"))
    axis.append(element("text", unit.axis, x=LEFT + PLOT, y=ground + 38, class_="muted", text_anchor="end"))
    return axis


def _step(end: float) -> float:
    """A round distance of ticks: 1, 2 or 5 times a power of ten."""
    rough = max(end, 1e-9) / TICKS
    power = 10.0 ** np.floor(np.log10(rough))
    return float(next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough))


def _legend(trace: Trace, y: float) -> list[Markup]:
    """What the colours mean."""
    names = [info.name for info in trace.header.stages]
    entries = [(name, stage_class(index)) for index, name in enumerate(names[:MOST_NAMES])]
    if (trace.wait_ns > 0).any():
        entries.append(("waiting for a semaphore", "waiting"))
    entries.append(("idle", "idle"))
    legend, x = [], LEFT
    for words, role in entries:
        legend.append(element("rect", x=x, y=y - 10, width=12, height=12, class_=role))
        legend.append(element("text", words, x=x + 17, y=y, class_="muted"))
        x += text_width(words, 13) + 36
    return legend
