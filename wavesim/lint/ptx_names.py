"""What a name in a PTX function stands for: a register, a parameter, a variable, a label; by its scope.

Example: two blocks of inline assembly declare `.reg .pred p` each. The first one's is "p@1", the second's
"p@2", and a register of the whole function keeps its name.

Source: PTX ISA 9.0, section 4.4 (identifiers) and 5.4 (variables); a block in braces is a scope.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
    found: dict[str, tuple[Meant, str]] = field(default_factory=dict)

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
        if word not in self.found:
            self.found[word] = self._look_up(word, parameters)
        return self.found[word]

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
