"""What comes out of a crossover: text, picture, page, and dispatch tables that a serving engine can ship.

Example: `plan_for(1000)` of the written Python module, which needs nothing else, gives "pdl+row grouped:4".
Its header says what was predicted for which kernels on which device, from what, and how far to trust it.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import wavesim
from wavesim.predict.prediction import TIME_TEXT
from wavesim.safe_io.escaping import WIDTH, one_line
from wavesim.tuning.crossover.crossing import Crossover
from wavesim.view.crossover_figure import ChosenWay, GainStep, gains_over_rows
from wavesim.view.page import Section, Table, write_page

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


COLUMNS = ("rows M", "plan", "gain in points", "interval")


def crossover_text(crossover: Crossover) -> str:
    """The table, from where on each way pays, and what was not tried."""
    head = f"{crossover.family} on {crossover.device}, simulated at {len(crossover.sizes)} sizes"
    width = max(24, *(len(row.way.short) + 2 for row in crossover.table))
    unfinished = (
        "INTERRUPTED: between the sizes done so far nothing was simulated; run it again for the table"
    )
    lines = [*([] if crossover.is_complete else [unfinished]), head]
    lines.append(f"{'rows M':>15}  {'run':<{width}}{'gain':>9}   interval")
    for row in crossover.table:
        rows, gain = f"{row.m_from} to {row.m_to}", f"{row.gain_points:+.1f} %"
        is_guess = "" if row.scored or row.way.is_baseline else "   never scored here"
        lines.append(
            f"{rows:>15}  {row.way.short:<{width}}{gain:>9}   {row.low:+.1f} to {row.high:+.1f}{is_guess}"
        )
    firsts: dict[str, int] = {}
    for way in crossover.ways:
        first = None if way.is_baseline else crossover.pays_from(way)
        if first is not None:
            firsts[way.word] = min(first, firsts.get(way.word, first))
    pays = ", ".join(f"{word} {first}" for word, first in firsts.items())
    left = ", ".join(dict.fromkeys(text.partition(" ")[0] for text in crossover.left_out))
    words = [f"first M at which a plan gains 1 %: {pays or 'none'}"]
    words += [f"not tried, safe only if more holds than was accepted: {left} (--accept)"] if left else []
    return "\n".join(
        [*lines, *(part for text in words for part in wrap(text, WIDTH, subsequent_indent="  "))]
    )


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
        *(f"a worker was lost, what it had was done again: {name}" for name in crossover.lost_workers),
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


FORMAT = 1  # of the JSON; a reader refuses another
LONGEST = 1_000  # letters of a text in a header

PYTHON = '''\
# Which plan to run for M rows. Written by wavesim {version} on {date}; do not edit, write it again.
#
{header}

from bisect import bisect_right

M_FROM, M_TO = {m_from}, {m_to}
FIRST = {first}
PLANS = {plans}
GAIN_POINTS = {gains}


def plan_for(m: int) -> str:
    """The plan's word and tile order, such as "pdl+row grouped:4", for m rows from M_FROM to M_TO."""
    if not M_FROM <= m <= M_TO:
        raise ValueError(f"m is {{m}}; this table is of {{M_FROM}} to {{M_TO}} rows")
    return PLANS[bisect_right(FIRST, m) - 1]
'''


def provenance(crossover: Crossover) -> dict[str, Any]:
    """What a table is of, and what it rests on."""
    forecast = crossover.forecast
    return {
        "made_by": f"wavesim {wavesim.__version__}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "family": crossover.family,
        "device": crossover.device,
        "m_from": crossover.m_from,
        "m_to": crossover.m_to,
        "is_complete": crossover.is_complete,
        **{key: value for key, value in forecast.as_json().items() if key not in OF_ONE_SIZE},
    }


OF_ONE_SIZE = ("improvement_points", "low", "high", "interval")


def table_json(crossover: Crossover) -> list[dict[str, Any]]:
    """The rows: `plan` is the plan's word, in the tile order `order`."""
    return [
        {
            "m_from": row.m_from,
            "m_to": row.m_to,
            "plan": row.way.word,
            "order": row.way.order,
            "recommended": row.way.short,
            "gain_points": round(row.gain_points, 2),
            "low": round(row.low, 2),
            "high": round(row.high, 2),
        }
        for row in crossover.table
    ]


def dispatch_json(crossover: Crossover) -> str:
    """The table with its provenance, as JSON."""
    return (
        json.dumps({"format": FORMAT, **provenance(crossover), "table": table_json(crossover)}, indent=1)
        + "\n"
    )


def dispatch_python(crossover: Crossover) -> str:
    """The table as a Python module with the function `plan_for`. Names in it are comments or literals."""
    said = provenance(crossover)
    lines = [f"{name}: {_text(value)}" for name, value in said.items() if value not in ("", [], ())]
    header = "\n".join(f"# {line}" for text in lines for line in wrap(text, 105, subsequent_indent="    "))
    return PYTHON.format(
        version=wavesim.__version__,
        date=said["date"],
        header=header,
        m_from=crossover.m_from,
        m_to=crossover.m_to,
        first=_tuple(row.m_from for row in crossover.table),
        plans=_tuple(row.way.name for row in crossover.table),
        gains=_tuple(round(row.gain_points, 1) for row in crossover.table),
    )


def _text(value: Any) -> str:
    texts = value if isinstance(value, list) else [str(value)]
    return "; ".join(one_line(str(text), LONGEST) for text in texts)


def _tuple(values: Any) -> str:
    return "(" + "".join(f"{value!r}, " for value in values).rstrip() + ")"
