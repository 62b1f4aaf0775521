"""The words on figures: what was found, on what, simulated or measured. Every number comes from the trace.

Example: "Row semaphores: half-empty waves filled, 4 → 3 waves, 25 % less time" above, and over a panel
"4 waves · 75 % of SM time busy · simulated on toy".
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.safe_io.escaping import BREAK, Markup
from wavesim.trace.header import DependencyInfo, Header
from wavesim.trace.metrics import Metrics
from wavesim.trace.trace import IntArray, Trace


@dataclass(frozen=True)
class TimeUnit:
    """`ns` nanoseconds make one unit; `symbol` follows a number, `axis` titles the axis."""

    ns: float
    symbol: str
    axis: str

    def of(self, time_ns: IntArray | int) -> NDArray[np.float64]:
        """Times in this unit."""
        return np.asarray(time_ns, dtype=np.float64) / self.ns

    def text(self, time_ns: float) -> str:
        """A time as a person reads it: "4", "3.5", "483.2 µs"."""
        value = time_ns / self.ns
        digits = 0 if value >= 1_000 else 1 if value >= 10 else 2
        text = f"{value:,.{digits}f}"
        if not self.symbol:
            text = f"{value:g}" if abs(value - round(value, 2)) < 1e-9 else f"{value:.2f}"
        return f"{text} {self.symbol}" if self.symbol else text


MICROSECONDS = TimeUnit(1_000.0, "µs", "time (µs)")
MILLISECONDS = TimeUnit(1_000_000.0, "ms", "time (ms)")


def unit_for(makespans_ns: Sequence[int], waves: Sequence[float | None]) -> TimeUnit:
    """The unit that suits these traces: tiles if `waves` is known for all and their tiles agree."""
    longest = max(makespans_ns, default=0)
    known = [wave for wave in waves if wave]
    if known and len(known) == len(waves):
        tiles = {round(span / wave) for span, wave in zip(makespans_ns, known, strict=True)}
        if len(tiles) == 1:
            return TimeUnit(float(tiles.pop()), "", "time (one tile = one wave)")
    return MILLISECONDS if longest >= 10_000_000 else MICROSECONDS


NO_BREAK = "\u00a0"
LITTLE = 0.005  # differences below half a per cent are not called a gain or a loss


def device_text(header: Header) -> str:
    """The device's name as a person writes it: "H200" for the catalogue's h200."""
    name = str(header.device.get("name", "unknown device"))
    is_model = name.islower() and any(letter.isdigit() for letter in name)
    return name.upper() if is_model else name


def provenance(header: Header) -> str:
    """Simulated or measured, on what and when."""
    device = device_text(header)
    if header.source == "simulated":
        return f"simulated on {device}"
    when = f", {header.date[:10]}" if header.date else ""
    commit = f", commit {header.commit[:7]}" if header.commit else ""
    return f"measured on {device}{when}{commit}"


def order_text(name: str) -> str:
    """A tile order as a person names it: "groups of 8" for grouped:8, "column by column" for column."""
    kind, _, size = name.partition(":")
    if kind == "grouped":
        return f"groups of {size}"
    return f"{kind} by {kind}" if name in ("row", "column") else name


def plan_labels(headers: Sequence[Header]) -> tuple[str, ...]:
    """Plans in words; those of the same words are told apart by their orders, else by number."""
    labels = [header.plan_label for header in headers]
    ordered = [
        ", ".join([label, *dict.fromkeys(order_text(name) for name in header.orders.values())])
        for label, header in zip(labels, headers, strict=True)
    ]
    result = [b if labels.count(a) > 1 else a for a, b in zip(labels, ordered, strict=True)]
    return tuple(
        f"{label} ({result[: place + 1].count(label)})" if result.count(label) > 1 else label
        for place, label in enumerate(result)
    )


def waves_text(waves: float) -> str:
    """A number of waves: "4 waves", "3.5 waves", "1 wave"."""
    return f"{waves:.3g} wave{'' if waves == 1 else 's'}"


def panel_facts(trace: Trace, metrics: Metrics, unit: TimeUnit) -> str:
    """What a panel's header says after the plan's label."""
    length = waves_text(metrics.waves) if metrics.waves and not unit.symbol else unit.text(trace.makespan_ns)
    return f"{length} · {metrics.busy_utilisation:.0%} of SM time busy".replace("%", " %")


def workload_text(header: Header) -> str:
    """Workload, its stages' grids and the device, in one line."""
    settings = [
        f"{value} {key}" if key == "tokens" else f"{key} {value}" for key, value in header.parameters.items()
    ]
    stages = ", then ".join(f"{info.name} {_grid_text(info.grid)} tiles" for info in header.stages)
    place = f"{device_text(header)} ({header.sm_count} SMs)"
    return f"{', '.join([header.workload, *settings])}: {stages}, on {place}"


def _grid_text(grid: tuple[int, int, int]) -> str:
    columns, rows, slices = grid
    return f"{rows} × {columns}" + (f" × {slices} slices of" if slices > 1 else "")


def improvement(trace: Trace, base: Trace) -> float:
    """1 - t / t_base, from the unrecorded rounds where there are any."""
    return 1 - trace.time_ns / base.time_ns if base.time_ns else 0.0


def is_comparable(trace: Trace, base: Trace) -> bool:
    """Whether a gain of one over the other means anything: same source, device and workload."""
    first, second = trace.header, base.header
    same_place = first.source == second.source and first.device.get("name") == second.device.get("name")
    return same_place and first.workload == second.workload and first.parameters == second.parameters


def signed_percent(fraction: float) -> str:
    """A change of time with its sign: "−25 %", "+3.1 %"."""
    percent = 100 * fraction
    text = f"{abs(percent):.1f}".removesuffix(".0")
    return f"{'−' if percent < 0 else '+'}{text} %" if text != "0" else "±0 %"


def finding(traces: Sequence[Trace], metrics: Sequence[Metrics], unit: TimeUnit) -> str:
    """The title: what these traces show together."""
    first = traces[0]
    others = [
        (trace, m) for trace, m in zip(traces[1:], metrics[1:], strict=True) if is_comparable(trace, first)
    ]
    if not others:
        facts = panel_facts(first, metrics[0], unit).replace(" · ", ", ")
        return f"{first.header.plan_label}: {facts}"
    best, best_metrics = min(others, key=lambda pair: pair[0].time_ns)
    return f"{best.header.plan_label}: {_change(first, best, metrics[0], best_metrics, unit)}"


def _change(base: Trace, trace: Trace, before: Metrics, after: Metrics, unit: TimeUnit) -> str:
    gain = improvement(trace, base)
    percent = signed_percent(gain)[1:]
    if before.waves and after.waves and not unit.symbol:
        times = f"{before.waves:.3g} → {waves_text(after.waves)}"
    else:
        times = f"{unit.text(base.time_ns).removesuffix(f' {unit.symbol}')} → {unit.text(trace.time_ns)}"
    if abs(gain) < LITTLE:
        return f"no gain, {times}"
    change = f"{percent} {'more' if gain < 0 else 'less'} time"
    if unit.symbol:
        return f"{change} ({times})"
    fills = "half-empty waves filled, " if gain > 0 else ""
    return f"{fills}{times}, {change}"


def semaphore_text(info: DependencyInfo, semaphore: int) -> str:
    """A semaphore as a person names it: "row 3 of gemm1", "tile 17 of gemm1"."""
    kind = info.policy if info.policy in ("row", "tile") else f"{info.policy} semaphore"
    return f"{kind} {semaphore} of {info.producer}"


def wrapped(text: str, width_px: float, size_px: float) -> Markup:
    """The text, escaped, with <br> where a line of letters of that size would be too wide."""
    letters = max(20, int(width_px / (0.52 * size_px)))
    bound = re.sub(r" (?=%|µs|ms|→)", NO_BREAK, text)  # a number stays with its unit
    return BREAK.join(line.replace(NO_BREAK, " ") for line in textwrap.wrap(bound, letters))


def span_text(first: int, last: int) -> str:
    """Whole numbers from the first to the last: "1,025 to 2,048", or the one that there is."""
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def text_width(text: str, size_px: float) -> float:
    """About how many pixels wide a line of Inter is."""
    return 0.5 * size_px * len(text)
