"""The pictures of an advice: what ran on each stream of a step, and what each pair of kernels could win.

Example: a band per stream, coloured by kind of kernel, white where nothing ran; under it an area per slice of
the step, from working slots at the bottom over empty ones to kernels that hide their tiles.
"""

import plotly.graph_objects as go

from wavesim.profile.advice import Advice, Pair
from wavesim.profile.advice_text import milliseconds, short_label
from wavesim.profile.timeline_data import KINDS, StepPicture, step_picture
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Heading, Props, axis, base_layout, heading, section
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.wording import MICROSECONDS, MILLISECONDS, TimeUnit

LEFT, RIGHT, BOTTOM = 96, 30, 148
LANE_HEIGHT, SHARES_HEIGHT, BETWEEN, HEADER = 34, 150, 64, 34
KIND_WORDS = {
    "gemm": "GEMM, convolution",
    "attention": "attention",
    "memory": "elementwise, norm, copy kernels",
    "communication": "communication",
    "other": "other kernels",
    "copy": "copies and fills",
}
SHARE_WORDS = {
    "work": "slots that work",
    "idle": "slots empty in last or only waves",
    "blind": "hidden: persistent, communication, unknown",
    "nothing": "nothing runs",
}


def advice_timeline(advice: Advice, *, theme: str | Theme = "light", width: int = 1000) -> go.Figure:
    """One step of the profile, the busiest. Raises `DescriptionError` for an unknown theme."""
    palette = find_theme(theme)
    picture = step_picture(advice)
    span = picture.end_ns - picture.start_ns
    unit = MILLISECONDS if span >= 1_000_000 else MICROSECONDS
    where = f"{picture.name} on {advice.profile.device_name}, measured by {advice.profile.profiler}"
    words = f"{where}: {milliseconds(span)}; bars nearer than half a pixel are drawn as one"
    head = heading(_title(picture), words, width - LEFT - RIGHT)
    data = [_bars(picture, kind, unit, palette) for kind in KINDS]
    data += [_area(picture, name, unit, palette) for name in SHARE_WORDS]
    shown = [series for series in data if series]
    return figure_of(shown, _layout(picture, head, unit, palette, width))


def kind_colour(kind: str, theme: Theme) -> str:
    """The colour of a kind of kernel, the same in every figure of an advice."""
    colours = {"gemm": 0, "attention": 3, "memory": 2, "communication": 1}
    return theme.stage_colour(colours[kind]) if kind in colours else theme.muted


def _title(picture: StepPicture) -> str:
    share = {name: f"{100 * float(values.mean()):.0f} %" for name, values in picture.shares.items()}
    hidden = "" if picture.shares["blind"].mean() < 0.005 else f", {share['blind']} cannot be seen"
    return (
        f"SM slots are at work {share['work']} of this step and empty {share['idle']}{hidden}; "
        f"nothing runs {share['nothing']}"
    )


def _bars(picture: StepPicture, kind: str, unit: TimeUnit, theme: Theme) -> Props:
    chosen = [bar for bar in picture.bars if bar.kind == kind]
    if not chosen:
        return {}
    pattern = {"shape": "/", "size": 5, "solidity": 0.5} if kind == "copy" else {}
    return {
        "type": "bar",
        "orientation": "h",
        "name": KIND_WORDS[kind],
        "legend": "legend",
        "y": [bar.lane for bar in chosen for _ in bar.texts],
        "base": [float(value) for bar in chosen for value in unit.of(bar.start_ns)],
        "x": [float(value) for bar in chosen for value in unit.of(bar.length_ns)],
        "customdata": [text for bar in chosen for text in bar.texts],
        "marker": {"color": kind_colour(kind, theme), "line": {"width": 0}, "pattern": pattern},
        "hovertemplate": Markup("%{{customdata}}<br>from %{{base:.3f}} {}<extra></extra>").format(
            unit.symbol
        ),
        "width": 0.72,
    }


def _area(picture: StepPicture, name: str, unit: TimeUnit, theme: Theme) -> Props:
    share = picture.shares[name]
    if not share.max() > 1e-3:
        return {}
    colours = {
        "work": (theme.translucent(theme.ink, 0.62), ""),  # no kind of kernel has this colour
        "idle": (theme.idle, "/"),
        "blind": (theme.waiting, "x"),
        "nothing": (theme.background, ""),
    }
    colour, shape = colours[name]
    ink = theme.idle_hatch if name == "idle" else theme.waiting_hatch
    return {
        "type": "scatter",
        "mode": "lines",
        "name": SHARE_WORDS[name],
        "legend": "legend2",
        "showlegend": name != "nothing",
        "x": [float(value) for value in unit.of(picture.bin_ns.astype("int64"))],
        "y": [round(float(value), 4) for value in share],
        "yaxis": "y2",
        "stackgroup": "shares",
        "line": {"width": 0, "shape": "hv", "color": colour},
        "fillcolor": colour,
        "fillpattern": {"shape": shape, "fgcolor": ink, "bgcolor": colour, "size": 6} if shape else {},
        "hovertemplate": Markup("{} %{{y:.0%}}<extra></extra>").format(SHARE_WORDS[name]),
    }


def _layout(picture: StepPicture, head: Heading, unit: TimeUnit, theme: Theme, width: int) -> Props:
    lanes = LANE_HEIGHT * len(picture.lanes)
    plot = HEADER + lanes + BETWEEN + SHARES_HEIGHT
    height = head.height + plot + BOTTOM
    layout = base_layout(theme, head, (width, height), (LEFT, RIGHT, head.height, BOTTOM))
    span = float(unit.of(picture.end_ns - picture.start_ns))
    layout["xaxis"] = axis(theme, unit.axis, range=[0, span], anchor="y2")
    bottom = (SHARES_HEIGHT + BETWEEN) / plot
    layout["yaxis"] = axis(theme, range=[len(picture.lanes) - 0.5, -0.5], showgrid=False)
    layout["yaxis"] |= {"tickvals": list(range(len(picture.lanes))), "ticktext": list(picture.lanes)}
    layout["yaxis"]["domain"] = [bottom, bottom + lanes / plot]
    layout["yaxis2"] = axis(theme, "share", range=[0, 1], tickformat=".0%", tickvals=[0, 0.5, 1])
    layout["yaxis2"]["domain"] = [0, SHARES_HEIGHT / plot]
    layout["annotations"] = [
        section("What ran", theme, bottom + lanes / plot),
        section("Where the slots' time went", theme, SHARES_HEIGHT / plot),
    ]
    below = {**layout["legend"], "y": -48 / plot, "yref": "paper"}
    layout["legend"] = {**below, "traceorder": "normal"}
    layout["legend2"] = {**below, "y": -98 / plot}
    layout["bargap"] = 0.2
    layout["barmode"] = "overlay"
    return layout


PAIRS_LEFT, PAIRS_RIGHT, PAIRS_BOTTOM, ROW = 420, 40, 100, 34
SHOWN = 8
LABEL, LETTER_PX = 55, 7  # of a pair's two names: letters, and what one takes at most on average


def advice_pairs(advice: Advice, *, theme: str | Theme = "light", width: int = 1000) -> go.Figure:
    """The first pairs of the ranking. Raises `DescriptionError` for an unknown theme."""
    palette = find_theme(theme)
    pairs = [pair for pair in advice.pairs if pair.saving.likely_ns > 0 or pair.gap_ns > 0][:SHOWN]
    title = _pairs_title([pair for pair in pairs if not advice.is_refuted(pair)])
    place = advice.profile.device_name
    words = f"{place}, estimated from the profile, over all occurrences; nothing was rewritten"
    head = heading(title, words, width - 60)
    size = (width, head.height + ROW * max(1, len(pairs)) + PAIRS_BOTTOM)
    layout = base_layout(palette, head, size, (PAIRS_LEFT, PAIRS_RIGHT, head.height, PAIRS_BOTTOM))
    layout["title"] |= {"xref": "container", "x": 0.02}
    layout["xaxis"] = axis(
        palette, "time over the whole profile (µs)", zeroline=True, zerolinecolor=palette.muted
    )
    layout["yaxis"] = axis(palette, range=[len(pairs) - 0.5, -0.5], showgrid=False)
    layout["yaxis"] |= {"tickvals": list(range(len(pairs))), "ticktext": [_label(pair) for pair in pairs]}
    return figure_of([_pair_bars(advice, pairs, palette), _gaps(pairs, palette)], layout)


def _pairs_title(pairs: list[Pair]) -> str:
    if not pairs:
        return "No pair of kernels back to back that might gain"
    best = max(pairs, key=lambda pair: pair.saving.likely_ns)
    if best.saving.likely_ns <= 0:
        return "Tile sync has nothing to win in these pairs; launch gaps have"
    return f"Most to win: {best.producer.name.short} → {best.consumer.name.short}"


def _label(pair: Pair) -> Markup:
    text = f"{short_label(pair.producer, 14)} → {short_label(pair.consumer, 14)}"
    shown = text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"
    return Markup("{}  <b>{}</b>").format(shown, pair.number)


def _pair_bars(advice: Advice, pairs: list[Pair], theme: Theme) -> Props:
    likely = [pair.saving.likely_ns / 1e3 for pair in pairs]
    return {
        "type": "bar",
        "orientation": "h",
        "name": "tile sync, with its interval",
        "y": list(range(len(pairs))),
        "x": likely,
        "width": 0.5,
        "marker": {"color": [theme.good if advice.is_confirmed(pair) else theme.muted for pair in pairs]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [(pair.saving.high_ns - pair.saving.likely_ns) / 1e3 for pair in pairs],
            "arrayminus": [(pair.saving.likely_ns - pair.saving.low_ns) / 1e3 for pair in pairs],
            "color": theme.ink,
            "thickness": 1.4,
            "width": 5,
        },
        "hovertemplate": Markup("tile sync %{x:,.1f} µs<extra></extra>"),
    }


def _gaps(pairs: list[Pair], theme: Theme) -> Props:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "launch gaps above a CUDA graph's 1.05 µs",
        "y": list(range(len(pairs))),
        "x": [pair.gap_saving.likely_ns / 1e3 for pair in pairs],
        "marker": {"symbol": "diamond-open", "size": 11, "color": theme.bad, "line": {"width": 2}},
        "hovertemplate": Markup("gaps %{x:,.1f} µs<extra></extra>"),
    }
