"""What a person sees of a model's pass: a table in plain text, a stacked bar per way, JSON, and a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavesim.model_time.model_pass import ALL_REDUCE, PART_NAMES, ModelPass, PassWay
from wavesim.view.page import Section, Table, write_page
from wavesim.view.stacked_bars import StackedBar, bars_of_parts

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SIMULATED = "simulated, not measured"


def pass_text(found: ModelPass) -> str:
    """The table and where its numbers come from."""
    head = f"{'one layer, us':<22}" + "".join(f"{name:>14}" for name in PART_NAMES)
    lines = [
        f"{way.word:<22}"
        + "".join(f"{way.parts_ns[name] / 1000:>14.1f}" for name in PART_NAMES)
        + f"{way.layer_ns / 1000:>12.1f}{found.gain_points(way):>+10.1f}{_interval(way):>20}"
        for way in found.ways
    ]
    return "\n".join(
        [what_of(found), f"{head}{'layer':>12}{'points':>10}{'8 times in 10':>20}", *lines, *notes_of(found)]
    )


def what_of(found: ModelPass) -> str:
    """What was computed, in words."""
    rows = f"{found.tokens:,} tokens"
    if found.phase == "decode":
        rows = f"decode, {found.tokens:,} sequences of {found.cached:,} cached keys"
    gpus = f", one of {found.tp} GPUs" if found.tp > 1 else ""
    return f"{found.model}, {rows}{gpus}, on {found.device}"


def notes_of(found: ModelPass) -> tuple[str, ...]:
    """What the numbers mean."""
    first, best = found.ways[0], min(found.ways, key=lambda way: way.layer_ns)
    times = dict.fromkeys(
        f"{found.layers * way.layer_ns / 1e6:.2f} ms under {way.word}" for way in (first, best)
    )
    passes = (
        f"a pass through {found.layers} layers: {', '.join(times)}; without embedding and vocabulary product"
    )
    notes = [
        passes,
        f"points: what a way takes less than {first.word}, of the whole layer",
        f"{SIMULATED}: {found.basis}",
        verdict_of(found),
        *dict.fromkeys(f"before: {way.forecast.history}" for way in found.ways[1:]),
    ]
    if found.all_reduce is not None:
        notes.append(f"all-reduce: two per layer, never overlapped, {found.all_reduce.words}")
    return tuple(notes)


def verdict_of(found: ModelPass) -> str:
    """Whether it is worth synchronising otherwise, in words."""
    first, best, most = found.ways[0], found.best, max(found.ways, key=found.gain_points)
    if found.gains_nothing:
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


def pass_data(found: ModelPass) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "model": found.model,
        "tokens": found.tokens,
        "phase": found.phase,
        "cached": found.cached,
        "tp": found.tp,
        "layers": found.layers,
        "device": found.device,
        "ways": [
            {
                "sync": way.word,
                "layer_ns": round(way.layer_ns),
                "pass_ns": round(found.layers * way.layer_ns),
                "points": round(found.gain_points(way), 2),
                "low": round(way.forecast.low, 2),
                "high": round(way.forecast.high, 2),
                "scored": way.forecast.scored,
                "parts_ns": {name: round(way.parts_ns[name]) for name in PART_NAMES},
            }
            for way in found.ways
        ],
        "basis": f"{SIMULATED}: {found.basis}",
        "verdict": verdict_of(found),
        "all_reduce": found.all_reduce.source if found.all_reduce else "",
    }


def pass_picture(found: ModelPass, theme: str = "light") -> "Figure":
    """A bar per way, stacked by part."""
    bars = [
        StackedBar(way.word, tuple(way.parts_ns[name] / 1000 for name in PART_NAMES)) for way in found.ways
    ]
    return bars_of_parts(
        bars,
        PART_NAMES,
        title=title_of(found),
        source=f"{SIMULATED}; one layer of {found.layers}",
        x_title="one layer, µs",
        theme=theme,
    )


def title_of(found: ModelPass) -> str:
    """The finding."""
    best = max(found.ways, key=found.gain_points)
    share = 100 * best.parts_ns[ALL_REDUCE] / best.layer_ns
    reduced = f"; all-reduce is {share:.0f} % of a layer" if share else ""
    gain = found.gain_points(best)
    if gain < 0.5:
        return f"{what_of(found)}: nothing gains half a point of a layer{reduced}"
    return f"{what_of(found)}: {best.word} gains most, {gain:.1f} points of a layer{reduced}"


def write_pass_page(found: ModelPass, path: Path) -> None:
    """The picture and the table as one page. Raises `OutputError`."""
    columns = ("plan", *(f"{name}, us" for name in PART_NAMES), "layer, us", "points")
    cells = [
        (
            way.word,
            *(f"{way.parts_ns[name] / 1000:.1f}" for name in PART_NAMES),
            f"{way.layer_ns / 1000:.1f}",
            f"{found.gain_points(way):+.1f}",
        )
        for way in found.ways
    ]
    notes = notes_of(found)
    write_page(
        path,
        title=title_of(found),
        lead=notes[0] + ".",
        table=Table(columns, cells, caption=notes[2], signed=("points",)),
        notes=notes,
        figures=[Section(pass_picture(found), "One layer")],
    )
