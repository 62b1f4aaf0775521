"""Words beside a picture: the only widget through which a notebook gets HTML, and boxes that several share.

Example: an explorer's finding, a table, and the red box that says why a setting cannot run.
"""

from typing import Any

import ipywidgets
import traitlets

from wavesim.safe_io.escaping import Markup, element, markup
from wavesim.widgets.dark_pages import dark_figures
from wavesim.widgets.drawn import style


class Words(ipywidgets.HTML):
    """Shows markup. A text that is none is escaped, wherever it was assigned from."""

    @traitlets.validate("value")
    def _as_markup(self, proposal: dict[str, Any]) -> Markup:
        return markup(proposal["value"])


def style_sheet() -> Words:
    """The style of our explorers and of figures in a dark page, which takes no room itself."""
    sheet = Words(element("style", Markup(style("vscode.css", "what_if.css") + dark_figures())))
    sheet.add_class("wavesim-style")
    return sheet


def problem_box(title: str, *words: str) -> Markup:
    """Why something is not shown, announced by screen readers at once."""
    return element("div", element("b", f"{title}."), " ", *words, role="alert", class_="wavesim-problem")
