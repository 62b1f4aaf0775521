"""A table to look at, in a notebook and in plain text.

Example: six rows of Table IV under nine titles, in JupyterLab as HTML, in a terminal in columns.
"""

from dataclasses import dataclass

from wavesim.safe_io.columns import in_columns
from wavesim.safe_io.escaping import element


@dataclass(frozen=True)
class Shown:
    """A table to look at: column titles and cells, all text."""

    titles: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def _repr_html_(self) -> str:
        head = element("tr", *(element("th", title) for title in self.titles))
        rows = (element("tr", *(element("td", cell) for cell in row)) for row in self.cells)
        return str(element("table", head, *rows))

    def __repr__(self) -> str:
        return "\n".join(in_columns((self.titles, *self.cells)))
