"""The GPU benchmark's tables: what separates us from cuBLASLt, and what each primitive costs on its own.

Example: "GPT-3 MLP, gemm1 alone, M = 1024: 0.976 in time = 0.977 in SM cycles x 0.999 of its clock".
"""

from collections.abc import Sequence
from textwrap import fill

from wavesim.bench.gpu_results import GpuResults
from wavesim.bench.semaphore_costs import best_ways, copy_overheads, primitive_costs, ready_costs
from wavesim.bench.speedups import PAIRS, generated_of, label, pairs_of, separations

LINE = 118
MANY = 6  # generated policies at a size, of which elsewhere only a few are measured
NAMED = ("row", "tile")
Rows = list[tuple[str, ...]]
APART = ("what", "M", "speed over cuBLASLt in time", "in SM cycles", "our clock over its clock")
USES = ("primitive", "blocks at once", "ns", "quartiles over rounds", "SM cycles")
APART_TEXT = (
    "Speed in time is speed in SM cycles times the ratio of the clocks. Cycles below 1 are the kernel's own: "
    "start, epilogue, waves, launch; a clock ratio below 1 says that ours draws more power for the same work."
)
POLICIES = ("what", "M", "policy", "tiles of both stages", "us", "speed over cuBLASLt")
POLICIES_TEXT = (
    "Every policy that the generator derives, in the tiles that were best with semaphores, and row and tile "
    "semaphores in their own best ones, fastest first; medians of the final rounds."
)
USES_TEXT = (
    "One thread per block uses the primitive again and again; what the empty loop takes is taken off. A wait "
    "is for a semaphore that is there already."
)


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


def primitive_rows(results: GpuResults) -> Rows:
    """One per primitive and number of blocks."""
    return [
        (
            primitive_cost.name,
            str(primitive_cost.blocks),
            f"{primitive_cost.ns:.0f}",
            f"{primitive_cost.low_ns:.0f} to {primitive_cost.high_ns:.0f}",
            f"{primitive_cost.cycles:.0f}" if primitive_cost.cycles else "",
        )
        for primitive_cost in primitive_costs(results)
    ]


def markdown_table(columns: Sequence[str], rows: Rows) -> str:
    """Columns and rows between bars."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def docs_tables(results: GpuResults) -> list[str]:
    """Headings, words and tables of what was measured, as parts of a page in Markdown."""
    parts = []
    for heading, words, columns, rows in (
        ("What separates us from cuBLASLt", APART_TEXT, APART, separation_rows(results)),
        ("Every generated policy", POLICIES_TEXT, POLICIES, policy_rows(results)),
        ("What each primitive costs on its own", USES_TEXT, USES, primitive_rows(results)),
    ):
        if rows:
            parts += [f"## {heading}", fill(words, LINE), markdown_table(columns, rows)]
    return parts + [fill(line, LINE) for line in _ready_notes(results)]


def cost_notes(results: GpuResults) -> list[str]:
    """The same as sentences, and which way of launching copies with semaphores was cheapest."""
    said = [
        f"{what}, M = {tokens}: {time} of cuBLASLt's speed = {cycles} in SM cycles x {clock} of its clock."
        for what, tokens, time, cycles, clock in separation_rows(results)
    ]
    said += [
        f"{name}, by {blocks} at once: {ns} ns ({span})."
        for name, blocks, ns, span, _ in primitive_rows(results)
    ]
    said += _ready_notes(results)
    for threads, best_way in best_ways(copy_overheads(results)).items():
        said.append(
            f"Copies of {threads} threads per block: of the ways with semaphores {best_way.case.name!r} adds "
            f"least, {best_way.percent:.1f} % ({best_way.low95:.1f} to {best_way.upper95:.1f})."
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
