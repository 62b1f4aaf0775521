"""The JavaScript and style sheets of the drawn widgets, as text: for a kernel's widget and for a page alone.

Example: `script("pen.js", "picture.js", "wave_player.js")` is one module, with the themes of `wavesim.view`.
"""

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from wavesim.view.theme import FONT, THEMES

HERE = Path(__file__).parent
EXPORT = "export default { render };"
HEARD = "export default { render: hearing(render) };"  # see hearing.js
PLANS_SCRIPTS = (
    "pen.js",
    "picture.js",
    "blocks.js",
    "timeline.js",
    "plans_picture.js",
    "gif.js",
    "plans_view.js",
)


@lru_cache
def script(*names: str, is_page: bool = False) -> str:
    """The named JavaScript files beside this one, as one module, which for a page alone exports nothing."""
    themes = {name: asdict(theme) for name, theme in THEMES.items()}
    head = f"const THEMES = {json.dumps(themes)};\nconst FONT = {json.dumps(FONT)};\n"
    used = names if is_page else ("hearing.js", *names)
    source = "\n".join((HERE / name).read_text(encoding="utf-8") for name in used)
    return head + source.replace(EXPORT, "" if is_page else HEARD)


@lru_cache
def style(*names: str) -> str:
    """The named style sheets beside this file, as one."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)
