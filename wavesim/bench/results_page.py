"""The GPU benchmark's results as one page, and as the documentation's page of tables.

Example: `wavesim results --html build/results.html --docs docs` turns the newest results file into a page of
every case, and into docs/results.md and the summary that ships with the package; no number is typed by hand.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill

from wavesim.bench.gpu_results import GpuResults
from wavesim.bench.pair_summary import write_pair_summary
from wavesim.bench.results_text import findings, measured_how
from wavesim.bench.semaphore_costs import best_ways, copy_overheads, primitive_costs, ready_costs
from wavesim.bench.speedups import (
    PAIRS,
    Limits,
    Pair,
    generated_of,
    label,
    over_limit,
    pairs_of,
    separations,
)
from wavesim.errors import RecordingError
from wavesim.safe_io.escaping import whole_line
from wavesim.safe_io.writing import write_text
from wavesim.view.page import Table, write_page

COLUMNS = ("pair", "M", "contender", "time µs", "quartiles µs", "over cuBLASLt", "GHz", "W", "cuts", "order")
LINE = 118
PICTURE = """<picture>
  <source media="(prefers-color-scheme: dark)" srcset="images/results-speed-dark.webp">
  <img src="images/results-speed-light.webp" width="900" alt="Speeds over cuBLASLt by number of tokens">
</picture>"""  # `make images` draws it
MANY = 6  # generated policies at a size, of which elsewhere only a few are measured
NAMED = ("row", "tile")
SHOWN = ("tuned", "predicted", "torch", "stream", "pdl", "stream-k", "persistent", *NAMED)  # beside cuBLASLt
Rows = list[tuple[str, ...]]
SPEEDS = (
    "cuBLASLt's time in microseconds, and how fast the others are where cuBLASLt's chain in a CUDA graph "
    "has 1. The tuned plan was chosen in earlier rounds and is timed in later ones. Over the limit: the "
    "tuned plan's time over what its arithmetic, or reading its weights, needs at the rates that one "
    "large matmul and one large copy sustained in the same run; a yardstick, not a bound that cannot be "
    "beaten."
)
APART = (
    "Speed in time is speed in SM cycles times the ratio of the clocks. Cycles below 1 are the kernel's own: "
    "start, epilogue, waves, launch; a clock ratio below 1 says that ours draws more power for the same work."
)
POLICIES = (
    "Every policy that the generator derives, in the tiles that were best with semaphores, and row and tile "
    "semaphores in their own best ones, fastest first; medians of the final rounds."
)
COPIES = (
    "Copies of one full wave have no tail to fill, so that only the price is left, in percent of the same "
    "pair in stream order without semaphores. In stream order (ready) it is looking, posting and putting "
    "the semaphore back; on two streams (tile) also the fork, the wait-kernel and an atomic per block as "
    "it leaves. By dependent launch a block of the second copy starts as one of the first leaves, which "
    "semaphores allow (tile on one stream); dependent launch without them (pdl) waits for the whole first "
    "copy."
)
USES = (
    "One thread per block uses the primitive again and again; what the empty loop takes is taken off. A wait "
    "is for a semaphore that is there already."
)


def run_results(results: GpuResults, html: Path | None, docs: Path | None) -> tuple[dict[str, object], str]:
    """`wavesim results`: writes what is asked for; returns JSON and words."""
    written = [] if html is None else [write_results_page(html, results)]
    written += [] if docs is None else [*write_results_docs(docs, results), *write_pair_summary(results)]
    words = [measured_how(results), *findings(results), *(f"written: {path}" for path in written)]
    document: dict[str, object] = {
        "file": str(results.path),
        "device": results.device,
        "date": results.date,
        "commit": results.commit,
        "wrong_results": len(results.wrong),
        "findings": findings(results),
        "written": [str(path) for path in written],
    }
    return document, "\n".join(map(whole_line, words))


def write_results_page(path: Path, results: GpuResults) -> Path:
    """Writes every case and how it was measured as one page. Returns its path. Raises `RecordingError`."""
    _tables(results)
    return write_page(
        path,
        title=f"Measured on {results.device}: tile-level synchronisation beside everything else",
        figures=[],
        lead="\n\n".join([*findings(results), measured_how(results)]),
        table=Table(COLUMNS, list(_rows(results)), caption="All final cases"),
        notes=_notes(results),
    )


def write_results_docs(folder: Path, results: GpuResults) -> list[Path]:
    """Writes results.md into a folder. Returns its path. Raises `RecordingError`."""
    return [write_text(folder / "results.md", docs_text(results))]


def docs_text(results: GpuResults) -> str:
    """docs/results.md: how it was measured, what follows, and the tables."""
    parts = [
        "# Measured results",
        f"Written by `make results` from `{results.name}`; do not edit.",
        fill(measured_how(results), LINE, break_on_hyphens=False),
        PICTURE,
        "\n".join(fill(f"- {line}", LINE, subsequent_indent="  ") for line in findings(results)),
    ]
    for heading, words, columns, rows in _tables(results):
        lines = [columns, ["---"] * len(columns), *rows]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        parts += [f"## {heading}", fill(words, LINE), table]
    return "\n\n".join([*parts, *(fill(line, LINE) for line in _ready_notes(results))]) + "\n"


def _tables(results: GpuResults) -> list[tuple[str, str, Sequence[str], Rows]]:
    """Heading, words, columns and rows of all that this run has measured. Raises where it has nothing."""
    tables = [
        (f"{PAIRS[workload]}: everything beside cuBLASLt", SPEEDS, *speed_table(results, workload))
        for workload in PAIRS
    ]
    apart = ("what", "M", "speed over cuBLASLt in time", "in SM cycles", "our clock over its clock")
    policies = ("what", "M", "policy", "tiles of both stages", "us", "speed over cuBLASLt")
    copies = ("way", "threads per block", "added, %", "95 % interval")
    uses = ("primitive", "blocks at once", "ns", "quartiles over rounds", "SM cycles")
    tables += [
        ("What separates us from cuBLASLt", APART, apart, separation_rows(results)),
        ("Every generated policy", POLICIES, policies, policy_rows(results)),
        ("What semaphores cost", COPIES, copies, copy_rows(results)),
        ("What each primitive costs on its own", USES, uses, primitive_rows(results)),
    ]
    if not any(rows for *_, rows in tables):
        raise RecordingError(
            f"{results.path}: none of its {len(results.cases)} right cases is a pair, a product or a copy "
            "pair; measure again"
        )
    return [table for table in tables if table[-1]]


def speed_table(results: GpuResults, workload: str) -> tuple[Sequence[str], Rows]:
    """Columns and a row per size of a pair: libraries, baselines and plans. Raises without limits."""
    pairs = pairs_of(results, workload)
    others = [name for name in SHOWN if any(name in cases for cases in pairs.values())]
    limits = Limits.of(results) if pairs else None
    rows = [
        (
            str(tokens),
            f"{library.median_ns / 1e3:.1f}",
            *(_over(library.median_ns, cases, name) for name in others),
            f"{over_limit(cases['tuned'], limits).value:.2f}" if limits and "tuned" in cases else "",
        )
        for tokens, cases in pairs.items()
        if (library := cases.get("cublaslt")) is not None
    ]
    return ("M", "cuBLASLt, us", *map(label, others), "over the limit"), rows


def _over(library_ns: float, cases: Pair, name: str) -> str:
    return f"{library_ns / cases[name].median_ns:.3f}" if name in cases else ""


def separation_rows(results: GpuResults) -> Rows:
    """One per product and pair and size."""
    return [
        (what, str(tokens), f"{separation.time:.3f}", f"{separation.cycles:.3f}", f"{separation.clock:.3f}")
        for (what, tokens), separation in separations(results).items()
    ]


def policy_rows(results: GpuResults) -> Rows:
    """One per generated policy, at the sizes where more than a few were measured."""
    rows: Rows = []
    for workload, name in PAIRS.items():
        for tokens, cases in pairs_of(results, workload).items():
            others, library = generated_of(cases), cases.get("cublaslt")
            if len(others) < MANY or library is None:
                continue
            known = [
                case for key, case in cases.items() if case.name == key and case.words.get("plan") in NAMED
            ]
            rows += [
                (
                    name,
                    str(tokens),
                    label(case.name),
                    case.words.get("cuts", ""),
                    f"{case.median_ns / 1000:.1f}",
                    f"{library.median_ns / case.median_ns:.3f}",
                )
                for case in sorted([*others, *known], key=lambda case: case.median_ns)
            ]
    return rows


def copy_rows(results: GpuResults) -> Rows:
    """One per way of launching a pair of copies and block size."""
    return [
        (way, str(entry.threads), f"{entry.percent:+.1f}", f"{entry.low95:+.1f} to {entry.upper95:+.1f}")
        for way, group in copy_overheads(results).items()
        for entry in group
    ]


def primitive_rows(results: GpuResults) -> Rows:
    """One per primitive and number of blocks."""
    return [
        (
            cost.name,
            str(cost.blocks),
            f"{cost.ns:.0f}",
            f"{cost.low_ns:.0f} to {cost.high_ns:.0f}",
            f"{cost.cycles:.0f}" if cost.cycles else "",
        )
        for cost in primitive_costs(results)
    ]


def _notes(results: GpuResults) -> list[str]:
    """The smaller tables as sentences."""
    said = [
        f"{what}, M = {tokens}: {time} of cuBLASLt's speed = {cycles} in SM cycles x {clock} of its clock."
        for what, tokens, time, cycles, clock in separation_rows(results)
    ]
    said += [
        f"{name}, by {blocks} at once: {ns} ns ({span})."
        for name, blocks, ns, span, _ in primitive_rows(results)
    ]
    said += _ready_notes(results)
    for threads, best in best_ways(copy_overheads(results)).items():
        said.append(
            f"Copies of {threads} threads per block: of the ways with semaphores {best.case.name!r} adds "
            f"least, {best.percent:.1f} % ({best.low95:.1f} to {best.upper95:.1f})."
        )
    return said


def _ready_notes(results: GpuResults) -> list[str]:
    """What semaphores cost GPT-3's pair when its kernels run one after the other, so that all are there."""
    return [
        f"GPT-3's pair in stream order, where every semaphore is there before it is asked for, takes "
        f"{100 * (ratio.value - 1):+.2f} % with {name} semaphores ({100 * (ratio.low - 1):+.2f} to "
        f"{100 * (ratio.high - 1):+.2f})."
        for name, ratio in ready_costs(results).items()
    ]


def _rows(results: GpuResults) -> Iterator[list[str]]:
    for workload, name in PAIRS.items():
        for tokens, cases in pairs_of(results, workload).items():
            library = cases.get("cublaslt")
            own = {key: case for key, case in cases.items() if key == case.name}
            for case in sorted(own.values(), key=lambda entry: entry.median_ns):
                low, high = case.quartiles_ns
                roles = f" ({', '.join(label(role) for role in case.roles)})" if case.roles else ""
                yield [
                    name,
                    str(tokens),
                    label(case.name) + roles,
                    f"{case.median_ns / 1e3:.1f}",
                    f"{low / 1e3:.1f} to {high / 1e3:.1f}",
                    "" if library is None else f"{library.median_ns / case.median_ns:.3f}",
                    f"{median(case.clocks_ghz):.2f}" if case.clocks_ghz else "",
                    "" if case.power_w is None else f"{case.power_w:.0f}",
                    case.words.get("cuts", ""),
                    case.words.get("order", ""),
                ]
