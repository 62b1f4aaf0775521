"""One self-contained HTML page of figures, a table and prose: opens offline, forwards by mail.

Example: a title that says the finding, a table of sizes with gains in green and losses in magenta, the
figures below in the reader's own light or dark theme. plotly.js is inside, compressed; nothing is fetched.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup, element
from wavesim.safe_io.writing import write_text
from wavesim.view.page_shell import paragraphs, whole_page
from wavesim.view.plotly_script import packed_plotly
from wavesim.view.raster import dark_rasters
from wavesim.view.theme import DARK, LIGHT, counterparts

NO_SCRIPT = element(
    "noscript", "This figure is drawn by JavaScript, which is off; the words and tables say the same."
)


@dataclass(frozen=True)
class Section:
    """A figure with what is said about it; `figure` in the light theme, dark is derived."""

    figure: go.Figure
    heading: str = ""
    text: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of texts. `signed` names the columns whose sign is coloured: gains green, losses magenta.

    Raises `DescriptionError` for a row whose length is not that of `columns`.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    signed: Sequence[str] = ()

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise DescriptionError(
                    f"Table: row {index} has {len(row)} cells; columns are {list(self.columns)}"
                )


def write_page(
    path: str | Path,
    *,
    title: str,
    figures: Sequence[go.Figure | Section],
    lead: str = "",
    table: Table | None = None,
    notes: Sequence[str] = (),
    card: Markup | None = None,
) -> Path:
    """Writes `page_html` to a file, whose folder is made if need be. Returns its path.

    Raises `OutputError`; what was there before stays whole.
    """
    return write_text(
        path,
        page_html(
            title=title,
            figures=figures,
            lead=lead,
            table=table,
            notes=notes,
            card=card,
        ),
    )


def page_html(
    *,
    title: str,
    figures: Sequence[go.Figure | Section],
    lead: str = "",
    table: Table | None = None,
    notes: Sequence[str] = (),
    card: Markup | None = None,
) -> Markup:
    """The page as HTML. `lead` and texts are plain: blank lines part paragraphs. Figures must be light.

    The table and the notes come before the figures; under a `card`, which says it all, they come last,
    folded.
    """
    sections = [part if isinstance(part, Section) else Section(part) for part in figures]
    body = [_table(table)] if table else []
    if notes:
        body.append(element("ul", *(element("li", note) for note in notes), class_="notes"))
    drawn = [_section(section, index) for index, section in enumerate(sections)]
    body = [card, *drawn, _folded(body)] if card is not None else [*body, *drawn]
    specs = [_spec(section.figure) for section in sections]
    return whole_page(
        title,
        lead,
        Markup("\n").join(body),
        figures={"colours": counterparts(LIGHT, DARK), "figures": specs},
        scripts=[packed_plotly()],
    )


def _spec(figure: go.Figure) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(figure.to_json())
    layout = spec.get("layout", {})
    layout.pop("template", None)  # all our figures say their colours themselves
    return {"data": spec["data"], "layout": {**layout, "meta": dark_rasters(layout)}}


def _section(section: Section, index: int) -> Markup:
    heading = element("h2", section.heading) if section.heading else ""
    figure = element("div", element("div", NO_SCRIPT, class_="figure", id=f"figure-{index}"), class_="scroll")
    return element("section", heading, paragraphs(section.text), figure)


def _folded(parts: Sequence[str]) -> Markup:
    return element(
        "details", element("summary", "The table, what is assumed, and where figures come from"), *parts
    )


def _table(table: Table) -> Markup:
    is_number = [all(_is_numeric(row[place]) for row in table.rows) for place in range(len(table.columns))]
    head = (
        element("th", name, class_="number" if number else None)
        for name, number in zip(table.columns, is_number, strict=True)
    )
    rows = []
    for index, row in enumerate(table.rows):
        cells = [
            _cell(text, number, name in table.signed)
            for text, name, number in zip(row, table.columns, is_number, strict=True)
        ]
        is_new = index > 0 and row[0] != table.rows[index - 1][0]
        rows.append(element("tr", *cells, class_="first" if is_new else None))
    caption = element("caption", table.caption) if table.caption else ""
    content = (caption, element("thead", element("tr", *head)), element("tbody", *rows))
    return element("div", element("table", *content), class_="scroll")


def _is_numeric(text: str) -> bool:
    letters = text.replace("−", "-").lstrip("+-±").replace(",", "").split(" ")[0]
    return text in ("", "-", "–") or letters.replace(".", "", 1).isdigit()


def _cell(text: str, is_number: bool, is_signed: bool) -> Markup:
    kinds = ["number"] if is_number else []
    has_sign = is_signed and any(letter in "123456789" for letter in text)
    if has_sign and text[0] in "+−-":
        kinds.append("gain" if text[0] == "+" else "loss")
    return element("td", text, class_=" ".join(kinds) or None)
