"""What two H200s took for products and their collectives: ours beside a library's, as a table of the page.

Example: `python -m wavesim.evaluation.peer_timed` writes the block of docs/two-gpus.md anew from the lines
that the measuring command wrote. A way that was wrong on any rank was not timed, and has no cell.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

import wavesim.recordings
from wavesim.evaluation.peer_page import MOST_BYTES, PAGE, with_blocks
from wavesim.guard.documents import read_json
from wavesim.guard.program import run_program
from wavesim.guard.reading import read_text
from wavesim.guard.writing import write_text
from wavesim.trace.trace import Trace

FOLDER = Path(wavesim.recordings.__file__).parent / "two-gpus"
TIMED, TRACE = FOLDER / "timed.json", FOLDER / "stores-2048.npz"
BLOCK = "timed"
# Ours, as recorded, and as the simulator calls them.
OURS = {
    "two-shot": "stores:8",
    "one-shot": "stores:8 one-shot",
    "blocks": "blocks:24",
    "copies": "copies:8",
}
ALONE = {"reduce-scatter": "stores:8", "all-gather": "blocks:16"}  # collectives that have one way of ours
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather")


def timed_lines() -> list[dict[str, Any]]:
    """As the command wrote them."""
    return list(read_json(TIMED, MOST_BYTES))


def medians(line: dict[str, Any]) -> dict[str, float]:
    """In us, of every way that was timed."""
    return {name: median(way["ns"]) / 1e3 for name, way in line["ways"].items() if way["ns"]}


def best_of_ours(times: dict[str, float], kind: str = "") -> tuple[float, str]:
    """The fastest of ours: us, and the simulator's name."""
    names = OURS | {"ours": ALONE.get(kind, "")}
    return min((us, names[name]) for name, us in times.items() if name in names)


def gain(kind: str, least_rows: int = 0) -> float:
    """Geometric mean of a library in a row over the best of ours, where both were timed."""
    found = [
        times["sequence"] / best_of_ours(times)[0]
        for line in timed_lines()
        if line["kind"] == kind and line["size"][0] >= least_rows
        for times in [medians(line)]
        if "sequence" in times
    ]
    return geometric_mean(found)


def timed_block(lines: Sequence[dict[str, Any]]) -> str:
    """All shapes of all collectives, then what is gained in all."""
    rows = [
        "| | M x K x N | in a row, µs | PyTorch symmetric memory, µs | best of ours, µs | way | times |",
        "| --- | --- | --: | --: | --: | --- | --: |",
    ]
    for line in lines:
        m, k, n = line["size"]
        times = medians(line)
        ours, way = best_of_ours(times, line["kind"])
        shared = [us for name, us in times.items() if name.startswith("symmetric")]
        base = times.get("sequence")
        cells = (
            f"{base:,.0f}" if base else "not measured yet",
            f"{min(shared):,.0f}" if shared else "-",
            f"{ours:,.0f}",
            way,
            f"{base / ours:.2f}" if base else "",
        )
        rows.append(f"| {line['kind']} | {m:,} x {k:,} x {n:,} | {' | '.join(cells)} |")
    gains = ", ".join(f"{kind} {gain(kind):.2f}" for kind in COLLECTIVES)
    large = gain("all-reduce", 1024)
    rows += [
        "",
        f"Geometric means where both were timed: {gains}; all-reduce from 1,024 rows on {large:.2f}.",
    ]
    return "\n".join([*rows, "", adding_text(Trace.load(TRACE))])


def adding_text(trace: Trace) -> str:
    """Where a recorded call's time went: when the last product and the last sum ended."""
    ends: dict[str, int] = {}
    works: dict[str, float] = {}
    counts: dict[str, tuple[int, int]] = {}
    for number, info in enumerate(trace.header.stages):
        own = trace.stage == number
        name = info.name.partition("@")[0]
        ends[name] = max(ends.get(name, 0), int(trace.end_ns[own].max()))
        works[name] = float(np.median((trace.end_ns - trace.start_ns - trace.wait_ns)[own])) / 1e3
        counts[name] = int(own.sum()), len(set(trace.sm[own].tolist()))
    tiles, blocks = counts["gemm.sum"]
    return (
        f"A recorded call of stores:8 ({trace.header.workload}, {trace.makespan_ns / 1e3:,.0f} µs with the "
        f"recorder) shows why: the products end at {ends['gemm'] / 1e3:,.0f} µs, the sums at "
        f"{ends['gemm.sum'] / 1e3:,.0f}. A block adds a tile in {works['gemm.sum']:.1f} µs, and {blocks} "
        f"blocks have {tiles} of them, {tiles * works['gemm.sum'] / blocks:,.0f} µs of work on each rank."
    )


def main() -> int:
    """Writes the block."""
    write_text(PAGE, with_blocks(read_text(PAGE, MOST_BYTES), {BLOCK: timed_block(timed_lines())}))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("peer_timed", main))
