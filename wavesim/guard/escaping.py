"""Texts from outside, made safe for where they go: HTML and SVG, JSON in a script, a terminal, CUDA.

Example: a profile says that its GPU is `<img src=x onerror=...>`. In a page that is the GPU's name, in angle
brackets; on a terminal and in a comment of generated CUDA it is one line without control characters.
"""

import json
import re
from collections.abc import Callable
from html import escape
from typing import Any

# What ends a script element or starts a comment in it; the separators end a line of JavaScript before ES2019.
SCRIPT_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


class Markup(str):
    """Text that is markup already; whatever else goes into an element is escaped."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """One element. Attributes: `class_` is class, `stroke_width` stroke-width; those of None are left out."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{named}>{''.join(map(markup, children))}</{tag}>")


def markup(text: str) -> Markup:
    """A text as markup: escaped, unless it is markup already."""
    return text if isinstance(text, Markup) else Markup(escape(text))


def _value(value: str | float) -> str:
    """An attribute's text: pixels to a hundredth."""
    return escape(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def script_json(value: Any, default: Callable[[Any], Any] | None = None) -> Markup:
    """A value as JSON that may stand anywhere in a script element."""
    return Markup(json.dumps(value, default=default).translate(SCRIPT_ESCAPES))


def one_line(text: str, longest: int = 200) -> str:
    """A text for a terminal or a comment: one line, no control or formatting characters, cut to a length."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


def cuda_comment(text: str) -> str:
    """What may stand in a comment of CUDA text: one line that neither goes on in the next nor ends early."""
    return one_line(text).replace("*/", "* /").replace("??/", "? ?/").rstrip("\\")


def identifier(name: str) -> str:
    """A C++ name made of any text."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word and not word[0].isdigit() else f"_{word}"
