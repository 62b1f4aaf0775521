"""Texts from outside, made safe for where they go: HTML and SVG, JSON in a script, a terminal, CUDA.

Example: a profile says that its GPU is `<img src=x onerror=...>`. In a page and in a figure that is the GPU's
name, in angle brackets; on a terminal and in a comment of generated CUDA it is one line without control
characters.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.safe_io.cuda_words import is_reserved

LONGEST_WORD = 60

# What ends a script element or starts a comment in it; the separators end a line of JavaScript before ES2019.
SCRIPT_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


# Half a surrogate pair in JSON: an escape alone. Whole pairs and escaped backslashes are tried first.
HALF_PAIR = re.compile(r"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")
# Read alike by HTML, SVG and plotly's labels, where "$" starts a formula and "%{" a field.
# An attribute stands in double quotes, so that an apostrophe stays one.
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "$": "&#36;", "%": "&#37;"}
SPECIAL = re.compile(r"""[&<>"$]|%(?=\{)""")
# What no document holds, or what turns round the text after it: controls, lone surrogates, bidi overrides.
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
REPLACEMENT = "\ufffd"


class Markup(str):
    """Text that is markup already; whatever else goes into an element, a template or a list is escaped."""

    __slots__ = ()

    def format(self, *values: Any, **named: Any) -> "Markup":
        """The template with texts in its braces, escaped; attributes need double quotes."""
        names = {name: _escaped(value) for name, value in named.items()}
        return Markup(super().format(*map(_escaped, values), **names))

    def join(self, parts: Iterable[str], /) -> "Markup":
        """The parts, escaped, with this markup between them."""
        return Markup(super().join(map(markup, parts)))


BREAK = Markup("<br>")


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """One element. Attributes: `class_` is class, `stroke_width` stroke-width; those of None are left out."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{named}>{''.join(map(markup, children))}</{tag}>")


def markup(text: str) -> Markup:
    """A text as markup for HTML, SVG and plotly: escaped, unless it is markup already."""
    if isinstance(text, Markup):
        return text
    return Markup(SPECIAL.sub(lambda match: ENTITIES[match[0]], shown(text)))


def shown(text: str) -> str:
    """A text without what no document can hold, or what turns round the text after it."""
    return UNSHOWN.sub(REPLACEMENT, text)


def _escaped(value: Any) -> Any:
    return markup(value) if isinstance(value, str) else value


def _value(value: str | float) -> str:
    """An attribute's text: pixels to a hundredth."""
    return markup(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def script_json(value: Any, default: Callable[[Any], Any] | None = None) -> Markup:
    """A value as JSON that may stand anywhere in a script element."""
    text = json.dumps(value, separators=(",", ":"), default=default).translate(SCRIPT_ESCAPES)
    return Markup(HALF_PAIR.sub(lambda match: match[1] or r"\ufffd", text))


def one_line(text: str, longest: int = 200) -> str:
    """A text for a terminal or a comment: one line, no control or formatting characters, cut to a length."""
    line = text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def whole_line(text: str) -> str:
    """A text for a terminal in one line, however long."""
    return one_line(text, len(text))


def lines(text: str) -> str:
    """A text of several lines for a terminal, without any other control or formatting character."""
    return "\n".join(map(whole_line, text.split("\n")))


def cuda_comment(text: str, longest: int = 200) -> str:
    """What may stand in a comment of CUDA text: one line that neither goes on in the next nor ends early.

    Compilers join lines at a backslash, also one with blanks behind it or one that is written `??/`.
    """
    shown = one_line(text, longest).replace("*/", "* /").replace("??/", "? ?/")
    return shown.rstrip("\\ ")


def identifier(name: str, is_taken: Callable[[str], bool] = is_reserved) -> str:
    """A C++ name made of any text: its letters and digits, with `named_` before what is taken or no name.

    Neither underscores that C++ keeps for itself nor more than `LONGEST_WORD` letters; texts that are the
    same in their letters and digits give the same name.
    """
    word = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if len(word) > LONGEST_WORD:
        word = f"{word[: LONGEST_WORD - 9]}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    is_name = word[:1].isalpha() and not is_taken(word)
    return word if is_name else f"named_{word}".rstrip("_")


def literal(number: object) -> str:
    """An integer as C++ takes it for an int. Raises `DescriptionError` for one that is none or too large."""
    if not isinstance(number, int) or not -(2**31) < number < 2**31:
        shown = one_line(repr(number), 40)
        raise DescriptionError(f"{shown} goes into generated code; it must be an integer below 2,147,483,648")
    return format(int(number), "d")
