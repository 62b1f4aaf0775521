"""What Jupyter shows of a description or a trace by itself: a small static picture in the page's theme.

Example: a pipeline of two GEMMs is two tiled rectangles with an arrow; one tile of the second and the row of
the first that it reads stand out, and a table says how many waves each kernel takes on each device.
No script and no plotly: HTML, SVG and style only.
"""

from wavesim.html_display import draw_with
from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.escaping import Markup, element
from wavesim.trace.trace import Trace
from wavesim.view.pipeline_picture import dependency_list, pipeline_svg, wave_table
from wavesim.view.theme import DARK, FONT, LIGHT, Theme
from wavesim.view.trace_picture import trace_svg

CLASS = "wavesim-display"


def pipeline_html(pipeline: Pipeline) -> str:
    """Stages with their grids, what a tile reads, and waves by device."""
    return _shown(pipeline_svg(pipeline), dependency_list(pipeline), wave_table(pipeline))


def trace_html(trace: Trace) -> str:
    """The timeline: one row per SM slot. A trace with no blocks is its repr."""
    return _shown(trace_svg(trace) if len(trace) else element("code", repr(trace)))


def _shown(*parts: Markup) -> str:
    return element("div", element("style", Markup(STYLE)), *parts, class_=CLASS)


def _colours(theme: Theme) -> str:
    names = ("ink", "muted", "grid", "waiting", "waiting_hatch", "idle", "idle_hatch")
    colours = {name.replace("_", "-"): getattr(theme, name) for name in names}
    colours |= {f"stage{index}": colour for index, colour in enumerate(theme.stages)}
    is_dark = theme is DARK
    colours |= {"if-light": "none" if is_dark else "inline", "if-dark": "inline" if is_dark else "none"}
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _style() -> str:
    """Later rules win: the system's theme, a page's own, then Jupyter's, as the drawn widgets choose."""
    light, dark, here = _colours(LIGHT), _colours(DARK), f".{CLASS}"
    stages = "".join(
        f"{here} .stage{index}{{fill:var(--stage{index})}}" for index in range(len(LIGHT.stages))
    )
    return (
        f"{here}{{{light}font-family:{FONT};color:var(--ink)}}"
        f"@media (prefers-color-scheme:dark){{{here}{{{dark}}}}}"
        f'[data-theme="light"] {here}{{{light}}}[data-theme="dark"] {here}{{{dark}}}'
        f'[data-jp-theme-light="true"] {here}{{{light}}}[data-jp-theme-light="false"] {here}{{{dark}}}'
        f'[data-vscode-theme-kind="vscode-light"] {here}{{{light}}}'
        f'[data-vscode-theme-kind="vscode-high-contrast-light"] {here}{{{light}}}'
        f'[data-vscode-theme-kind="vscode-dark"] {here}{{{dark}}}'
        f'[data-vscode-theme-kind="vscode-high-contrast"] {here}{{{dark}}}'
        f"{here} svg{{display:block;max-width:100%;height:auto}}"
        f"{here} text{{fill:var(--ink);font-size:13px}}"
        f"{here} text.muted{{fill:var(--muted);font-size:12px}}{here} text.name{{font-weight:600}}"
        f"{stages}{here} .pale{{opacity:.3}}{here} .idle{{fill:var(--idle)}}"
        f"{here} .waiting{{fill:var(--waiting)}}{here} .hatch{{stroke:var(--waiting-hatch)}}"
        f"{here} .rule{{stroke:var(--grid);fill:none}}{here} .arrow{{stroke:var(--muted);fill:none}}"
        f"{here} .line{{stroke:var(--ink);fill:none}}{here} .head{{fill:var(--muted)}}"
        f"{here} .if-light{{display:var(--if-light)}}{here} .if-dark{{display:var(--if-dark)}}"
        f"{here} table{{border-collapse:collapse;font-size:12px;margin:6px 0}}"
        f"{here} th,{here} td{{padding:2px 8px;text-align:right;border:0;background:none;color:var(--ink)}}"
        f"{here} th{{font-weight:400;color:var(--muted)}}{here} .left{{text-align:left}}"
        f"{here} code{{font-size:12px;color:var(--ink);background:none}}{here} p{{margin:4px 0}}"
    )


STYLE = _style()
draw_with(Pipeline, pipeline_html)
draw_with(Trace, trace_html)
