"""What two H200s took for products and their collectives: ours beside libraries', as tables of the page.

Example: `python -m wavesim.evaluation.peer_timed` writes the blocks "timed", "blind" and others of
docs/two-gpus.md anew, from the lines that the measuring command wrote and the predictions registered before.
A way that was wrong on any rank was not timed, and has no cell.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import wavesim.recordings
from wavesim.evaluation.peer_page import MOST_BYTES, NOT_YET, PAGE, with_blocks
from wavesim.evaluation.peer_registered import FITTED, SECOND, blind_text, tiles_text
from wavesim.evaluation.peer_trials import trials_block
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.sim.peers.prediction import REGISTERED
from wavesim.trace.trace import Trace

FOLDER = Path(wavesim.recordings.__file__).parent / "two-gpus"
TIMED, FIRST = FOLDER / "timed.json", FOLDER / "timed-first.json"
SECOND_TIMED = SECOND.measured_in / TIMED.name  # of the second list
TRACE = FOLDER / "calls" / "stores-2048.npz"  # deeper than the recordings that runners look for
OURS = ("stores", "exchange", "blocks", "copies")  # beginnings of ways
OPERATORS = {  # ways that the PyTorch operators have
    "all-reduce": ("stores", "exchange", "exchange:132"),
    "reduce-scatter": ("stores", "exchange", "exchange:132"),
    "all-gather": ("copies:1", "copies:2"),
}
ALONE = "gemm"  # the product of a library, without its collective
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather")
LARGE, SMALL = (1024, 1 << 30), (1, 256)  # rows
DISPATCHED = (128, 1 << 30)  # rows of all-reduces that row_parallel_linear may take over peer memory
# Words, collective, rows, what is compared with, and what must be reached and is aimed at.
FIGURES = (
    ("cuBLAS, then NCCL", "all-reduce", LARGE, "sequence", "1.20", "1.35"),
    ("cuBLAS, then NCCL", "all-reduce", SMALL, "sequence", "1.00", "1.15"),
    ("cuBLAS, then NCCL; ways of the operator", "all-reduce", DISPATCHED, "sequence", "0.99 least", ""),
    ("the best of NCCL in chunks and in a row", "all-reduce", LARGE, "library", "", ""),
    ("PyTorch's fused reduce-scatter, then all-gather", "all-reduce", LARGE, "fused", "1.15", "1.3"),
    ("PyTorch's symmetric memory, not fused", "all-reduce", LARGE, "symmetric", "", ""),
    ("kraken's fastest kernels", "all-reduce", LARGE, "kraken", "", ""),
    ("PyTorch's symmetric memory, not fused", "all-reduce", SMALL, "symmetric", "", ""),
    ("cuBLAS, then NCCL", "reduce-scatter", LARGE, "sequence", "", ""),
    ("PyTorch's fused one", "reduce-scatter", LARGE, "fused", "1.15", "1.3"),
    ("kraken's fastest kernels", "reduce-scatter", LARGE, "kraken", "", ""),
    ("NCCL, then cuBLAS", "all-gather", LARGE, "sequence", "", ""),
    ("PyTorch's fused one", "all-gather", LARGE, "fused", "1.15", "1.3"),
    ("kraken's fastest kernels", "all-gather", LARGE, "kraken", "", ""),
)

Times = Mapping[str, float]
Lines = Sequence[Mapping[str, Any]]


def timed_lines(path: Path = TIMED) -> list[dict[str, Any]]:
    """As the command wrote them; none where nothing was measured."""
    return list(read_json(path, MOST_BYTES)) if path.exists() else []


def medians(line: Mapping[str, Any]) -> dict[str, float]:
    """In us, of every way that was timed."""
    return {name: median(way["ns"]) / 1e3 for name, way in line["ways"].items() if way["ns"]}


def fastest(times: Times, beginnings: Sequence[str]) -> tuple[float, str] | None:
    """The fastest way of those whose names begin so: us and name; None where none was timed."""
    found = [(us, name) for name, us in times.items() if name.startswith(tuple(beginnings))]
    return min(found, default=None)


def best_of_ours(times: Times) -> tuple[float, str]:
    """The fastest of ours. Raises `KeyError` where none was timed."""
    found = fastest(times, OURS)
    if found is None:
        raise KeyError(f"no way of ours among {', '.join(times)}")
    return found


def gains(
    lines: Lines,
    kind: str,
    base: str = "sequence",
    rows: tuple[int, int] = (1, 1 << 30),
    *,
    of_operators: bool = False,
) -> list[float]:
    """By shape: a library over the best of ours, or of those ways that the operators have.

    "library": in a row or in chunks.
    """
    found = []
    for line in lines:
        times = medians(line)
        over = fastest(times, ("sequence", "chunks") if base == "library" else (base,))
        own = fastest(times, OURS)
        if of_operators:
            own = min(((times[way], way) for way in OPERATORS[kind] if way in times), default=None)
        if line["kind"] == kind and rows[0] <= line["size"][0] <= rows[1] and over and own:
            found.append(over[0] / own[0])
    return found


def hidden_shares(lines: Lines) -> list[float]:
    """Of all-reduces of many rows whose product was timed alone in the same run: of the shorter of product
    and all-reduce the share that the fastest of ours hides. What the product leaves of one after the other
    is the all-reduce.
    """
    found = []
    for line in lines:
        times = medians(line)
        if line["kind"] == "all-reduce" and line["size"][0] >= LARGE[0] and {ALONE, "sequence"} <= set(times):
            alone, base = times[ALONE], times["sequence"]
            found.append((base - best_of_ours(times)[0]) / min(alone, base - alone))
    return found


def hidden_text(lines: Lines) -> str:
    """The median and the extremes; that it was not measured where it was not."""
    shares = [100 * share for share in hidden_shares(lines)]
    if not shares:
        return "How much of the time that could be hidden is hidden is not measured yet."
    return (
        f"Of the time that could be hidden, from {LARGE[0]:,} rows on, ours hid {median(shares):.0f} % "
        f"(median of {len(shares)}; {min(shares):.0f} to {max(shares):.0f}; must 70, aim 85): of the shorter "
        "of the product alone, cuBLAS's in the same run, and what the all-reduce adds to it in a row."
    )


def timed_block() -> str:
    """All shapes of all collectives, what is gained in all, and a recorded call."""
    lines = timed_lines()
    return "\n".join([_tables(lines), "", trace_text(Trace.load(TRACE))])


def second_block() -> str:
    """The same of the second list."""
    lines = timed_lines(SECOND_TIMED)
    return _tables(lines) if lines else f"What it takes by shape: {NOT_YET}."


def _tables(lines: Lines) -> str:
    libraries = {
        "in a row": "sequence",
        "in chunks": "chunks",
        "symmetric memory": "symmetric",
        "PyTorch's fused": "fused",
        "kraken": "kraken",
    }
    head = [*libraries, "ours: `stores`", "ours: `exchange`", "ours: best"]
    rows = [
        f"| | M x K x N | {' | '.join(head)} | way | times |",
        "| --- | --- |" + " --: |" * len(head) + " --- | --: |",
    ]
    for line in lines:
        m, k, n = line["size"]
        times = medians(line)
        best, way = fastest(times, OURS) or (0.0, "-")
        others = [fastest(times, (name,)) for name in libraries.values()]
        cells = [f"{one[0]:,.0f}" if one else "-" for one in others]
        cells += [f"{times[name]:,.0f}" if name in times else "-" for name in ("stores", "exchange")]
        gain = f"{times['sequence'] / best:.2f}" if best and "sequence" in times else "-"
        cells += [f"{best:,.0f}" if best else "-", way, gain]
        rows.append(f"| {line['kind']} | {m:,} x {k:,} x {n:,} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *_figures(lines), "", hidden_text(lines), "", commits_text(lines)])


def commits_text(lines: Lines) -> str:
    """Of which kernels the rows are."""
    counted = Counter(line["commit"][:8] for line in lines)
    words = ", ".join(f"{commit} ({count})" for commit, count in counted.most_common())
    return f"Rows by commit of the kernels: {words}."


def _figures(lines: Lines) -> list[str]:
    rows = [
        "| ours, times as fast as | of | rows | shapes | geometric mean | least | most | must | aim |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --: |",
    ]
    for words, kind, size, base, must, aim in FIGURES:
        found = gains(lines, kind, base, size, of_operators=size == DISPATCHED)
        if not found:
            continue  # that library was not measured
        many = "256 or fewer" if size == SMALL else f"{size[0]:,} or more"
        cells = f"{geometric_mean(found):.2f} | {min(found):.2f} | {max(found):.2f} | {must} | {aim}"
        rows.append(f"| {words} | {kind} | {many} | {len(found)} | {cells} |")
    return rows


def first_run_gain() -> float:
    """The first run's geometric mean over NCCL in a row, of all-reduces where both were timed."""
    lines = [line["us"] for line in read_json(FIRST, MOST_BYTES)["lines"] if line["kind"] == "all-reduce"]
    ours = ("two-shot", "one-shot", "blocks", "copies")
    return geometric_mean(
        us["sequence"] / min(us[name] for name in ours if name in us) for us in lines if "sequence" in us
    )


def trace_text(trace: Trace) -> str:
    """Of a recorded call with SMs kept for adding: when the last product and the last sum ended."""
    ends: dict[str, int] = {}
    for number, info in enumerate(trace.header.stages):
        name = info.name.partition("@")[0]
        ends[name] = max(ends.get(name, 0), int(trace.end_ns[trace.stage == number].max()))
    return (
        f"A recorded call with 8 SMs kept for adding ({trace.header.workload}, M x K x N, "
        f"{trace.makespan_ns / 1e3:,.0f} µs with the recorder): its products end at "
        f"{ends['gemm'] / 1e3:,.0f} µs, its sums at {ends['gemm.sum'] / 1e3:,.0f}. Eight SMs add too "
        "slowly; `stores` adds on all of them."
    )


def main() -> int:
    """Writes the blocks, and how far whole ways were off."""
    write_text(REGISTERED, tiles_text())
    blocks = {
        "timed": timed_block(),
        "blind": blind_text(),
        "fitted": blind_text(FITTED),
        "second": blind_text(SECOND),
        "second timed": second_block(),
        "trials": trials_block(),
    }
    write_text(PAGE, with_blocks(read_text(PAGE, MOST_BYTES), blocks))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("peer_timed", main))
