"""Where things stand on a timeline figure, in pixels: panels under each other over one time axis.

Example: title, then per trace a header line over its SM rows, then the chart of busy SMs, the axis and
the legend. Panels keep their height when one is added; the figure grows.
"""

from dataclasses import dataclass
from functools import cached_property

LEFT, RIGHT = 62, 112
HEADER_LINE, HEADER_PAD = 21, 9
PANEL_GAP = 22
STEPS_HEIGHT, STEPS_HEADER = 104, 40
BOTTOM = 104
ROWS_TARGET, ALL_ROWS_TARGET = 300, 1_000  # pixels of one panel's rows, and of all panels'
TALLEST_ROW, SHORTEST_ROW = 44.0, 1.0
TALLEST_PANEL = (
    600  # pixels; with more rows than that, as 16 blocks on each of 132 SMs, a row is less than one
)


@dataclass(frozen=True)
class Frame:
    """Pixel layout. `rows` and `header_lines` are one per panel; `top` is the title's height.

    `below` pixels are kept free under the chart of busy SMs, for more charts.
    """

    width: int
    rows: tuple[int, ...]
    header_lines: tuple[int, ...]
    top: int
    wanted_height: int | None = None
    below: int = 0

    @cached_property
    def plot_width(self) -> int:
        """Pixels of the time axis."""
        return max(100, self.width - LEFT - RIGHT)

    @cached_property
    def headers(self) -> tuple[int, ...]:
        """Pixels of each panel's header."""
        return tuple(lines * HEADER_LINE + HEADER_PAD for lines in self.header_lines)

    @cached_property
    def row_height(self) -> float:
        """Pixels of one row, the same in every panel."""
        most = max(self.rows, default=1)
        target = min(ROWS_TARGET, ALL_ROWS_TARGET / max(1, len(self.rows)))
        shortest = min(SHORTEST_ROW, min(TALLEST_PANEL, 2 * target) / most)
        height = min(TALLEST_ROW, max(shortest, float(round(target / most))))
        if self.wanted_height is None:
            return height
        fixed = self.top + sum(self.headers) + PANEL_GAP * len(self.rows)
        fixed += STEPS_HEADER + STEPS_HEIGHT + self.below + BOTTOM
        return max(shortest / 2, (self.wanted_height - fixed) / max(1, sum(self.rows)))

    @cached_property
    def height(self) -> int:
        """Pixels of the whole figure."""
        return round(self.top + self.plot_height + BOTTOM)

    @cached_property
    def plot_height(self) -> float:
        """Pixels between the margins."""
        panels = sum(self.headers) + sum(self.rows) * self.row_height + PANEL_GAP * len(self.rows)
        return panels + STEPS_HEADER + STEPS_HEIGHT + self.below

    def panel_domain(self, index: int) -> tuple[float, float]:
        """Paper coordinates (bottom, top) of a panel's rows."""
        above = sum(self.headers[: index + 1]) + sum(self.rows[:index]) * self.row_height + PANEL_GAP * index
        return self._paper(above + self.rows[index] * self.row_height), self._paper(above)

    @property
    def steps_domain(self) -> tuple[float, float]:
        """Paper coordinates (bottom, top) of the chart of busy SMs."""
        return self.below / self.plot_height, (self.below + STEPS_HEIGHT) / self.plot_height

    def _paper(self, pixels_from_top: float) -> float:
        return min(1.0, max(0.0, 1 - pixels_from_top / self.plot_height))
