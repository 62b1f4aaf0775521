"""Simulated and measured stream programs, as the table of docs/streams.md.

Example: `python -m wavesim.evaluation.streams_page` writes the block between the page's marks anew, from the
newest run of the lab in wavesim/sim/streams/runs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from wavesim.evaluation.marked_block import with_marked_block
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.sim.streams.measured import ComparedProgram, compared, newest_run

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"
UNMEASURED = (
    "None of these programs has been measured yet. On a machine with a GPU: "
    "`python -m wavesim_gpu.bench.labs.streams --out wavesim/sim/streams/runs/DATE.json`, then "
    "`python -m wavesim.evaluation.streams_page`."
)
MOST_BYTES = 1 << 20
WITHIN = 0.10


def block() -> str:
    """The table, or that nothing is measured."""
    run = newest_run()
    if run is None:
        return UNMEASURED
    rows = compared(run)
    near = sum(abs(one.error) <= WITHIN for one in rows)
    head = (
        f"{run.provenance}, medians of {len(run.programs[0].rounds_ns)} rounds. "
        f"{near} of {len(rows)} programs are simulated within {WITHIN:.0%}."
    ).replace("%", " %")
    titles = "| program | hardware queues | simulated, µs | measured, µs | error, % | worst end, % |"
    table = [titles, "|---|--:|--:|--:|--:|--:|", *map(line, rows)]
    return "\n".join([head, "", *table, "", queues_text(rows)])


def queues_text(rows: Sequence[ComparedProgram]) -> str:
    """What one hardware queue costs kernels, and what it costs copies, measured."""
    ns = {one.name: one.measured_ns for one in rows}
    kernels, copies = (
        ns[f"{name}, depth-first, one queue"] / ns[f"{name}, depth-first"]
        for name in ("four kernels", "vector add")
    )
    return (
        "With one hardware queue instead of eight, depth-first, the chains of four kernels took "
        f"{kernels:.2f} times as long and the vector addition {copies:.2f} times."
    )


def line(one: ComparedProgram) -> str:
    """A program's row."""
    times = f"{one.simulated_ns / 1e3:,.0f} | {one.measured_ns / 1e3:,.0f}"
    worst = "none" if one.worst_end is None else f"{100 * one.worst_end:.1f}"
    return f"| {one.name} | {one.queues} | {times} | {100 * one.error:+.1f} | {worst} |"


def with_block(text: str, inner: str) -> str:
    """The page with this between its marks. Raises `RecordingError` where they are missing."""
    return with_marked_block(PAGE, text, "streams", inner)


def main() -> int:
    """Writes the page."""
    write_text(PAGE, with_block(read_text(PAGE, MOST_BYTES), block()))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("streams_page", main))
