"""The step of a profile as a picture: what ran on each stream, and below it where the SMs' time went.

Example: a band per stream, coloured by kind of kernel, white where nothing ran; under it an area per slice of
the step, from working slots at the bottom over empty ones to kernels that hide their tiles.
"""

import plotly.graph_objects as go

from wavesim.profile.advice import Advice
from wavesim.profile.advice_text import milliseconds
from wavesim.profile.timeline_data import KINDS, StepPicture, step_picture
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Heading, Props, axis, base_layout, heading, section
from wavesim.view.figure_text import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.time_unit import MICROSECONDS, MILLISECONDS, TimeUnit

LEFT, RIGHT, BOTTOM = 96, 30, 104
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
    """The finding: where the slots' time of this step went."""
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
    layout["legend2"] = {**below, "y": -74 / plot}
    layout["bargap"] = 0.2
    layout["barmode"] = "overlay"
    return layout
