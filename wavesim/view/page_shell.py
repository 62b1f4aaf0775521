"""What every page of ours is made of around its content: title, theme button, style, footer; one file.

Example: `whole_page("2 wrong in pair.cubin", "sm_90a", body, styles=[css], scripts=[js])` is a page that
opens offline, light or dark, as its reader's system has it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wavesim
from wavesim.safe_io.escaping import Markup, element, script_json

HERE = Path(__file__).parent
NO_FIGURES: Mapping[str, Any] = {"colours": {}, "figures": []}
SAID = "Every figure and table says what was simulated and what was measured, on what and when."
TEMPLATE = Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="wavesim {version}">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
<header class="top">
<div><h1>{title}</h1>{lead}</div>
<button class="theme" type="button">Dark</button>
</header>
<main>
{body}
</main>
<footer>Made with wavesim {version}. {said} The page is complete: it loads nothing from the network.</footer>
{scripts}
<script type="application/json" id="figures">{figures}</script>
<script>
{js}</script>
</body>
</html>
""")


def whole_page(
    title: str,
    lead: str,
    body: Markup,
    *,
    figures: Mapping[str, Any] = NO_FIGURES,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    said: str = SAID,
) -> Markup:
    """The page as HTML. `title` and `lead` are plain; `styles` and `scripts` are text of our own.

    `figures` are plotly's, with the colours that change from light to dark; `said` is the footer's.
    """
    return TEMPLATE.format(
        title=title,
        lead=paragraphs(lead, "lead"),
        body=body,
        css=Markup("".join([own_text("page.css"), *styles])),
        js=Markup(own_text("page.js")),
        scripts=Markup("").join(element("script", Markup(script)) for script in scripts),
        figures=script_json(figures),
        said=said,
        version=wavesim.__version__,
    )


def own_text(name: str) -> str:
    """A file of ours beside this one: a style sheet or a script."""
    return (HERE / name).read_text(encoding="utf-8")


def paragraphs(text: str, kind: str | None = None) -> Markup:
    """A plain text as paragraphs, parted by blank lines."""
    parts = (part.strip() for part in text.split("\n\n"))
    return Markup("").join(element("p", part, class_=kind) for part in parts if part)
