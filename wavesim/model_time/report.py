"""What a person sees of a model's pass: a table in plain text, a stacked bar per way, JSON, and a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavesim.model_time.model_pass import ALL_REDUCE, PART_NAMES, ModelPass, PassWay
from wavesim.view.page import Section, Table, write_page
from wavesim.view.stacked_bars import StackedBar, bars_of_parts

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SIMULATED = "simulated, not measured"


def pass_text(timed: ModelPass) -> str:
    """The table and where its numbers come from."""
    head = f"{'one layer, us':<22}" + "".join(f"{name:>14}" for name in PART_NAMES)
    lines = [
        f"{way.word:<22}"
        + "".join(f"{way.parts_ns[name] / 1000:>14.1f}" for name in PART_NAMES)
        + f"{way.layer_ns / 1000:>12.1f}{timed.gain_points(way):>+10.1f}{_interval(way):>20}"
        for way in timed.ways
    ]
    return "\n".join(
        [what_of(timed), f"{head}{'layer':>12}{'points':>10}{'8 times in 10':>20}", *lines, *notes_of(timed)]
    )


def what_of(model_pass: ModelPass) -> str:
    """What was computed, in words."""
    rows = f"{model_pass.tokens:,} tokens"
    if model_pass.phase == "decode":
        rows = f"decode, {model_pass.tokens:,} sequences of {model_pass.cached:,} cached keys"
    gpus = f", one of {model_pass.tp} GPUs" if model_pass.tp > 1 else ""
    return f"{model_pass.model}, {rows}{gpus}, on {model_pass.device}"


def notes_of(model_pass: ModelPass) -> tuple[str, ...]:
    """What the numbers mean."""
    first, best = model_pass.ways[0], min(model_pass.ways, key=lambda way: way.layer_ns)
    times = dict.fromkeys(
        f"{model_pass.layers * way.layer_ns / 1e6:.2f} ms under {way.word}" for way in (first, best)
    )
    passes = (
        f"a pass through {model_pass.layers} layers: {', '.join(times)}; without embedding and vocabulary "
        "product"
    )
    notes = [
        passes,
        f"points: what a way takes less than {first.word}, of the whole layer",
        f"{SIMULATED}: {model_pass.basis}",
        verdict_of(model_pass),
        *dict.fromkeys(f"before: {way.forecast.history}" for way in model_pass.ways[1:]),
    ]
    if model_pass.all_reduce is not None:
        notes.append(f"all-reduce: two per layer, never overlapped, {model_pass.all_reduce.words}")
    return tuple(notes)


def verdict_of(model_pass: ModelPass) -> str:
    """Whether it is worth synchronising otherwise, in words."""
    first, best, most = model_pass.ways[0], model_pass.best, max(model_pass.ways, key=model_pass.gain_points)
    if model_pass.gains_nothing:
        return f"verdict: nothing to gain here, no way gains a point over {first.word}"
    if best is first:
        return (
            f"verdict: {first.word}; {most.word} is predicted to gain {most.forecast.points:+.1f} points, "
            f"too few to be sure of ({most.forecast.interval_text})"
        )
    return f"verdict: {best.word}, {best.forecast.points:+.1f} points ({best.forecast.interval_text})"


def _interval(way: PassWay) -> str:
    """The interval; in brackets where such predictions were never scored on this device."""
    words = f"{way.forecast.low:+.1f} to {way.forecast.high:+.1f}"
    return words if way.forecast.scored else f"({words})"


def pass_data(model_pass: ModelPass) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "model": model_pass.model,
        "tokens": model_pass.tokens,
        "phase": model_pass.phase,
        "cached": model_pass.cached,
        "tp": model_pass.tp,
        "layers": model_pass.layers,
        "device": model_pass.device,
        "ways": [
            {
                "sync": way.word,
                "layer_ns": round(way.layer_ns),
                "pass_ns": round(model_pass.layers * way.layer_ns),
                "points": round(model_pass.gain_points(way), 2),
                "low": round(way.forecast.low, 2),
                "high": round(way.forecast.high, 2),
                "scored": way.forecast.scored,
                "parts_ns": {name: round(way.parts_ns[name]) for name in PART_NAMES},
            }
            for way in model_pass.ways
        ],
        "basis": f"{SIMULATED}: {model_pass.basis}",
        "verdict": verdict_of(model_pass),
        "all_reduce": model_pass.all_reduce.source if model_pass.all_reduce else "",
    }


def pass_picture(model_pass: ModelPass, theme: str = "light") -> "Figure":
    """A bar per way, stacked by part."""
    bars = [
        StackedBar(way.word, tuple(way.parts_ns[name] / 1000 for name in PART_NAMES))
        for way in model_pass.ways
    ]
    return bars_of_parts(
        bars,
        PART_NAMES,
        title=title_of(model_pass),
        source=f"{SIMULATED}; one layer of {model_pass.layers}",
        x_title="one layer, µs",
        theme=theme,
    )


def title_of(model_pass: ModelPass) -> str:
    """The finding."""
    best = max(model_pass.ways, key=model_pass.gain_points)
    share = 100 * best.parts_ns[ALL_REDUCE] / best.layer_ns
    reduced = f"; all-reduce is {share:.0f} % of a layer" if share else ""
    gain = model_pass.gain_points(best)
    if gain < 0.5:
        return f"{what_of(model_pass)}: nothing gains half a point of a layer{reduced}"
    return f"{what_of(model_pass)}: {best.word} gains most, {gain:.1f} points of a layer{reduced}"


def write_pass_page(model_pass: ModelPass, path: Path) -> None:
    """The picture and the table as one page. Raises `OutputError`."""
    columns = ("plan", *(f"{name}, us" for name in PART_NAMES), "layer, us", "points")
    cells = [
        (
            way.word,
            *(f"{way.parts_ns[name] / 1000:.1f}" for name in PART_NAMES),
            f"{way.layer_ns / 1000:.1f}",
            f"{model_pass.gain_points(way):+.1f}",
        )
        for way in model_pass.ways
    ]
    notes = notes_of(model_pass)
    write_page(
        path,
        title=title_of(model_pass),
        lead=notes[0] + ".",
        table=Table(columns, cells, caption=notes[2], signed=("points",)),
        notes=notes,
        figures=[Section(pass_picture(model_pass), "One layer")],
    )
