"""Sizes from outside, bounded before they cost work or memory: how many of each, and numbers from text.

Example: `whole("tokens", "²")` is no number here, though Python's `isdigit` takes it for one, and neither is
`1_0`; a number of 400 digits is refused by its length before it is converted.
"""

import math
import re
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import one_line

# Thread blocks of all stages of a pipeline, x * y * z. At this bound, on one core: `simulate` 5 s and 270 MB,
# `gen` 13 s and 330 MB, `compare` 2 s and 30 MB a plan, `predict` 22 s and 460 MB; the last two, and `tune`,
# say how far they are. GPT-3's MLP at 8,192 tokens in tiles of 64 x 64 has 36,864 blocks, twelve such GEMMs
# in a chain have 221,184.
MOST_BLOCKS = 2**18
# Pairs of a consumer tile and a producer tile that it reads, of all dependencies: 9 s of `predict`.
MOST_READS = 2**26
# What is quadratic in the stages stays a matter of milliseconds.
MOST_STAGES = 128
# Of an index expression, and of all those of a dependency: each is evaluated once per tile, by recursion. A
# convolution of a convolution has 23; 64 on the most tiles are 4 s.
MOST_TERMS = 64
# Nanoseconds of one tile and of any one cost: 18 minutes. With the most blocks, one after the other, 2**58.
MOST_NS = 2**40
# Characters of a word that names a plan, an order, a policy or a tile set: the longest of ours have 60.
MOST_LETTERS = 200
# Entries of a list on the command line, each a simulation or a search of its own.
MOST_LISTED = 16
# Of them the plans that `compare` sets side by side, whose traces it keeps: 30 MB each with the most blocks.
MOST_COMPARED = 12
# Of whatever an option counts: tokens, K splits, rows of a table.
MOST_COUNT = 2**31 - 1
MOST_DIGITS = 19  # of a 64-bit integer
SHOWN = 40

_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def whole(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """An integer from `least` to `most`, or ASCII digits that are one. Raises `DescriptionError`."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if is_integer else _read(plain_int, value)
    if number is None or not least <= number <= most:
        raise DescriptionError(f"{name} is {shown(value)}; it must be an integer {_span(least, most)}")
    return number


def real(name: str, value: Any, least: float = 0.0, most: float = 1e18) -> float:
    """A finite number from `least` to `most`, or ASCII text that is one. Raises `DescriptionError`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = value if is_number else _read(plain_float, value)
    # Compared before it is converted: an integer of 400 digits has no float. Nothing compares with a NaN.
    if number is None or not least <= number <= most:
        raise DescriptionError(f"{name} is {shown(value)}; it must be a number from {least:g} to {most:g}")
    return float(number)


def plain_int(text: str) -> int:
    """`int` of ASCII digits alone, with a minus if any, as many as 64 bits take. Raises `ValueError`."""
    if not is_plain(text.removeprefix("-")):
        raise ValueError(f"{shown(text)} is no integer")
    return int(text)


def is_plain(text: str) -> bool:
    """Whether a text is ASCII digits, as many as 64 bits take."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def plain_float(text: str) -> float:
    """`float` of an ASCII decimal number, with an exponent if any; finite. Raises `ValueError`."""
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is no finite number")
    return number


def _read(parse: Callable[[str], Any], value: Any) -> Any:
    try:
        return parse(value) if isinstance(value, str) else None
    except ValueError:
        return None


def bounded_text(name: str, text: Any, most: int = MOST_LETTERS, example: str = "") -> str:
    """A text of at most so many characters. Raises `DescriptionError`."""
    if not isinstance(text, str):
        raise DescriptionError(f"{name} is {shown(text)}; write {example or 'it'} as a text")
    if len(text) > most:
        raise DescriptionError(
            f"{name} is {shown(text)}, {len(text):,} characters; at most {most:,} are read"
        )
    return text


def listed(name: str, text: str, most: int = MOST_LISTED) -> list[str]:
    """The words of a list separated by commas, each once and none empty. Raises `DescriptionError`."""
    words = text.split(",")
    if len(words) > most:
        raise DescriptionError(f"{name} lists {len(words):,}; at most {most:,} are tried. Name fewer")
    for position, entry in enumerate(words, start=1):
        if not entry or entry in words[: position - 1]:
            fault = "is empty" if not entry else f"is {shown(entry)} again"
            raise DescriptionError(f"{name} is {shown(text)}; entry {position} {fault}. Leave it out")
    return words


def listed_integers(name: str, text: str, least: int, example: str, most: int = MOST_LISTED) -> list[int]:
    """The integers of a list as `listed` reads it, none for an empty text. Raises `DescriptionError`."""
    words = listed(name, text, most) if text else []
    if not all(is_plain(word) and int(word) >= least for word in words):
        raise DescriptionError(
            f"{name} is {shown(text)}; write integers of at least {least}, separated by commas, such as "
            f"{example}"
        )
    return [int(word) for word in words]


def shown(value: Any) -> str:
    """A value for an error's line: cut where it is long, a long integer by its size."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length():,} bits"
    try:
        text = repr(value[: 2 * SHOWN] if isinstance(value, str | list | tuple) else value)
    except ValueError:  # a long integer somewhere in it
        text = f"a {type(value).__name__}"
    return one_line(text, SHOWN)  # what numpy says of an array has several


def _span(least: int, most: int) -> str:
    return f"of at least {least:,}" if most == 2**63 - 1 else f"from {least:,} to {most:,}"
