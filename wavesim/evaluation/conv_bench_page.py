"""What `conv_bench` measured, as the tables and pictures of docs/convolutions.md.

Example: `python -m wavesim.evaluation.conv_bench_page` writes the block between the page's marks anew, and
its pictures, from all files of gpu/results/convolutions with single convolutions, pairs or chains. Above 1
ours is faster: than cuDNN, than our stream sync, than our dependent launch, each in its own best tiles.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from wavesim.evaluation.conv_bench_figures import write_pictures
from wavesim.evaluation.conv_bench_results import (
    ASKED,
    ASKED_BY_PDL,
    CLOSELY,
    FILTERS_FIRST,
    NEAR_FILTERS,
    PDL,
    PICKED,
    SEMAPHORES,
    STREAM,
    AskedSpeed,
    BenchRun,
    Case,
    bench_run,
)
from wavesim.evaluation.conv_choices import FIRST_CHOICES, todays_table, with_choices
from wavesim.evaluation.conv_runs import TORCH
from wavesim.evaluation.layer_graphs_table import times_of
from wavesim.evaluation.marked_block import with_marked_block
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text

PAGE = Path(__file__).parents[2] / "docs" / "convolutions.md"
MOST_PAGE = 1 << 20
UNMEASURED = (
    "Not measured yet. On a machine with a GPU and PyTorch: `python -m wavesim_gpu.bench.kinds.conv_bench "
    "--out gpu/results/convolutions/DATE.json`, then `python -m wavesim.evaluation.conv_bench_page`."
)


def block(run: BenchRun | None, asked: Sequence[AskedSpeed] = ASKED) -> str:
    """What stands between the page's marks."""
    if run is None:
        return UNMEASURED
    how = (
        f"Measured on one {run.device}, {run.date}, commit {run.commit}: medians of 20 interleaved rounds of "
        "CUDA graphs with several runs each, of the fastest tile and plan of each class in earlier rounds; "
        "results compared with an fp32 reference first."
    )
    return "\n\n".join([how, figure_table(run, asked), "\n".join(_case_table(run))])


def figure_table(run: BenchRun, asked: Sequence[AskedSpeed] = ASKED) -> str:
    """What was asked for, and what came of it, as far as the run has cases of it."""
    head = "| speed | judged by | must | aim | measured | reached | cases, least to most |"
    rows = [one.row(run.cases) for one in asked if one.speeds(run.cases)]
    return "\n".join([head, "|---|---|--:|--:|--:|---|---|", *rows])


def picked_today() -> str:
    """What today's constants pick for later kernels, from their committed times."""
    run = bench_run(NEAR_FILTERS)
    return UNMEASURED if run is None else todays_table(run)


HEADS = (
    "convolutions",
    "cuDNN, µs",
    "stream sync, µs",
    "its tiles",
    "dependent launch, µs",
    "semaphores, µs",
    "their plan and tiles",
    "over cuDNN",
    "over stream sync",
)
PICK_HEADS = ("picked before", "its time, µs")


def _case_table(run: BenchRun) -> Iterator[str]:
    has_picks = any(PICKED in times_of(case) for case in run.cases if "failed" not in case)
    heads = HEADS + PICK_HEADS if has_picks else HEADS
    yield _row(heads)
    yield _row(["--:" if "µs" in head or "over" in head else "---" for head in heads])
    for case in run.cases:
        cells = [f"failed: {case['failed'][:80]}"] if "failed" in case else list(_case_cells(case))
        name = f"{case['kind']} {case['name']}"
        yield _row([name, *cells, *[""] * len(heads)][: len(heads)])


def _case_cells(case: Case) -> Iterator[str]:
    """Behind the case's name, picks last."""
    times = times_of(case)
    labels = {one["class"]: one["label"].removesuffix(" tiles") for one in case["finalists"]}
    ours = min(ns for name, ns in times.items() if name not in (TORCH, PICKED))
    micros = {name: f"{ns / 1e3:.1f}" for name, ns in times.items()}
    yield from (micros[TORCH], micros[STREAM], labels[STREAM], micros.get(PDL, ""))
    yield from (micros.get(SEMAPHORES, ""), labels.get(SEMAPHORES, ""), f"{times[TORCH] / ours:.2f}")
    yield f"{times[STREAM] / times[SEMAPHORES]:.2f}" if SEMAPHORES in times else ""
    yield from (labels.get(PICKED, ""), micros.get(PICKED, ""))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(words: list[str] | None = None) -> int:
    """Writes the page's block and, unless told otherwise, its pictures."""
    parser = OneLineParser(prog="python -m wavesim.evaluation.conv_bench_page", description=__doc__)
    parser.add_argument("--text", action="store_true", help="the page only, no pictures")
    options = parser.parse_args(sys.argv[1:] if words is None else words)
    run = with_choices(bench_run(), FIRST_CHOICES)
    text = with_marked_block(PAGE, read_text(PAGE, MOST_PAGE), "convolutions", block(run))
    later = bench_run(FILTERS_FIRST)
    text = with_marked_block(PAGE, text, "filters-first", block(with_choices(later)))
    for name, folder in (("near-filters", NEAR_FILTERS), ("closely", CLOSELY)):
        text = with_marked_block(PAGE, text, name, block(bench_run(folder), (*ASKED, *ASKED_BY_PDL)))
    text = with_marked_block(PAGE, text, "picked-today", picked_today())
    write_text(PAGE, text)
    if later is not None and not options.text:
        write_pictures(later)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_bench_page", main))
