"""Everything a timeline figure shows, computed from traces and not yet drawn.

Example: per trace one `PanelParts` with the segments of its SM rows, the words of its header and its
curves of busy and resident SMs; around them one `TimelineParts` with title, unit and pixel frame. A
widget computes new parts after each slider move and gives them to the figure that exists already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.plan.parsing import recorded_shape
from wavesim.safe_io.annotated import tuple_of
from wavesim.trace.metrics import Metrics, Steps, busy_steps, metrics_of, resident_steps
from wavesim.trace.trace import Trace
from wavesim.view.canvas import Heading, heading
from wavesim.view.raster import SmRows, lay_out
from wavesim.view.wording import (
    TimeUnit,
    finding,
    improvement,
    is_comparable,
    panel_facts,
    plan_labels,
    provenance,
    text_width,
    unit_for,
    workload_text,
)

LEFT, RIGHT = 62, 112
HEADER_LINE, HEADER_PAD = 21, 9
PANEL_GAP = 22
STEPS_HEIGHT, STEPS_HEADER = 104, 40
BOTTOM = 104
ROWS_TARGET, ALL_ROWS_TARGET = 300, 1_000  # pixels of one panel's rows, and of all panels'
TALLEST_ROW, SHORTEST_ROW = 44.0, 1.0
TALLEST_PANEL = (
    600  # pixels; with more rows than that, as 16 blocks on each of 132 SMs, a row is less than one
)


@dataclass(frozen=True)
class Frame:
    """Pixel layout. `rows` and `header_lines` are one per panel; `top` is the title's height.

    `below` pixels are kept free under the chart of busy SMs, for more charts.
    """

    width: int
    rows: tuple[int, ...]
    header_lines: tuple[int, ...]
    top: int
    wanted_height: int | None = None
    below: int = 0

    @cached_property
    def plot_width(self) -> int:
        """Pixels of the time axis."""
        return max(100, self.width - LEFT - RIGHT)

    @cached_property
    def headers(self) -> tuple[int, ...]:
        """Pixels of each panel's header."""
        return tuple(lines * HEADER_LINE + HEADER_PAD for lines in self.header_lines)

    @cached_property
    def row_height(self) -> float:
        """Pixels of one row, the same in every panel."""
        most = max(self.rows, default=1)
        target = min(ROWS_TARGET, ALL_ROWS_TARGET / max(1, len(self.rows)))
        shortest = min(SHORTEST_ROW, min(TALLEST_PANEL, 2 * target) / most)
        height = min(TALLEST_ROW, max(shortest, float(round(target / most))))
        if self.wanted_height is None:
            return height
        fixed = self.top + sum(self.headers) + PANEL_GAP * len(self.rows)
        fixed += STEPS_HEADER + STEPS_HEIGHT + self.below + BOTTOM
        return max(shortest / 2, (self.wanted_height - fixed) / max(1, sum(self.rows)))

    @cached_property
    def height(self) -> int:
        """Pixels of the whole figure."""
        return round(self.top + self.plot_height + BOTTOM)

    @cached_property
    def plot_height(self) -> float:
        """Pixels between the margins."""
        panels = sum(self.headers) + sum(self.rows) * self.row_height + PANEL_GAP * len(self.rows)
        return panels + STEPS_HEADER + STEPS_HEIGHT + self.below

    def panel_domain(self, index: int) -> tuple[float, float]:
        """Paper coordinates (bottom, top) of a panel's rows."""
        above = sum(self.headers[: index + 1]) + sum(self.rows[:index]) * self.row_height + PANEL_GAP * index
        return self._paper(above + self.rows[index] * self.row_height), self._paper(above)

    @property
    def steps_domain(self) -> tuple[float, float]:
        """Paper coordinates (bottom, top) of the chart of busy SMs."""
        return self.below / self.plot_height, (self.below + STEPS_HEIGHT) / self.plot_height

    def _paper(self, pixels_from_top: float) -> float:
        return min(1.0, max(0.0, 1 - pixels_from_top / self.plot_height))


MAX_BARS = 3_000  # tiles in all; beyond them a browser takes longer than a slider allows
HEADER_SIZE = 13
MAX_STEPS = 4_000

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
Boundaries = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Extras:
    """What larger figures change: panel labels, whose curves are shown, pixels kept free below."""

    labels: tuple[str, ...] = ()
    curves: tuple[int, ...] | None = None
    below: int = 0


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class PanelParts:
    """One trace's panel: where its blocks are and what is written on it.

    `boundaries_ns` are stream sync's kernel boundaries with the stage that waits; `busy` and
    `resident` are step curves (time in ns, share of all SMs).
    """

    label: str
    trace: Trace
    rows: SmRows
    facts: tuple[str, ...]
    done: tuple[str, ...]
    gain: float | None
    boundaries_ns: Boundaries
    busy: Curve
    resident: Curve


@dataclass(frozen=True)
class TimelineParts:
    """A whole timeline figure as values.

    `is_raster` says that tiles are drawn as a picture, `curves` which panels' busy SMs are drawn.
    """

    panels: tuple[PanelParts, ...]
    stages: tuple[str, ...]
    unit: TimeUnit
    heading: Heading
    frame: Frame
    is_raster: bool
    curves: tuple[int, ...]

    @property
    def end_ns(self) -> int:
        """The latest end of all panels."""
        return max(panel.rows.makespan_ns for panel in self.panels)

    @property
    def dtick(self) -> int | None:
        """Distance of ticks: whole tiles where there are few, else plotly's own choice."""
        return 1 if not self.unit.symbol and self.end_ns <= 16 * self.unit.ns else None


def timeline_parts(
    traces: Trace | Sequence[Trace],
    *,
    title: str | None = None,
    width: int = 1000,
    height: int | None = None,
    extras: Extras = NO_EXTRAS,
) -> TimelineParts:
    """Parts of a timeline of one or several traces under each other; the first is the baseline.

    Raises `DescriptionError` for no traces, for an empty one and for an impossible size.
    """
    chosen = _checked(traces, width)
    figures = [metrics_of(trace) for trace in chosen]
    unit = unit_for([trace.makespan_ns for trace in chosen], [figure.waves for figure in figures])
    labels = extras.labels or plan_labels([trace.header for trace in chosen])
    panels = tuple(
        _panel(label, trace, figure, _baseline(trace, chosen), unit, width)
        for label, trace, figure in zip(labels, chosen, figures, strict=True)
    )
    text = title if title is not None else finding(chosen, figures, unit)
    head = heading(text, workload_text(chosen[0].header), width - LEFT - 20)
    frame = Frame(
        width=width,
        rows=tuple(panel.rows.count for panel in panels),
        header_lines=tuple(len(panel.facts) for panel in panels),
        top=head.height,
        wanted_height=height,
        below=extras.below,
    )
    stages = max((trace.header.stages for trace in chosen), key=len)
    is_raster = sum(len(trace) for trace in chosen) > MAX_BARS
    curves = tuple(range(len(chosen))) if extras.curves is None else extras.curves
    return TimelineParts(panels, tuple(info.name for info in stages), unit, head, frame, is_raster, curves)


def _checked(traces: Trace | Sequence[Trace], width: int) -> tuple[Trace, ...]:
    chosen = (traces,) if isinstance(traces, Trace) else tuple_of("timeline", "traces", traces, Trace)
    if not chosen:
        raise DescriptionError("timeline: traces is empty; give at least one Trace")
    for trace in chosen:
        if not len(trace):
            raise DescriptionError(f"timeline: the trace of plan {trace.header.plan_label!r} has no blocks")
    if width < 400:
        raise DescriptionError(f"timeline: width is {width}; labels need at least 400 pixels")
    return chosen


def _baseline(trace: Trace, traces: Sequence[Trace]) -> Trace:
    """The first trace that this one's gain can be told over."""
    return next(base for base in traces if is_comparable(trace, base))


def _panel(label: str, trace: Trace, figure: Metrics, base: Trace, unit: TimeUnit, width: int) -> PanelParts:
    rows = lay_out(trace)
    boundaries = _boundaries(trace)
    return PanelParts(
        label=label,
        trace=trace,
        rows=rows,
        facts=_facts(label, trace, panel_facts(trace, figure, unit), width, boundaries),
        done=_done(trace, unit),
        gain=None if trace is base else improvement(trace, base),
        boundaries_ns=boundaries,
        busy=_curve(busy_steps(trace), trace),
        resident=_curve(resident_steps(trace), trace),
    )


def _facts(label: str, trace: Trace, facts: str, width: int, boundaries: Boundaries) -> tuple[str, ...]:
    """The header's muted words, in as many lines as they need beside the plan's label and a boundary's."""
    source = provenance(trace.header)
    taken = 1.2 * text_width(label, HEADER_SIZE + 2) + 20
    first = min((time for time, _ in boundaries), default=trace.makespan_ns)
    room = (width - LEFT - RIGHT) * first / trace.makespan_ns - taken
    line = f"{facts} · {source}"
    if text_width(line, HEADER_SIZE) <= room:
        return (line,)
    if text_width(facts, HEADER_SIZE) > width - LEFT - 20 - taken:
        return ("", line)
    is_tight = text_width(source, HEADER_SIZE) + 20 > room + taken
    return (facts, source, " ") if boundaries and is_tight else (facts, source)


def _done(trace: Trace, unit: TimeUnit) -> tuple[str, ...]:
    """What stands beside the end line: the end of this pass, then the plan's time where that is another."""
    end = unit.text(trace.makespan_ns)
    lines = [end if unit.symbol else f"t = {end}"]
    if trace.header.rounds_ns:
        lines.append(f"median: {unit.text(trace.time_ns)}")
    elif trace.time_ns != trace.makespan_ns:
        lines.append(f"with setup: {unit.text(trace.time_ns)}")
    return tuple(lines)


def _boundaries(trace: Trace) -> Boundaries:
    """Where kernels run one after another, where each ends and the next may begin."""
    if not recorded_shape(trace.header.plan, trace.header.plan_data).runs_one_after_another:
        return ()
    origin = int(trace.issue_ns.min())
    boundaries = []
    for index, info in enumerate(trace.header.stages[1:], start=1):
        before = trace.end_ns[trace.stage == index - 1]
        if before.size:
            boundaries.append((int(before.max()) - origin, info.name))
    return tuple(boundaries)


def _curve(steps: Steps, trace: Trace) -> Curve:
    """A step curve as a share of all SMs from the first issue on, thinned to what a screen shows."""
    end_ns = trace.makespan_ns
    time, count = np.asarray(steps[0] - trace.issue_ns.min(), dtype=np.float64), steps[1]
    if time.size > MAX_STEPS:
        grid = np.linspace(0, end_ns, MAX_STEPS)
        count = count[np.clip(np.searchsorted(time, grid, side="right") - 1, 0, None)]
        time = grid
    # Blocks of two kernels, each needing other resources of an SM, can fill it more than either alone.
    share = np.minimum(count / trace.header.sm_count, 1.0)
    return np.append(time, end_ns), np.append(share, 0.0)
