"""The operands of a PTX instruction, and the scopes in which their names are declared.

Example: `{%r1, %r2}, [%rd3+16]` is an Operand of two registers and an Operand with address ("%rd3", 16).
In `{ .reg .b32 t; ... }` each block in braces has a `t` of its own.

Source: PTX ISA 9.0, chapter 5 (state spaces, declarations) and 6 (instruction operands).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

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
    match = _INTEGER.match(word)
    if not match:
        return None
    sign = -1 if match[1] else 1
    if match[2] or match[3]:
        return sign * int(match[2] or match[3], 16 if match[2] else 2)
    is_octal = len(match[4]) > 1 and match[4][0] == "0" and not set(match[4]) & set("89")
    return sign * int(match[4], 8 if is_octal else 10)


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for match in _PIECES.finditer(text):
        if match[0] == ",":
            if not depth:
                yield text[start : match.start()].strip()
                start = match.end()
        else:
            depth += 1 if match[0] in "[{(" else -1
    yield text[start:].strip()


def _operand(text: str) -> Operand:
    names = tuple(_WORD.findall(text))
    if text[0] != "[" or not (match := _ADDRESS.match(text, 1)):
        return Operand(names, text[0] == "[")
    base, sign, distance = match.groups()
    offset = (integer(distance) or 0) if distance else 0
    if (absolute := integer(base)) is not None:
        return Operand(names, True, "", absolute)
    return Operand(names, True, base, -offset if sign == "-" else offset)


Meant = Literal["register", "symbol"]

_DECLARED = re.compile(r"([\w$%]+)\s*(?:<\s*(\d+)\s*>)?")
_NUMBERED = re.compile(r"(.*?)\d+$", re.DOTALL)
# Types, alignments and qualifiers go before the names that a directive declares.
_QUALIFIERS = re.compile(r"\s*(?:\.align\s+\d+|\.attribute\s*\([^)]*\)|\.[\w:$]+)")


@dataclass
class NameScope:
    """The names that one block in braces declares. `ranges` are the prefixes of such as `%r<100>`."""

    number: int
    parent: "NameScope | None" = None
    registers: set[str] = field(default_factory=set)
    ranges: set[str] = field(default_factory=set)
    symbols: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    meanings: dict[str, tuple[Meant, str]] = field(default_factory=dict)

    def declare(self, directive: str) -> None:
        """Takes the names of one .reg, .param, .shared, .global, .local or .const directive."""
        rest = directive
        while qualifier := _QUALIFIERS.match(rest):
            rest = rest[qualifier.end() :]
        names = rest.partition("=")[0].split(",")
        is_register = directive.startswith(".reg")
        for name in names:
            if not (declared := _DECLARED.match(name.strip())):
                continue
            if declared[2]:
                self.ranges.add(declared[1])
            (self.registers if is_register else self.symbols).add(declared[1])

    def name(self, word: str) -> str:
        """The word, told apart from the same word of another scope; as it is in the outermost one."""
        return word if self.parent is None else f"{word}@{self.number}"

    def resolved(self, word: str, parameters: Mapping[str, str]) -> tuple[Meant, str]:
        """What a word of an operand means here, and its name; `parameters`: {"k_param_0": "param 0"}."""
        if word not in self.meanings:
            self.meanings[word] = self._look_up(word, parameters)
        return self.meanings[word]

    def _look_up(self, word: str, parameters: Mapping[str, str]) -> tuple[Meant, str]:
        numbered = _NUMBERED.match(word)
        if word in self.registers or (numbered and numbered[1] in self.ranges):
            return "register", self.name(word)
        if word in self.symbols:
            return "symbol", self.name(word)
        if self.parent is not None:
            return self.parent.resolved(word, parameters)
        if word[0] == "%":  # special registers are declared nowhere
            return "register", word
        return "symbol", parameters.get(word, word)

    def label(self, word: str) -> str:
        """The name of the label that a branch here goes to."""
        scope: NameScope | None = self
        while scope is not None:
            if word in scope.labels:
                return scope.name(word)
            scope = scope.parent
        return word
