"""What a person sees of a crossover: a table in plain text, the picture, and the page with both."""

from pathlib import Path
from typing import TYPE_CHECKING

from wavesim.predict.prediction import TIME_TEXT
from wavesim.tuning.crossover.crossing import Crossover
from wavesim.view.crossover_figure import ChosenWay, GainStep, gains_over_rows
from wavesim.view.page import Section, Table, write_page

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLUMNS = ("rows M", "plan", "gain in points", "interval")


def crossover_text(crossover: Crossover) -> str:
    """The table, from where on each way pays, and where the numbers come from."""
    lines = [f"{'rows M':>15}  {'plan':<26}{'gain':>8}   interval"]
    lines += [
        f"{f'{row.m_from} to {row.m_to}':>15}  {row.way.name:<26}{row.gain_points:>+8.1f}   "
        f"{row.low:+.1f} to {row.high:+.1f}"
        for row in crossover.table
    ]
    return "\n".join([f"{crossover.family} on {crossover.device}", *lines, *notes_of(crossover)])


def notes_of(crossover: Crossover) -> tuple[str, ...]:
    """What the numbers mean."""
    forecast, state = (
        crossover.forecast,
        "" if crossover.is_complete else " (interrupted: the sizes done so far)",
    )
    size_count = len(crossover.sizes)
    pays = ", ".join(
        f"{way.name} {crossover.pays_from(way) or 'nowhere'}" for way in crossover.ways if not way.is_baseline
    )
    return (
        f"pays from (a point or more, the least M): {pays}",
        f"{size_count} sizes simulated in {crossover.seconds:.1f} s{state}; gains are means over rows",
        f"predicted: simulated, {forecast.basis}; {TIME_TEXT}",
        f"interval: at the size that gains most {forecast.interval_text}",
        f"before: {forecast.history}",
        *forecast.caveats,
        *(f"left out: {text}" for text in crossover.left_out),
        *(f"a worker ended, what it had was done again: {name}" for name in crossover.lost_workers),
    )


def crossover_picture(crossover: Crossover, theme: str = "light") -> "Figure":
    """Gains over M and the strip of the table's ways."""
    gains = {
        way.name: [
            GainStep(size.m_from, size.m_to, gain.points, gain.low, gain.high)
            for size in crossover.sizes
            if (gain := size.gains.get(way)) is not None
        ]
        for way in crossover.ways
        if not way.is_baseline
    }
    streams = {
        way.name: [GainStep(crossover.m_from, crossover.m_to, 0.0, 0.0, 0.0)] for way in crossover.ways[:1]
    }
    chosen = [ChosenWay(row.m_from, row.m_to, row.way.name) for row in crossover.table]
    return gains_over_rows(
        streams | gains, chosen, title=title_of(crossover), source=crossover.forecast.basis, theme=theme
    )


def title_of(crossover: Crossover) -> str:
    """The finding: from where on what pays most."""
    best = max(crossover.table, key=lambda row: row.gain_points)
    if best.way.is_baseline:
        return f"{crossover.family} on {crossover.device}: nothing gains over stream sync"
    return (
        f"{crossover.family} on {crossover.device}: {best.way.name} gains most, "
        f"{best.gain_points:.0f} points from M = {best.m_from} to {best.m_to}"
    )


def write_crossover_page(crossover: Crossover, path: Path) -> None:
    """The picture, the table and the notes as one page. Raises `OutputError`."""
    cells = [
        (
            f"{row.m_from} to {row.m_to}",
            row.way.name,
            f"{row.gain_points:+.1f}",
            f"{row.low:+.1f} to {row.high:+.1f}",
        )
        for row in crossover.table
    ]
    notes = notes_of(crossover)
    write_page(
        path,
        title=title_of(crossover),
        lead=f"What each way of synchronising gains over stream sync at every number of rows. {notes[2]}.",
        table=Table(COLUMNS, cells, caption=notes[3], signed=(COLUMNS[2],)),
        notes=notes,
        figures=[Section(crossover_picture(crossover), "Gain over M")],
    )
