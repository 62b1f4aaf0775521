"""Notebook 24: what a decode step's layer takes beside one read of its bytes, and what a ring bridges.

Example: with `torch.compile` a layer of Llama-3 8B takes 39 us more than its read, one of Qwen2.5 0.5B,
which reads a fourteenth, 33: what is lost is at the boundaries.
"""

from collections.abc import Iterable

import plotly.graph_objects as go

from wavesim.safe_io.annotated import typed
from wavesim.teaching.measured_layers import (
    NAMES,
    DecodeTimes,
    decode_times,
    measured_on,
    registered_steps,
)
from wavesim.view.stacked_bars import StackedBar, bars_of_parts
from wavesim.widgets.explorer import require_offered

HIDDEN, INNER, KEY_COLUMNS = 2048, 8192, 512  # of Llama-3.2-1B
WEIGHTS = HIDDEN * (2 * HIDDEN + 2 * KEY_COLUMNS + 3 * INNER)
BYTES_PER_S, SMS = 4.4e12, 132
LATENCY_US, WAIT_US = 1.07, 2  # of a load; of the warps for the stage before
KERNELS, HANDOVERS, HANDOVER_US = 7, 5, 2


@typed
def layer_times(model: str = "", theme: str = "light") -> go.Figure:
    """One sequence, three ways; all models where none is named. Raises `DescriptionError`."""
    rows = [_alone(model)] if model else [_alone(name) for name in NAMES]
    bars = [
        (f"{NAMES[times.model]}, {way}", times.read_us, us)
        for times in rows
        for way, us in (
            ("op by op", times.torch_us),
            ("compiled", times.compiled_us),
            ("one kernel", times.ours_us),
        )
    ]
    title = "What a layer takes beyond its read hardly depends on how much it reads"
    if len(rows) == 1:
        torch, compiled, ours = (us / read for _, read, us in bars)
        title = f"{torch:.1f} times one read op by op, {compiled:.1f} compiled, {ours:.2f} as one kernel"
    return _beside_the_read(bars, title, theme)


@typed
def registered_beside_measured(theme: str = "light") -> go.Figure:
    """Our kernel at 2,048 keys, one sequence and eight, three models."""
    bars = [
        (f"{NAMES[step.model]}, {step.sequences} seq., {how}", step.read_us, us)
        for sequences in (1, 8)
        for step in registered_steps()
        for how, us in (("simulated", step.simulated_us), ("measured", step.measured_us))
        if step.sequences == sequences
    ]
    return _beside_the_read(bars, "One sequence is simulated well, eight far too fast", theme)


def _beside_the_read(bars: Iterable[tuple[str, float, float]], title: str, theme: str) -> go.Figure:
    return bars_of_parts(
        [StackedBar(name, (read, max(0.0, us - read))) for name, read, us in bars],
        ("one read of its bytes", "beyond it"),
        title=title,
        source=f"measured on {measured_on()}, in CUDA graphs; what is simulated was registered before",
        x_title="µs a layer",
        theme=theme,
    )


@typed
def lost_us(model: str) -> float:
    """What a compiled layer takes beyond its read, measured. Raises `DescriptionError`."""
    times = _alone(model)
    return times.compiled_us - times.read_us


def _alone(model: str) -> DecodeTimes:
    """One sequence."""
    require_offered("model", model, list(NAMES))
    return next(times for times in decode_times() if (times.model, times.sequences) == (model, 1))


def _roof() -> dict[str, float]:
    """Megabytes of a layer of Llama-3.2-1B in bf16, and microseconds that reading them takes."""
    size = 2 * WEIGHTS
    return {"mb": size / 1e6, "millions": WEIGHTS / 1e6, "us": 1e6 * size / BYTES_PER_S}


def _boundary() -> dict[str, float]:
    """Microseconds that a compiled kernel's boundary costs, and megabytes that could be read meanwhile."""
    each = lost_us("llama-3.2-1b") / KERNELS
    return {"us": each, "mb": each * BYTES_PER_S / 1e12, "lost": lost_us("llama-3.2-1b")}


def _ring(kb: float) -> dict[str, float]:
    """KB of a ring with which memory never waits."""
    rate = BYTES_PER_S / SMS / 1e9  # KB per microsecond
    flying, bridged = rate * LATENCY_US, rate * WAIT_US
    lasts = max(0.0, kb - flying) / rate
    return {"ring": flying + bridged, "flying": flying, "bridged": bridged, "lasts": lasts}


def _handovers() -> dict[str, float]:
    """Percent of our kernel's layer that handovers take."""
    small, large = (_alone(model).ours_us for model in ("qwen2.5-0.5b", "llama-3-8b"))
    spent = HANDOVERS * HANDOVER_US
    return {"spent": spent, "small": 100 * spent / small, "large": 100 * spent / large}


GRADERS = {"24.1": _roof, "24.2": _boundary, "24.3": _ring, "24.4": _handovers}
