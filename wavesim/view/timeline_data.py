"""Everything a timeline figure shows, computed from traces and not yet drawn.

Example: per trace one `PanelParts` with the segments of its SM rows, the words of its header and its
curves of busy and resident SMs; around them one `TimelineParts` with title, unit and pixel frame. A
widget computes new parts after each slider move and gives them to the figure that exists already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.plan.parsing import recorded_shape
from wavesim.safe_io.annotated import tuple_of
from wavesim.trace.metrics import Metrics, Steps, busy_steps, metrics_of, resident_steps
from wavesim.trace.trace import Trace
from wavesim.view.canvas import Heading, heading
from wavesim.view.frame import LEFT, RIGHT, Frame
from wavesim.view.sm_rows import SmRows, lay_out
from wavesim.view.time_unit import TimeUnit, unit_for
from wavesim.view.wording import (
    finding,
    improvement,
    is_comparable,
    panel_facts,
    plan_labels,
    provenance,
    text_width,
    workload_text,
)

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
    found = []
    for index, info in enumerate(trace.header.stages[1:], start=1):
        before = trace.end_ns[trace.stage == index - 1]
        if before.size:
            found.append((int(before.max()) - origin, info.name))
    return tuple(found)


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
