"""PTX text as statements: heads of functions, braces, labels, directives, instructions, each with its line.

Example: `@%p1 bra $L__BB0_2; // loop` on line 7 is PtxStatement("instruction", "@%p1 bra $L__BB0_2", 7).

Source: PTX ISA 9.0, chapter 4 (syntax). Directives that end with their line and those that end with a
semicolon can't be told apart without knowing them; an unknown one ends with whichever comes first.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["head", "open", "close", "label", "directive", "instruction"]

# A pragma may stand between a function's head and its body, with a semicolon of its own.
_BLANK = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\n]*"|\.pragma\b[^;]*;|@@DWARF[^\n]*', re.DOTALL)
_SPACE = re.compile(r"[\s;]*")
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_DIRECTIVE = re.compile(r"\.[\w$]*")
_HEAD = re.compile(r"(?:\.(?:visible|extern|weak|common|attribute\s*\([^)]*\))\s*)*\.(?:entry|func)\b")
_OF_A_LINE = frozenset((".loc", ".file", ".version", ".target", ".address_size"))
_VARIABLES = (
    ".reg",
    ".shared",
    ".global",
    ".const",
    ".local",
    ".param",
    ".tex",
    ".visible",
    ".extern",
    ".weak",
)
_LISTS = (
    ".common",
    ".branchtargets",
    ".calltargets",
    ".callprototype",
    ".alias",
    ".attribute",
    ".samplerref",
)


class PtxStatement(NamedTuple):
    """One statement and the line that it begins on, from 1. A head is all before a function's "{" or ";"."""

    kind: Kind
    text: str
    line: int


def statements(text: str) -> Iterator[PtxStatement]:
    """All in their order, without comments and debug sections; one that is cut off at the end is dropped."""
    text = _BLANK.sub(_blanked, text)
    at, line, counted = 0, 1, 0
    while True:
        at = _space(text, at)
        if at >= len(text):
            return
        line, counted = line + text.count("\n", counted, at), at
        kind, end, resume = _statement(text, at)
        if end < 0:
            return
        if kind:
            yield PtxStatement(kind, text[at:end], line)
        at = resume


def _blanked(found: re.Match[str]) -> str:
    """Comments without all but their line ends; strings stay, as .file needs them."""
    word = found[0]
    return word if word[0] == '"' else "\n" * word.count("\n") or " "


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _statement(text: str, at: int) -> tuple[Kind | None, int, int]:
    """Kind, end and where to go on; a kind of None is skipped, an end of -1 is cut off."""
    first = text[at]
    if first in "{}":
        return ("open" if first == "{" else "close"), at + 1, at + 1
    if first == ".":
        return _directive(text, at)
    if label := _LABEL.match(text, at):
        return "label", label.end(1), label.end()
    end = text.find(";", at)
    return "instruction", end, end + 1


def _directive(text: str, at: int) -> tuple[Kind | None, int, int]:
    if head := _HEAD.match(text, at):
        return _head(text, head.end())
    found = _DIRECTIVE.match(text, at)
    word = found[0] if found else ""
    if word == ".section":
        end = text.find("}", at)
        return None, end, end + 1
    line_end = text.find("\n", at)
    line_end = len(text) if line_end < 0 else line_end
    if word in _OF_A_LINE:
        return "directive", line_end, line_end
    semicolon = text.find(";", at)
    if word in (*_VARIABLES, *_LISTS):
        return "directive", semicolon, semicolon + 1
    end = line_end if semicolon < 0 else min(semicolon, line_end)
    return None, end, end


def _head(text: str, after: int) -> tuple[Kind | None, int, int]:
    body, declaration = text.find("{", after), text.find(";", after)
    if body < 0 or 0 <= declaration < body:
        return None, declaration, declaration + 1
    return "head", body, body
