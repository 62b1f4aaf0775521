"""Words beside a picture: the only widget through which a notebook gets HTML, and boxes that several share.

Example: an explorer's finding, a table, and the red box that says why a setting cannot run.
"""

from functools import cache
from typing import Any

import ipywidgets
import traitlets

from wavesim.safe_io.escaping import Markup, element, markup
from wavesim.view.theme import DARK, LIGHT, counterparts
from wavesim.widgets.scripts import style

# JupyterLab and Notebook say it with one attribute of the body, VS Code's notebook renderer with another.
DARK_PAGES = (
    'body[data-jp-theme-light="false"]',
    'body[data-vscode-theme-kind="vscode-dark"]',
    'body[data-vscode-theme-kind="vscode-high-contrast"]',
)


@cache
def dark_figures() -> str:
    """The rules, as a style sheet."""
    paper, ink = _rgb(LIGHT.background), _rgb(LIGHT.ink)
    ours = f'.js-plotly-plot:has(.main-svg[style*="{paper}"]):has([style*="{ink}"])'
    figure = f":is({', '.join(DARK_PAGES)}) {ours}"
    colours = {light: dark for light, dark in counterparts(LIGHT, DARK).items() if light.startswith("#")}
    rules = [
        f'{figure} .main-svg[style*="background"] {{ background: {DARK.background} !important }}',
        # A raster's colours are in its pixels: turned to the other end of lightness, with the hue they had.
        f"{figure} .main-svg image {{ filter: invert(0.88) hue-rotate(180deg) brightness(1.2) }}",
        *(
            f"{figure} :is({_painted(what, light)}) {{ {what}: {dark} !important }}"
            for light, dark in colours.items()
            for what in ("fill", "stroke")
        ),
    ]
    return "\n".join(rules)


def _painted(what: str, colour: str) -> str:
    """What has the colour, as shapes, words within a text, and hatches have it."""
    rgb = _rgb(colour)
    return f'[style*="{what}: {rgb}"], [style*="{what}:{colour}"], [{what}="{rgb}"]'


def _rgb(colour: str) -> str:
    """#RRGGBB as a browser writes it in a style: rgb(17, 24, 39)."""
    return "rgb({}, {}, {})".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))


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


def fold_switch(words: str) -> Words:
    """Shows and hides the words below it; a page's own box, so that what is written there may change."""
    box = element("input", type="checkbox")
    return Words(element("label", box, f" {words}", class_="wavesim-fold"))
