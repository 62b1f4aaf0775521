"""Timelines that a notebook shows without a live widget: our canvas, drawn from what the figure holds.

Example: `timeline([stream, rows])` at the end of a cell is as wide as the page and in its theme, zooms,
races, names the tile under the pointer, and is there again when the notebook is opened without a kernel.
"""

from wavesim.html_display import draw_with
from wavesim.safe_io.escaping import Markup
from wavesim.view.figure import Figure
from wavesim.widgets.comparison_view import ErrorsPicture
from wavesim.widgets.drawn import PlansPicture

PICTURES = {"plans": PlansPicture, "errors": ErrorsPicture}


def still_html(figure: Figure) -> Markup:
    """A fragment with its pictures one under the other; "" for a figure that plotly draws."""
    return Markup("").join(PICTURES[name].fragment({"scene": scene}) for name, scene in figure.scenes)


draw_with(Figure, still_html)
