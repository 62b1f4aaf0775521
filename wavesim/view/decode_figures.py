"""Two pictures of a megakernel: how many bytes ahead are enough, and how far each stage is above its roof.

Example: a layer of Llama-3 8B takes 1.23 times its roof with 64 KB of ring, 1.16 times with 192. Its
products lie close to one read of their bytes; attention, which reads next to none, is all wait.
"""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.sim.streamed_run import layer_ns, stage_reports
from wavesim.trace.trace import Trace
from wavesim.view.line_figure import lines_figure
from wavesim.view.stacked_bars import StackedBar, bars_of_parts
from wavesim.view.theme import Theme

ENOUGH = 0.10  # over the best time
KB, US = 1024, 1e3
RingTimes = Sequence[tuple[int, float]]  # (bytes of the ring, times the roof)


def time_by_ring(lines: Mapping[str, RingTimes], *, source: str, theme: str | Theme = "light") -> go.Figure:
    """A line for each model over the bytes of an SM's ring. Raises `DescriptionError` for no lines."""
    if not lines or not all(lines.values()):
        raise DescriptionError("time_by_ring: a line is empty; give each at least one ring and its time")
    most = max(_enough(line) for line in lines.values()) // KB
    return lines_figure(
        {name: [(size / KB, times) for size, times in line] for name, line in lines.items()},
        title=f"{most} KB ahead on each SM are enough: a larger ring saves less than {100 * ENOUGH:.0f} %",
        source=source,
        x_title="shared memory that the loader fills ahead of the waits, KB",
        y_title="time of a layer, times one read of its bytes",
        hover=", %{x:.0f} KB ahead: %{y:.2f} times the roof",
        theme=theme,
    )


def _enough(line: RingTimes) -> int:
    """The smallest ring that is about as good as the best."""
    best = min(times for _, times in line)
    return min(size for size, times in line if times <= (1 + ENOUGH) * best)


def time_by_stage(trace: Trace, *, theme: str | Theme = "light") -> go.Figure:
    """The stages of a trace's last layer: one read of their bytes, and what they take beyond it."""
    layers = int(trace.header.parameters.get("layers", 1))
    reports = stage_reports(trace)
    reports = reports[len(reports) * (layers - 1) // layers :]
    bars = [
        StackedBar(report.stage, (report.roof_ns / US, max(0, report.time_ns - report.roof_ns) / US))
        for report in reports
    ]
    roof_ns, time_ns = sum(report.roof_ns for report in reports), layer_ns(trace)
    return bars_of_parts(
        bars,
        ("one read of its bytes", "beyond it"),
        title=f"A layer takes {time_ns / max(1, roof_ns):.2f} times one read of its bytes",
        source=f"{trace.header.workload}, {trace.header.plan} on {trace.header.device['name']}, simulated: "
        f"{time_ns / US:.1f} us behind another layer, roof {roof_ns / US:.1f} us",
        x_title="us, from the last post of the stage before",
        theme=theme,
    )
