"""The pictures that a command writes: a page with `--html`, timelines for ui.perfetto.dev with `--perfetto`.

Example: `wavesim simulate --file pair.toml --sync row --html row.html --perfetto row.json.gz`.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wavesim.cli.printing import complain
from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.writing import require_writable
from wavesim.trace.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from wavesim.view.page import Section, Table
    from wavesim.view.plans_figure import PlanGain


def require_pictures(options: argparse.Namespace) -> None:
    """Raises `DescriptionError` for a wrong ending, `OutputError` for an unwritable path, before any work."""
    require_writable(options.html, options.perfetto)
    if options.perfetto is not None:
        from wavesim.view.perfetto import require_ending

        require_ending(options.perfetto)


def write_pictures(
    options: argparse.Namespace,
    title: str,
    traces: Sequence[Trace],
    pipeline: Pipeline | None,
    figures: Callable[[], "Sequence[Figure | Section]"],
    *,
    table: "Table | None" = None,
    notes: Sequence[str] = (),
) -> None:
    """Writes what was asked for, and says where on standard error. Figures are made only for a page."""
    if options.html is not None:
        from wavesim.view.page import write_page

        write_page(options.html, title=title, figures=figures(), table=table, notes=notes)
        complain(f"{options.html}: the page, complete in one file")
    if options.perfetto is not None:
        from wavesim.view.perfetto import write_perfetto

        write_perfetto(options.perfetto, *traces, pipeline=pipeline)
        complain(f"{options.perfetto}: {len(traces)} timelines, open it at ui.perfetto.dev")


def gains_table(gains: "Sequence[PlanGain]") -> "Table":
    """Plans with their times and intervals as a table of a page."""
    from wavesim.view.page import Table
    from wavesim.view.plans_figure import BASELINE, GUESS, SCORED

    rows = [
        (
            gain.plan,
            f"{gain.time_ns / 1e3:,.1f}",
            f"{gain.points:+.1f}",
            f"{gain.low:+.1f} to {gain.high:+.1f}",
            {BASELINE: "-", SCORED: "yes", GUESS: "no, a guess"}[gain.trust],
        )
        for gain in gains
    ]
    return Table(("plan", "simulated us", "points", "interval", "scored here"), rows, signed=("points",))
