"""A plotly figure of ours: its texts are escaped, it shows itself without nbformat, and is saved.

Example: plotly reads tags, links, formulas and fields in texts; a stage named `<a href="https://example.org">`
is that text in the title and the legend, and no link. What a figure marks up itself is `Markup`.
`save_figure(timeline(traces), "plans.svg")` is for a slide.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from wavesim.html_display import html_of
from wavesim.safe_io.escaping import Markup, element, markup, script_json
from wavesim.view.export import save_html
from wavesim.view.plotly_script import packed_plotly
from wavesim.view.raster import dark_rasters
from wavesim.view.theme import find_theme

RENDERERS = "plotly.io._renderers"
# Properties in which plotly looks for tags or fields; "x" and "y" name categories where they are texts.
SHOWN = {"text", "name", "title", "hovertext", "hovertemplate", "texttemplate", "customdata"}
SHOWN |= {"ticktext", "ticksuffix", "tickprefix", "x", "y"}

DRAW = """{plotly}
(() => {{
  const el = document.getElementById("{name}"), {{ data, layout }} = {spec};
  const options = {{ displayModeBar: false }};
  const drawn = window.wavesimPlotly.then((plotly) => plotly.newPlot(el, data, layout, options));
  const svg = async (width) => {{
    await drawn;
    const {{ width: own, height }} = el.layout;
    const uri = await Plotly.toImage(el, {{ format: "svg", width: own ?? width, height: height ?? null }});
    return decodeURIComponent(uri.slice(uri.indexOf(",") + 1));
  }};
  el.wavesim = {{ svg }};
}})();"""


class Figure(go.Figure):  # type: ignore[misc]  # plotly is untyped
    """Shows itself in Jupyter without plotly's toolbar, which lies over titles, and without nbformat.

    A timeline has `scenes`, by what draws each, and is drawn on our own canvas there: as wide as the page,
    in its theme. One whose layout was changed is shown as plotly has it.
    """

    _scenes: Sequence[tuple[str, Mapping[str, Any]]] = ()
    _layout_made: Mapping[str, Any] | None = None

    @property
    def scenes(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """What our canvas draws of it; nothing of a figure that is plotly's alone, or is one by now."""
        return self._scenes if self.layout.to_plotly_json() == self._layout_made else ()

    def draw_as(self, scenes: Sequence[tuple[str, Mapping[str, Any]]]) -> "Figure":
        """From now on a notebook shows these; returns the figure."""
        self._scenes, self._layout_made = scenes, self.layout.to_plotly_json()
        return self

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  # by which it has been called

        drawn = html_of(self)
        bundle = {"text/html": drawn, "text/plain": self._scenes[0][1]["title"]} if drawn else self._plotly()
        display(bundle, raw=True)  # type: ignore[no-untyped-call]

    def _plotly(self) -> dict[str, Any]:
        spare_nbformat()
        bundle: dict[str, Any] = self._repr_mimebundle_()
        for spec in bundle.values():
            if isinstance(spec, dict):
                spec["config"] = {**spec.get("config", {}), "displayModeBar": False}
        return bundle


def figure_of(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> Figure:
    """The figure of these series and this layout, texts escaped."""
    return Figure(data=escaped(data), layout=escaped(layout))


def escaped(props: Any) -> Any:
    """Properties with each text that plotly shows as markup."""
    if isinstance(props, Mapping):
        return {name: (_text(value) if name in SHOWN else escaped(value)) for name, value in props.items()}
    return [escaped(value) for value in props] if _is_list_of(Mapping, props) else props


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return markup(value)
    if _is_list_of(str | list | tuple, value):
        return [_text(entry) for entry in value]
    return escaped(value)


def _is_list_of(kind: Any, value: Any) -> bool:
    """Whether any of a list is of a kind; lists of numbers, which are long, are told by their first."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return isinstance(value[0], kind) or any(isinstance(entry, kind) for entry in value)


def spare_nbformat() -> None:
    """Imports plotly's module that shows figures, and hands it nbformat's version, all it asks for; once.

    nbformat imports jsonschema, and that builds a grammar of all URIs: a second in every kernel.
    Nobody else's import of nbformat is touched. A plotly that remembers in another way what cannot be
    imported gets nbformat as ever.
    """
    if RENDERERS in sys.modules:
        return
    absent: set[str] = getattr(import_module("_plotly_utils.optional_imports"), "_not_importable", set())
    absent.add("nbformat")
    try:
        renderers = import_module(RENDERERS)
    finally:
        absent.discard("nbformat")
    try:
        renderers.nbformat = SimpleNamespace(__version__=version("nbformat"))  # type: ignore[attr-defined]
    except PackageNotFoundError:
        renderers.nbformat = None  # type: ignore[attr-defined]  # as plotly has it then


def save_figure(figure: go.Figure, path: str | Path) -> Path:
    """Writes a plotly figure to .html, .svg or .png; returns the path. Raises as `save_html` does."""
    return save_html(
        figure_html(figure), path, theme=figure_theme(figure), width=int(figure.layout.width or 1000)
    )


def figure_html(figure: go.Figure) -> Markup:
    """A fragment that shows a plotly figure with no network: 0.5 MB, as plotly.js is in it."""
    props = figure.to_dict()
    props["layout"]["meta"] = dark_rasters(props["layout"])
    spec = script_json(json.loads(to_json_plotly(props)))
    name = f"wavesim-figure-{uuid4().hex}"
    script = Markup(DRAW).format(plotly=packed_plotly(), name=name, spec=spec)
    return Markup("").join([element("div", id=name, class_="plotly-graph-div"), element("script", script)])


def figure_theme(figure: go.Figure) -> str:
    """Name of the theme that a figure was drawn in."""
    return "dark" if figure.layout.paper_bgcolor == find_theme("dark").background else "light"
