"""The GPU benchmark as figures: speeds over cuBLASLt, gains of the tuned plan, distance to the limit.

Example: for each rival a small panel over the numbers of tokens; green dots above 1.0 are faster, magenta
ones below are slower, wins and losses alike. Every dot's hover names its cuts, order, clock and power.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go

from wavesim.bench.bench_dots import Found, dots, finding, hover, span, verdict_panel
from wavesim.bench.gpu_results import GpuResults, TimedCandidate
from wavesim.bench.semaphore_costs import CUSYNC_WAYS, CopyOverhead, best_ways, copy_overheads
from wavesim.bench.speedups import (
    CUBE,
    PAIRS,
    PROMPT,
    Limits,
    Pair,
    Speedup,
    Summary,
    cube,
    fastest_own,
    label,
    over_limit,
    pairs_of,
    products,
    rank,
    speeds,
    summary,
    with_generated_as_one,
)
from wavesim.safe_io.escaping import BREAK
from wavesim.view.panels_figure import Dot, Panel, Scale, Series, fitting, small_panels

RIVALS = (
    "cublaslt",
    "torch",
    "stream",
    "stream per tile",
    "pdl",
    "stream-k",
    "stream-k pdl",
    "persistent",
)
WITHIN = (0.6, 1.4)  # what a speed's axis shows at most; beyond it stand arrowheads with numbers
LIMIT_WITHIN = (0.8, 3.0)
TOKENS = "tokens (M), evenly spaced; a dotted line parts token generation from prompts"
FACTS = "in grey: geometric mean (worst to best) from M\u00a0=\u00a0256; whiskers: quartiles"
COPY_WORDS = {
    "ready": "semaphores in stream order",
    "tile": "semaphores on two streams",
    "tile on one stream": "semaphores, dependent launch",
    "pdl": "dependent launch, no semaphores",
}
TITLE_RIVALS = ("cublaslt", "stream", "pdl", "stream-k")


def provenance(results: GpuResults) -> str:
    """Measured on what, when and how."""
    rounds = sorted({len(case.rounds_ns) for name in PAIRS for case in results.of(name)})
    count = f", medians of {rounds[0]} interleaved rounds" if rounds else ""
    return f"measured on {results.device}, {results.date[:10]}, commit {results.short_commit}{count}"


def speed_figure(results: GpuResults, workload: str, theme: str = "light") -> go.Figure:
    """Every library, baseline and plan of a pair, over the number of tokens, as speed over cuBLASLt."""
    pairs = with_generated_as_one(pairs_of(results, workload))
    names = {name for cases in pairs.values() for name in cases} - {"cublaslt"}
    figure = {name: speeds(pairs, name, "cublaslt") for name in sorted(names, key=lambda n: (rank(n), n))}
    return _speed_panels(
        [verdict_panel(label(name), entry, list(pairs), "than cuBLASLt") for name, entry in figure.items()],
        "speed over cuBLASLt",
        title=f"{PAIRS[workload]}: {finding(figure.get('tuned', {}), 'the tuned plan', 'cuBLASLt')}",
        source=f"time of cuBLASLt's pair in a CUDA graph over each one's; {provenance(results)}; {FACTS}",
        theme=theme,
    )


def rivals_figure(results: GpuResults, workload: str, theme: str = "light") -> go.Figure:
    """The tuned plan against each rival, in time and in SM cycles; then semaphores in one cut."""
    pairs = pairs_of(results, workload)
    contests = [(rival, "tuned", f"over {label(rival)}") for rival in RIVALS]
    contests.append(("same-cut stream", "same-cut", "semaphores over stream, same cut"))
    panels, said = [], []
    for theirs, ours, title in contests:
        in_time = speeds(pairs, ours, theirs)
        total = summary(in_time)
        if total is None:
            continue
        in_cycles = speeds(pairs, ours, theirs, in_cycles=True)
        panels.append(_in_both(title, in_time, in_cycles, list(pairs)))
        if ours == "tuned" and theirs in TITLE_RIVALS:
            said.append(f"{total.geomean:.3f} of {label(theirs)}'s")
    return _speed_panels(
        panels,
        "speed of the tuned plan",
        title=f"{PAIRS[workload]}: the tuned plan runs at {', '.join(said)} speed",
        source="each rival's time and cycles over the tuned plan's, which was chosen in earlier rounds; "
        f"{provenance(results)}; {FACTS}",
        theme=theme,
        header=62,
    )


def _in_both(title: str, in_time: Found, in_cycles: Found, tokens: Sequence[int]) -> Panel:
    """One contest in time, and hollow beside it in SM cycles."""
    panel = verdict_panel(title, in_time, tokens, "in time", shift=-0.18)
    hollow = Series("in SM cycles", dots(in_cycles, tokens, "in cycles"), "muted", "diamond-open", 0.18)
    facts = [f"time {span(in_time)}", *([f"cycles {span(in_cycles)}"] if in_cycles else [])]
    return replace(panel, series=[*panel.series, hollow], facts=BREAK.join(facts))


def limit_figure(results: GpuResults, theme: str = "light") -> go.Figure:
    """Time of each pair over what its arithmetic, or reading its weights, needs at this run's rates."""
    limits = Limits.of(results)
    panels: list[Panel] = []
    best: dict[str, list[float]] = {}
    for workload, name in PAIRS.items():
        pairs = pairs_of(results, workload)
        for part, is_small in (("token generation", True), ("prompts", False)):
            chosen = {tokens: cases for tokens, cases in pairs.items() if (tokens < PROMPT) is is_small}
            if chosen:
                panel = _limit_panel(f"{name}, {part}", chosen, limits)
                panels.append(panel)
                best.setdefault(part, []).extend(dot.value for dot in panel.series[0].dots)
    scale = fitting("time over the limit", _dots_of(panels), LIMIT_WITHIN)
    said = [f"{_ends(result)} in {part}" for part, result in best.items() if result]
    return small_panels(
        panels,
        replace(scale, is_shaded=False),
        title=f"Time over the limit, the tuned plan: {', '.join(said)}",
        source="limit: the longer of the arithmetic at this run's sustained matmul rate "
        f"({1e-3 * limits.flops_per_ns:.0f} TFLOP/s) and of the weights at its copy bandwidth "
        f"({limits.bytes_per_ns:.0f} GB/s); {provenance(results)}; whiskers: quartiles",
        size_name="tokens (M), evenly spaced",
        columns=2,
        panel_height=180,
        theme=theme,
    )


def _limit_panel(title: str, pairs: Mapping[int, Pair], limits: Limits) -> Panel:
    tokens = list(pairs)
    fastest = {size: case for size, cases in pairs.items() if (case := fastest_own(cases)) is not None}

    def series(
        name: str, chosen: dict[int, TimedCandidate], colour: str, symbol: str, shift: float
    ) -> Series:
        result = {size: (case, over_limit(case, limits)) for size, case in chosen.items()}
        return Series(name, dots(result, tokens, "times the limit"), colour, symbol, shift)

    tuned = {size: cases["tuned"] for size, cases in pairs.items() if "tuned" in cases}
    library = {size: cases["cublaslt"] for size, cases in pairs.items() if "cublaslt" in cases}
    all_series = [
        series("tuned plan", tuned, "good", "circle", 0.0),
        series("our fastest, by the rounds shown", fastest, "good", "circle-open", -0.22),
        series("cuBLASLt", library, "ink", "diamond", 0.22),
    ]
    values = [dot.value for dot in all_series[0].dots]
    facts = f"tuned plan: {_ends(values)}" if values else "no tuned plan"
    return Panel(title, facts, [str(size) for size in tokens], all_series)


def _ends(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"


def product_figure(results: GpuResults, theme: str = "light") -> go.Figure:
    """Our GEMM alone, product by product, as speed over cuBLASLt's in time and in SM cycles."""
    both = {key: _both_speeds(pairs) for key, pairs in products(results).items()}
    large = [entry.value for by, _ in both.values() for size, (_, entry) in by.items() if size >= PROMPT]
    total, at_cube = Summary.of(large), _both_speeds({CUBE: cube(results)})[0].get(CUBE)
    title = "Our GEMM alone beside cuBLASLt"
    if total is not None:
        title = f"Our GEMM alone has {total.geomean:.3f} of cuBLASLt's speed, {total.worst:.2f} at worst"
    return _speed_panels(
        [
            _in_both(f"{PAIRS.get(workload, workload)}, {stage}", *entry, list(entry[0]))
            for (workload, stage), entry in both.items()
        ],
        "speed over cuBLASLt",
        title=title
        + (f"; {at_cube[1].value:.3f}\u00a0at\u00a08192\u00a0cubed" if at_cube is not None else ""),
        source=f"our cut chosen per size in earlier rounds; {provenance(results)}; {FACTS}",
        theme=theme,
        columns=2,
        panel_height=150,
        header=62,
    )


def _both_speeds(pairs: Mapping[int, Pair]) -> tuple[Found, Found]:
    """Ours over cuBLASLt's, in time and in SM cycles."""
    return speeds(pairs, "ours", "cublaslt"), speeds(pairs, "ours", "cublaslt", in_cycles=True)


def copy_figure(results: GpuResults, theme: str = "light") -> go.Figure:
    """What each way to put semaphores between two copies adds, which have nothing to gain, by threads."""
    overheads = copy_overheads(results)
    sizes = sorted({entry.threads for group in overheads.values() for entry in group})
    panels = []
    for way in [way for way in COPY_WORDS if way in overheads]:
        points = [_copy_dot(overhead, sizes.index(overhead.threads)) for overhead in overheads[way]]
        ends = ", ".join(f"{overhead.upper95:.1f} %" for overhead in overheads[way])
        name, colour = ("with semaphores", "ink") if way in CUSYNC_WAYS else ("without", "muted")
        series = Series(f"{name}: ratio of medians, whiskers: its 95 % interval", points, colour)
        panels.append(Panel(COPY_WORDS[way], f"95 % ends: {ends}", [str(size) for size in sizes], [series]))
    best = best_ways(overheads)
    said = ", ".join(f"{entry.upper95:.1f}\u00a0% at {threads}" for threads, entry in best.items())
    scale = fitting("added time (%)", _dots_of(panels), (-100.0, 1000.0), even=0.0)
    return small_panels(
        panels,
        replace(scale, is_shaded=False, digits=1),
        title=f"With nothing to gain, semaphores launched the cheapest way cost at most {said} threads",
        source="two dependent copies of 16 KB per block, one full wave each, over the same pair in stream "
        "order without semaphores; at most: the upper end of the 95 % interval; "
        f"measured on {results.device}, {results.date[:10]}, commit {results.short_commit}",
        size_name="threads per block",
        columns=2,
        panel_height=180,
        theme=theme,
    )


def _copy_dot(copy_overhead: CopyOverhead, at: int) -> Dot:
    words = hover(
        copy_overhead.case,
        Speedup(copy_overhead.percent, copy_overhead.low95, copy_overhead.upper95),
        "% more than stream order",
    )
    return Dot(at, copy_overhead.percent, copy_overhead.low95, copy_overhead.upper95, words)


def _speed_panels(
    panels: Sequence[Panel], y_title: str, *, title: str, source: str, theme: str, **size: int
) -> go.Figure:
    scale: Scale = fitting(y_title, _dots_of(panels), WITHIN)
    return small_panels(panels, scale, title=title, source=source, size_name=TOKENS, theme=theme, **size)


def _dots_of(panels: Sequence[Panel]) -> list[Dot]:
    return [dot for panel in panels for series in panel.series for dot in series.dots]
