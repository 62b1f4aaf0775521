"""Texts in plotly's figures: plotly reads tags, links, formulas and fields in them, so that they are escaped.

Example: a stage named `<a href="https://example.org">gemm</a>` would be a link in the title and the legend;
it is that text. What a figure marks up itself, such as a bold name, is `Markup`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from wavesim.safe_io.escaping import markup
from wavesim.view.plotly_version_check import spare_nbformat

# Properties in which plotly looks for tags or fields; "x" and "y" name categories where they are texts.
SHOWN = {"text", "name", "title", "hovertext", "hovertemplate", "texttemplate", "customdata"}
SHOWN |= {"ticktext", "ticksuffix", "tickprefix", "x", "y"}


class Figure(go.Figure):  # type: ignore[misc]  # plotly is untyped
    """Shows itself in Jupyter as plotly's figures do, but without nbformat: a browser's kernel has none."""

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  # by which it has been called

        spare_nbformat()
        display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]


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
