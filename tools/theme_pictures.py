"""Two drawings that differ in their colours alone, as one SVG that follows the reader's theme.

Example: `tour.svg` holds each style of its dots once, in a style sheet, and beside it the colours
for a dark page; as two files with a style on every dot it was four times as large.
"""

import re
from collections.abc import Mapping

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup, element

_TAG = re.compile(r"(<[^>]*>)")
_STYLE = re.compile(r' (style|fill|stroke)="([^"]*)"')
_UNUSED = re.compile(r' (?:class|data-[a-z]+)="[^"]*"')  # of a drawing without a style sheet of its own
_OUR_IDS = re.compile(r"\bwavesim-(\d+)\b")


def both_themes(light: str, dark: str) -> str:
    """One SVG of a drawing in two themes. Raises `DescriptionError` where more than colours differs."""
    names: dict[tuple[str, str], str] = {}
    tags = [_TAG.split(_shortened(text)) for text in (light, dark)]
    if len(tags[0]) != len(tags[1]):
        raise DescriptionError(
            f"the drawings have {len(tags[0])} and {len(tags[1])} parts; draw the same twice"
        )
    parts = [_joined(ours, theirs, names) for ours, theirs in zip(*tags, strict=True)]
    return re.sub(r"^<svg[^>]*>", lambda start: start[0] + _sheet(names), "".join(parts), count=1)


def _shortened(text: str) -> str:
    return _OUR_IDS.sub(r"w\1", text if "<style>" in text else _UNUSED.sub("", text))


def _joined(light: str, dark: str, names: dict[tuple[str, str], str]) -> str:
    """A tag or text of both drawings; styles become a class, which `names` holds by both themes' styles."""
    bare, other = (_STYLE.sub("", part) if part.startswith("<") else part for part in (light, dark))
    if bare != other:
        raise DescriptionError(f"the drawings differ: {bare[:80]!r} and {other[:80]!r}; draw the same twice")
    if bare == light:
        return light
    styles = (_declared(light), _declared(dark))
    name = names.setdefault(styles, f"t{len(names)}")
    if ' class="' in bare:
        return bare.replace(' class="', f' class="{name} ', 1)
    return re.sub(r"^<[\w:]+", lambda start: f'{start[0]} class="{name}"', bare)


def _declared(tag: str) -> str:
    """Its styles as CSS; those of its style attribute last, because they come before its other attributes."""
    pairs = sorted(_STYLE.findall(tag), key=lambda pair: pair[0] == "style")
    return ";".join(value.rstrip(";") if key == "style" else f"{key}:{value}" for key, value in pairs)


def _sheet(names: Mapping[tuple[str, str], str]) -> str:
    light = "".join(f".{name}{{{style}}}" for (style, _), name in names.items())
    dark = "".join(
        f".{name}{{{';'.join(entry for entry in other.split(';') if entry not in style.split(';'))}}}"
        for (style, other), name in names.items()
        if style != other
    )
    return str(element("style", Markup(f"{light}@media (prefers-color-scheme:dark){{{dark}}}")))
