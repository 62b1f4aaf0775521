"""The operands of a PTX instruction: registers, addresses, constants, symbols.

Example: `{%r1, %r2}, [%rd3+16]` is an Operand of two registers and an Operand with address ("%rd3", 16).

Source: PTX ISA 9.0, chapter 6 (instruction operands).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_PIECES = re.compile(r"[\[{(]|[\]})]|,")
_WORD = re.compile(r"(?<![\w$%.])(?:[A-Za-z_$%][\w$%]*(?:\.[xyzw]\b)?|-?\d[\w.]*)")
_ADDRESS = re.compile(r"\s*([\w$%]+(?:\.[xyzw]\b)?)\s*(?:([+-])\s*(-?\w+))?")
_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,32})|0[bB]([01]{1,128})|(\d{1,40}))[uU]?$")


class Operand(NamedTuple):
    """Names (or numbers) in their order. `base` and `offset` are of an address, which `names` hold too."""

    names: tuple[str, ...]
    is_address: bool = False
    base: str = ""
    offset: int = 0


def operands(text: str) -> list[Operand]:
    """Those of one instruction, from the text after its opcode."""
    if not any(bracket in text for bracket in "[{(|+"):
        return [Operand((word,)) for piece in text.split(",") if (word := piece.strip().lstrip("!"))]
    return [_operand(piece) for piece in _split(text) if piece]


def integer(word: str) -> int | None:
    """An integer constant's value, or None for a name or a floating-point constant."""
    found = _INTEGER.match(word)
    if not found:
        return None
    sign = -1 if found[1] else 1
    if found[2] or found[3]:
        return sign * int(found[2] or found[3], 16 if found[2] else 2)
    is_octal = len(found[4]) > 1 and found[4][0] == "0" and not set(found[4]) & set("89")
    return sign * int(found[4], 8 if is_octal else 10)


def _split(text: str) -> Iterator[str]:
    """At the commas outside of all brackets."""
    depth = start = 0
    for found in _PIECES.finditer(text):
        if found[0] == ",":
            if not depth:
                yield text[start : found.start()].strip()
                start = found.end()
        else:
            depth += 1 if found[0] in "[{(" else -1
    yield text[start:].strip()


def _operand(text: str) -> Operand:
    names = tuple(_WORD.findall(text))
    if text[0] != "[" or not (found := _ADDRESS.match(text, 1)):
        return Operand(names, text[0] == "[")
    base, sign, distance = found.groups()
    offset = (integer(distance) or 0) if distance else 0
    if (absolute := integer(base)) is not None:
        return Operand(names, True, "", absolute)
    return Operand(names, True, base, -offset if sign == "-" else offset)
