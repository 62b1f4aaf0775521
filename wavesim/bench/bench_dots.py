"""Dots, panels and findings of the GPU benchmark's figures, with the words that a hover shows.

Example: "row semaphores, M = 1024: 508.4 us (506 to 510 over 20 rounds), 0.974; cuts 128x192, 256x128,
order grouped:8; SM clock 1.41 GHz, 687 W".
"""

from collections.abc import Mapping, Sequence
from statistics import median

from wavesim.bench.gpu_results import TimedCandidate
from wavesim.bench.speedups import PROMPT, Speedup, label, summary
from wavesim.safe_io.escaping import BREAK, Markup
from wavesim.view.panels_figure import Dot, Panel, Series

Found = Mapping[int, tuple[TimedCandidate, Speedup]]  # by tokens
TEXTS = ("plan", "kernels", "cuts", "way", "order", "tile")


def dots(result: Found, tokens: Sequence[int], unit: str) -> list[Dot]:
    """One dot per size, at its place among `tokens`."""
    return [
        Dot(tokens.index(size), speed.value, speed.low, speed.high, hover(case, speed, unit))
        for size, (case, speed) in result.items()
    ]


def verdict_panel(title: str, panel: Found, tokens: Sequence[int], what: str, shift: float = 0.0) -> Panel:
    """Dots above 1 in the colour of gains, below 1 in that of losses, grey where quartiles reach 1."""
    everything = dots(panel, tokens, what)
    faster, slower = [dot for dot in everything if dot.low > 1], [dot for dot in everything if dot.high < 1]
    level = [dot for dot in everything if dot not in faster and dot not in slower]
    return Panel(
        title,
        span(panel),
        [str(size) for size in tokens],
        [
            Series(f"faster {what}", faster, "good", shift=shift),
            Series(f"slower {what}", slower, "bad", shift=shift),
            Series("no clear difference (quartiles reach 1)", level, "waiting", shift=shift),
        ],
        divider=divider(tokens),
    )


def divider(tokens: Sequence[int]) -> int:
    """How many sizes are token generation."""
    return sum(size < PROMPT for size in tokens)


def span(result: Found) -> str:
    """Geometric mean and extremes of the prompt sizes."""
    text = summary(result)
    return "not measured" if text is None else str(text)


def finding(result: Found, ours: str, theirs: str) -> str:
    """A title: mean, and both ends with their sizes."""
    text = summary(result)
    if text is None:
        return f"{ours} was not measured beside {theirs}"
    large = {size: speed.value for size, (_, speed) in result.items() if size >= PROMPT} or {
        size: speed.value for size, (_, speed) in result.items()
    }
    if len(large) == 1:
        return f"{ours} has {text.geomean:.3f} of {theirs}'s speed at M = {next(iter(large))}"
    best, worst = max(large, key=large.__getitem__), min(large, key=large.__getitem__)
    return (
        f"{ours} has {text.geomean:.3f} of {theirs}'s speed (geometric mean), {text.best:.2f} at best "
        f"(M = {best}), {text.worst:.2f} at worst (M = {worst})"
    )


def hover(case: TimedCandidate, speed: Speedup, unit: str) -> Markup:
    """What is known of one measurement, as lines of HTML."""
    low, high = case.quartiles_ns
    roles = f" ({', '.join(label(role) for role in case.roles)})" if case.roles else ""
    size = f", M = {case.tokens}" if case.tokens is not None else ""
    size += f", {case.threads} threads" if case.threads is not None else ""
    lines = [
        Markup("<b>{}</b>{}").format(label(case.name), roles + size),
        f"{case.median_ns / 1e3:.1f} µs ({low / 1e3:.1f} to {high / 1e3:.1f})",
        f"median and quartiles of {len(case.rounds_ns)} rounds",
        f"{speed.value:.3f} {unit} ({speed.low:.3f} to {speed.high:.3f})",
        ", ".join(f"{key} {case.words[key]}" for key in TEXTS if key in case.words),
        _power(case),
    ]
    return BREAK.join(line for line in lines if line)


def _power(case: TimedCandidate) -> str:
    power = []
    if case.clocks_ghz:
        power.append(f"SM clock {median(case.clocks_ghz):.2f} GHz (median of its rounds)")
    if case.power_w is not None:
        power.append(f"{case.power_w:.0f} W while it and its rivals ran")
    return ", ".join(power)
