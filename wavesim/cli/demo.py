"""The demo: the GPT-3 MLP at the paper's sizes, predicted and measured, as a table and a page.

Example: one line per size and plan, with the improvement over stream sync that was predicted from
the stream-sync run and the one an H200 gave; then the timelines, one over the other.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavesim.cli.printing import print_result, progress
from wavesim.cli.shared_options import add_shared
from wavesim.comparison import Comparison, Row, compare, prediction_keys
from wavesim.costs.cost_model import zero_cost
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.columns import in_columns
from wavesim.sim.simulation import simulate
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.page import Section, Table, write_page
from wavesim.view.timeline_figure import timeline
from wavesim.workloads.figure_one import TILE_NS, toy
from wavesim.workloads.mlps import gpt3_mlp

SIZES = (256, 512, 768, 1024, 1536, 2048, 3072)
TILE = (128, 256)
ORDER = "row"
POLICIES = ("row", "tile")
COLUMNS = ("tokens", "plan", "predicted us", "measured us", "predicted gain", "measured gain", "error")


@dataclass(frozen=True)
class Demo:
    """What the demo found: an entry per size and plan, as text too, and the best size's `prediction_keys`."""

    rows: list[dict[str, Any]]
    table: str
    prediction: dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    page = Path("wavesim-demo.html")
    add_shared(parser, "--html", "--verbose", html=f"write the table and pictures to this page ({page})")
    parser.set_defaults(html=page)


def run(options: argparse.Namespace) -> int:
    """Prints the table, writes the page."""
    result = run_demo(options.html, progress("simulating"), is_verbose=options.verbose)
    text = f"{result.table}\nPictures, and tile semaphores: {options.html}"
    document = {"rows": result.rows, "html": str(options.html), **result.prediction}
    return print_result(options, document, text)


def run_demo(html: Path, show: Callable[[int, int], None], *, is_verbose: bool = False) -> Demo:
    """Compares every size, writes the page and returns the table. `show(done, total)` after each size."""
    device = devices.default_device()
    plans = [parse_plan(name, ORDER) for name in ("stream", *POLICIES)]
    compared: dict[int, Comparison] = {}
    for done, tokens in enumerate(SIZES, start=1):
        compared[tokens] = compare(gpt3_mlp(tokens, TILE), plans, device)
        show(done, len(SIZES))
    cells = [_cells(tokens, row) for tokens, row in _rows(compared)]
    _write(html, compared, cells)
    rows = [{"tokens": tokens, **row.as_json()} for tokens, row in _rows(compared)]
    text = _text(cells, compared, device, is_verbose)
    return Demo(rows, text, prediction_keys(compared[_extremes(compared)[0]]))


def _rows(compared: dict[int, Comparison]) -> Iterator[tuple[int, Row]]:
    for tokens, comparison in compared.items():
        yield from ((tokens, row) for row in comparison.rows)


def _cells(tokens: int, row: Row) -> tuple[str, ...]:
    measured = "-" if row.measured_ns is None else f"{row.measured_ns / 1e3:.1f}"
    gain = "-" if row.measured_points is None else f"{row.measured_points.median:+.1f}"
    error = "-" if row.error_points is None else f"{row.error_points:+.1f}"
    if row.plan == "stream":
        return (str(tokens), row.label, f"{row.predicted_ns / 1e3:.1f}", measured, "", "", "")
    return (
        str(tokens),
        row.label,
        f"{row.predicted_ns / 1e3:.1f}",
        measured,
        f"{row.predicted_points:+.1f}",
        gain,
        error,
    )


def _text(
    cells: list[tuple[str, ...]], compared: dict[int, Comparison], device: Device, is_verbose: bool
) -> str:
    """The table: row semaphores at each size, or all plans with all that the numbers rest on."""
    if not is_verbose:
        first = next(row.label for _, row in _rows(compared) if row.plan == POLICIES[0])
        cells = [line for line in cells if line[1] == first]
    lines = in_columns((COLUMNS, *cells), left=(1,))
    notes = ["", *_notes(compared)] if is_verbose else [_IN_SHORT]
    tiles = f"tiles {TILE[0]} x {TILE[1]}, {ORDER}-major, {device.name.upper()}"
    head = f"GPT-3 MLP (M x 12288 -> 6144 -> 12288, fp16), {tiles}"
    return "\n".join([head, *lines, *notes])


def _notes(compared: dict[int, Comparison]) -> tuple[str, ...]:
    tokens = _extremes(compared)[0]
    return (*compared[tokens].shown_notes, f"interval and safety: at {tokens} tokens, which gain most")


def _write(html: Path, compared: dict[int, Comparison], cells: list[tuple[str, ...]]) -> None:
    """The page: the finding, the table, gain over size, Figure 1, and the best and worst size in full."""
    notes = _notes(compared)
    table = Table(COLUMNS, cells, caption="; ".join(notes[:2]), signed=("predicted gain", "measured gain"))
    best, worst = _extremes(compared)
    figures = [
        Section(_gains(compared, notes), "Where it pays", _PAYS),
        Section(_figure_one(), "Why", _WHY),
        Section(compared[best].figure(), f"The best size: {best} tokens", _TIMELINES),
    ]
    if worst != best:
        figures.append(Section(compared[worst].figure(), f"The worst: {worst} tokens", _WORST))
    write_page(html, title=_title(compared, best), lead=_LEAD, table=table, notes=notes, figures=figures)


def _gain(row: Row) -> float:
    return row.predicted_points if row.measured_points is None else row.measured_points.median


def _extremes(compared: dict[int, Comparison]) -> tuple[int, int]:
    gains = sorted((_gain(row), tokens) for tokens, row in _rows(compared) if row.plan != "stream")
    return gains[-1][1], gains[0][1]


def _title(compared: dict[int, Comparison], best: int) -> str:
    low, where = min((_gain(row), tokens) for tokens, row in _rows(compared) if row.plan != "stream")
    high = max(_gain(row) for row in compared[best].rows)
    is_measured = compared[best].measured[0] is not None
    verb = "takes" if is_measured else "is predicted to take"
    rest = f"costs {-low:.0f} % at {where}" if low < -0.5 else f"gains {abs(low):.0f} % at {where}"
    return f"Tile-level synchronisation {verb} {high:.0f} % off GPT-3's MLP at {best} tokens, and {rest}"


def _gains(compared: dict[int, Comparison], notes: tuple[str, ...]) -> Any:
    gains = [
        Gain(
            str(tokens),
            row.label,
            row.predicted_points,
            row.measured_points.median if row.measured_points else None,
            row.measured_points.low if row.measured_points else None,
            row.measured_points.high if row.measured_points else None,
        )
        for tokens, row in _rows(compared)
        if row.plan != "stream"
    ]
    return gain_overview(gains, source="; ".join(notes[:2]))


def _figure_one() -> Any:
    device, pipeline = devices.load("toy"), toy()
    costs = zero_cost(pipeline, TILE_NS)
    return timeline(
        [simulate(pipeline, plan, device, costs) for plan in (StreamSync(), SemaphoreSync(TileSync()))]
    )


_IN_SHORT = (
    "Gain = 1 - time / time under stream sync, in %; predicted by simulation, measured on the GPU named."
)
_LEAD = (
    "Two dependent GEMMs. On one stream the second waits for all of the first, and both last waves stay part "
    "empty. With semaphores its tiles wait only for the tiles they read."
)
_PAYS = (
    "Improvement is 1 - t / t_stream, in points. Predictions use the stream-sync run of each size; "
    "measurements are medians of interleaved rounds, whiskers their quartiles."
)
_WHY = "The paper's Figure 1: two kernels of six tiles on four SMs, every tile one unit of time."
_TIMELINES = "Every block on every SM, predicted above measured; then tile by tile, and why the two differ."
_WORST = "Where there is nothing to fill, or blocks wait longer than they gain."
