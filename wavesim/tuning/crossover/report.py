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


def crossover_text(found: Crossover) -> str:
    """The table, from where on each way pays, and where the numbers come from."""
    lines = [f"{'rows M':>15}  {'plan':<26}{'gain':>8}   interval"]
    lines += [
        f"{f'{row.m_from} to {row.m_to}':>15}  {row.way.name:<26}{row.gain_points:>+8.1f}   "
        f"{row.low:+.1f} to {row.high:+.1f}"
        for row in found.table
    ]
    return "\n".join([f"{found.family} on {found.device}", *lines, *notes_of(found)])


def notes_of(found: Crossover) -> tuple[str, ...]:
    """What the numbers mean."""
    forecast, state = found.forecast, "" if found.is_complete else " (interrupted: the sizes done so far)"
    pays = ", ".join(
        f"{way.name} {found.pays_from(way) or 'nowhere'}" for way in found.ways if not way.is_baseline
    )
    return (
        f"pays from (a point or more, the least M): {pays}",
        f"{len(found.sizes)} sizes simulated in {found.seconds:.1f} s{state}; gains are means over rows",
        f"predicted: simulated, {forecast.basis}; {TIME_TEXT}",
        f"interval: at the size that gains most {forecast.interval_text}",
        f"before: {forecast.history}",
        *forecast.caveats,
        *(f"left out: {text}" for text in found.left_out),
        *(f"a worker ended, what it had was done again: {name}" for name in found.lost_workers),
    )


def crossover_picture(found: Crossover, theme: str = "light") -> "Figure":
    """Gains over M and the strip of the table's ways."""
    gains = {
        way.name: [
            GainStep(size.m_from, size.m_to, gain.points, gain.low, gain.high)
            for size in found.sizes
            if (gain := size.gains.get(way)) is not None
        ]
        for way in found.ways
        if not way.is_baseline
    }
    streams = {way.name: [GainStep(found.m_from, found.m_to, 0.0, 0.0, 0.0)] for way in found.ways[:1]}
    chosen = [ChosenWay(row.m_from, row.m_to, row.way.name) for row in found.table]
    return gains_over_rows(
        streams | gains, chosen, title=title_of(found), source=found.forecast.basis, theme=theme
    )


def title_of(found: Crossover) -> str:
    """The finding: from where on what pays most."""
    best = max(found.table, key=lambda row: row.gain_points)
    if best.way.is_baseline:
        return f"{found.family} on {found.device}: nothing gains over stream sync"
    return (
        f"{found.family} on {found.device}: {best.way.name} gains most, {best.gain_points:.0f} points from "
        f"M = {best.m_from} to {best.m_to}"
    )


def write_crossover_page(found: Crossover, path: Path) -> None:
    """The picture, the table and the notes as one page. Raises `OutputError`."""
    cells = [
        (
            f"{row.m_from} to {row.m_to}",
            row.way.name,
            f"{row.gain_points:+.1f}",
            f"{row.low:+.1f} to {row.high:+.1f}",
        )
        for row in found.table
    ]
    notes = notes_of(found)
    write_page(
        path,
        title=title_of(found),
        lead=f"What each way of synchronising gains over stream sync at every number of rows. {notes[2]}.",
        table=Table(COLUMNS, cells, caption=notes[3], signed=(COLUMNS[2],)),
        notes=notes,
        figures=[Section(crossover_picture(found), "Gain over M")],
    )
