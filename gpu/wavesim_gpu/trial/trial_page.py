"""A trial as a page to forward: the verdict, a picture of the step and its MLPs, the tables; opens offline.

Example: `python -m wavesim_gpu try model.py --html trial.html`; light or dark as the reader's system is.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wavesim.safe_io.escaping import Markup, element
from wavesim.safe_io.writing import write_text
from wavesim_gpu.trial.model_trial import TrialResult
from wavesim_gpu.trial.step_times import StepTimes
from wavesim_gpu.trial.trial_text import (
    STEP_COLUMNS,
    about,
    difference_text,
    group_columns,
    group_rows,
    groups_caption,
    headline,
    saving_text,
    step_caption,
    step_rows,
)

PAGE = Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
{body}
</body>
</html>
""")
CSS = Markup("""
:root { color-scheme: light dark; --ink: #111827; --muted: #6B7280; --grid: #E5E7EB; --page: #FFFFFF;
  --plain: #9AA3B2; --good: #0B7A66; --bad: #B03A8C; --card: #F7F8FA; }
@media (prefers-color-scheme: dark) { :root { --ink: #F3F4F6; --muted: #9CA3AF; --grid: #273244;
  --page: #111827; --plain: #727D8E; --good: #2ED3B0; --bad: #F7A8E0; --card: #182133; } }
body { font: 15px/1.5 Inter, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: var(--ink);
  background: var(--page); max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
p.lead, p.caption, footer { color: var(--muted); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--muted); font-weight: 600; white-space: normal; vertical-align: bottom; }
td:last-child { white-space: normal; }
svg { max-width: 100%; height: auto; display: block; margin: .5rem 0; }
svg text { font-size: 13px; fill: var(--ink); }
svg text.small { fill: var(--muted); font-size: 12px; }
.before { fill: var(--plain); } .after { fill: var(--good); } .slower { fill: var(--bad); }
.whisker { stroke: var(--ink); stroke-width: 1.5; }
.simulated { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.axis { stroke: var(--muted); }
footer { margin-top: 2.5rem; font-size: .85rem; }
""")
DIAMONDS = "Diamonds: simulated before, cuBLASLt beside the module as it is."
WIDTH, LEFT, RIGHT, ROW, BAR = 940, 300, 110, 30, 16
LABEL = 42
Row = tuple[str, StepTimes, float | None]  # a bar: its label, the times, where the simulator put it


def write_trial_page(path: Path, result: TrialResult) -> Path:
    """Writes the page. Returns its path. Raises `OutputError`; what was there before stays whole."""
    return write_text(path, trial_html(result))


def trial_html(result: TrialResult) -> Markup:
    """The page; every text of the user's file, model or GPU is escaped."""
    title = f"{Path(result.place).name}: {result.verdict}"
    parts = [
        element("h1", title),
        element("p", headline(result), class_="lead"),
        *_whole_step(result),
        *_mlps(result),
        *_listed("Kept as they are", result.kept),
        *_listed("What a profile of one step says", result.advice),
        *_listed("Notes", result.notes),
        element("footer", f"{about(result)}. {_origin(result)}"),
    ]
    return PAGE.format(title=title, css=CSS, body=Markup("\n").join(parts))


def _origin(result: TrialResult) -> str:
    if result.is_measured:
        return f"Measured on {result.device}; what says simulated was simulated before. {result.date}"
    return f"Nothing was measured: simulated for {result.device}. {result.date}"


def _whole_step(result: TrialResult) -> list[Markup]:
    if not result.programs:
        return []
    parts = [
        element("h2", "The whole step"),
        _bars([(program.label, program, None) for program in result.programs]),
    ]
    parts.append(element("p", step_caption(result), class_="caption"))
    parts.append(_table(STEP_COLUMNS, step_rows(result.programs)))
    parts.append(element("p", saving_text(result)))
    if result.difference is not None:
        parts.append(element("p", difference_text(result)))
    return parts


def _mlps(result: TrialResult) -> list[Markup]:
    if not result.groups:
        return []
    bars: list[Row] = []
    for group in result.groups:
        if group.before is not None and group.after is not None:
            predicted = group.choice.predicted_ns or None
            bars += [(f"{group.names[0]}: as it is", group.before, group.choice.library_ns or None)]
            bars += [(f"{group.names[0]}: swapped", group.after, predicted)]
    picture = [_bars(bars)] if bars else []
    said = f"{groups_caption(result)} {DIAMONDS if bars else ''}"
    caption = element("p", said.rstrip(), class_="caption")
    return [element("h2", "The MLPs"), *picture, caption, _table(group_columns(result), group_rows(result))]


def _listed(heading: str, entries: Sequence[str]) -> list[Markup]:
    if not entries:
        return []
    return [element("h2", heading), element("ul", *(element("li", entry) for entry in entries))]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = element("tr", *(element("th", name) for name in columns))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element("div", element("table", head, *body), class_="scroll")


def _bars(rows: Sequence[Row]) -> Markup:
    """A bar to each median with a whisker over the quartiles; a diamond where the simulator put it."""
    most = max(
        max(float(np.percentile(times.times_ns, 75)), simulated or 0.0) for _, times, simulated in rows
    )
    scale = (WIDTH - LEFT - RIGHT) / most
    height = ROW * len(rows) + 8
    drawn = [
        part
        for place, row in enumerate(rows)
        for part in _bar(row, rows[max(0, place - 1)][1], ROW * place + ROW / 2 + 4, scale)
    ]
    axis = element("line", x1=LEFT, x2=LEFT, y1=0, y2=height, class_="axis")
    words = "; ".join(f"{label} {_time(times.median_ns)}" for label, times, _ in rows)
    return element(
        "svg", *drawn, axis, viewBox=f"0 0 {WIDTH} {height}", width=WIDTH, height=height, role="img",
        aria_label=words,
    )  # fmt: skip


def _kind(label: str, times: StepTimes, beside: StepTimes) -> str:
    """The colour's class: a swapped program that is slower than the one above it is no gain."""
    if "swapped" not in label:
        return "before"
    return "after" if times.median_ns <= beside.median_ns else "slower"


def _bar(row: Row, beside: StepTimes, y: float, scale: float) -> list[Markup]:
    label, times, simulated = row
    kind = _kind(label, times, beside)
    low, high = (LEFT + scale * float(edge) for edge in np.percentile(times.times_ns, [25, 75]))
    short = label if len(label) <= LABEL else f"…{label[1 - LABEL :]}"
    bar = [
        element("text", short, x=LEFT - 10, y=y + 4, text_anchor="end"),
        element("rect", x=LEFT, y=y - BAR / 2, width=scale * times.median_ns, height=BAR, rx=2, class_=kind),
        element("line", x1=low, x2=high, y1=y, y2=y, class_="whisker"),
        element("text", _time(times.median_ns), x=WIDTH - RIGHT + 12, y=y + 4, class_="small"),
    ]
    if simulated:
        x = LEFT + scale * simulated
        bar.append(element("path", d=f"M {x:.1f} {y - 6:.1f} l 6 6 l -6 6 l -6 -6 z", class_="simulated"))
    return bar


def _time(time_ns: float) -> str:
    return f"{time_ns / 1e6:.3f} ms" if time_ns >= 1e6 else f"{time_ns / 1e3:.1f} us"
