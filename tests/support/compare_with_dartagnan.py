"""Compares the litmus enumerator with the verdicts that Dartagnan's own suite expects of PTX tests.

Example: `python tests/support/compare_with_dartagnan.py DIRECTORY`, where DIRECTORY is a checkout of the
Dat3M repository, prints how many of its tests were read, how many verdicts agree, and each that differs.
Tests with jumps, register arithmetic or barriers of a computed number are left out, and counted.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from wavesim.errors import DescriptionError  # noqa: E402
from wavesim.litmus import LitmusTest, LitmusThread, outcomes  # noqa: E402
from wavesim.litmus.program import ValueTest  # noqa: E402

EXPECTED = "dartagnan/src/test/resources/PTX{}-expected.csv"
LOADS = {"tld": "ld.texture", "suld": "ld.surface", "cold": "ld.constant", "sust": "st.surface"}
LOADS |= {"suatom": "atom.surface", "sured": "red.surface"}


class UnreadableError(Exception):
    """A test with something that the enumerator's tests do not have."""


class Reader:
    """One test of theirs as one of ours. `condition` is over registers `P0_r1` and variables."""

    def __init__(self, text: str) -> None:
        text = re.sub(r'"[^"]*"', "", text)
        match = re.search(r"\{(.*?)\}(.*?)(~exists|exists|forall)(.*)", text, re.DOTALL)
        if match is None:
            raise UnreadableError("no condition")
        memory, table, self.quantifier, condition = match.groups()
        if "filter" in condition or "filter" in table:
            raise UnreadableError("filter")
        self.names: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.memory: dict[str, int] = {}
        self.constants: dict[str, str] = {}
        self._read_memory(memory)
        self.test = self._read_threads(table, condition)
        self.condition = self._read_condition(condition)

    def _read_memory(self, text: str) -> None:
        for line in filter(None, (part.strip() for part in re.split(r"[;\n]", text))):
            alias = re.fullmatch(r"(\w+)\s*@\s*(\w+)\s+aliases\s+(\w+)", line)
            plain = re.fullmatch(r"(\w+)\s*=\s*(-?\d+)", line)
            register = re.fullmatch(r"(P\d+):(r\d+)\s*=\s*(-?\d+)", line)
            if alias and alias[2] == "generic":
                self.names[alias[1]] = alias[1]
                self.aliases[alias[1]] = self.aliases.get(self.names[alias[3]], self.names[alias[3]])
            elif alias:  # another proxy's view of the same address
                self.names[alias[1]] = self.names[alias[3]]
            elif plain:
                self.names[plain[1]] = plain[1]
                self.memory[plain[1]] = int(plain[2])
            elif not register:
                raise UnreadableError(line)

    def _read_threads(self, table: str, condition: str) -> LitmusTest:
        rows = [line.split("|") for line in (row.strip() for row in table.strip().split(";")) if line]
        threads = []
        for column, head in enumerate(rows[0]):
            name, cta, gpu = re.fullmatch(r"(P\d+)@cta (\d+),\s*gpu (\d+)", head.strip()).groups()
            code = [row[column].strip() for row in rows[1:] if column < len(row) and row[column].strip()]
            lines = [self._line(name, text) for text in code]
            threads.append(LitmusThread(name, f"gpu{gpu}.cta{cta}", tuple(filter(None, lines))))
        final = set(re.findall(r"\b[a-z]\w*\b", re.sub(r"\d+:\s*r\d+", "", condition))) & set(self.names)
        return LitmusTest(tuple(threads), self.memory, aliases=self.aliases, final=tuple(sorted(final)))

    def _line(self, thread: str, text: str) -> str:
        what, _, rest = text.partition(" ")
        if re.search(r"LC\d+|goto", text) or what.split(".")[0] in ("add", "sub", "mul", "div"):
            raise UnreadableError(text)
        head, *words = what.split(".")
        head = LOADS.get(head, head)
        if head == "bar":
            if not re.fullmatch(r"\d+", rest.strip()):
                raise UnreadableError(text)
            return f"bar.{words[-1]} {rest.strip()}"
        operands = [part.strip() for part in rest.split(",") if part.strip()]
        shown = [self._operand(thread, operand) for operand in operands]
        if head == "ld" and not words:  # a register of a known value
            self.constants[shown[0]] = shown[1]
            return ""
        if head in ("ld", "ld.texture", "ld.surface", "ld.constant") and not shown[1].startswith("["):
            raise UnreadableError(text)
        return f"{'.'.join([head, *words])} {', '.join(shown)}".strip()

    def _operand(self, thread: str, text: str) -> str:
        if re.fullmatch(r"r\d+", text):
            return self.constants.get(f"{thread}_{text}", f"{thread}_{text}")
        return f"[{self.names[text]}]" if text in self.names else text

    def _read_condition(self, text: str) -> list[str]:
        text = re.sub(r"\bP?(\d+):\s*(r\d+)", r"P\1_\2", text)
        return re.findall(r"\w+|/\\|\\/|~|==|!=|<=|>=|[<>=()]", text)

    def holds(self) -> bool:
        """Whether the test's statement is true, as Dartagnan's suite writes it down: true, or reached."""
        allowed = [self._satisfied(dict(outcome)) for outcome in outcomes(self.test)]
        if self.quantifier == "forall":
            return all(allowed)
        return any(allowed) == (self.quantifier == "exists")

    def _satisfied(self, values: dict[str, int]) -> bool:
        words = [*self.condition, ""]
        is_true = _any_of(words, values)
        assert words == [""], words
        return is_true


def _any_of(words: list[str], values: dict[str, int]) -> bool:
    """Takes a disjunction off the front of the words, and says whether it holds."""
    is_true = _all_of(words, values)
    while words[0] == "\\/":
        del words[0]
        is_true = _all_of(words, values) or is_true
    return is_true


def _all_of(words: list[str], values: dict[str, int]) -> bool:
    is_true = _one(words, values)
    while words[0] == "/\\":
        del words[0]
        is_true = _one(words, values) and is_true
    return is_true


def _one(words: list[str], values: dict[str, int]) -> bool:
    first = words.pop(0)
    if first == "~":
        return not _one(words, values)
    if first == "(":
        is_true = _any_of(words, values)
        assert words.pop(0) == ")"
        return is_true
    sign, last = words.pop(0), words.pop(0)
    left, right = (int(w) if w.isdigit() else values.get(w, 0) for w in (first, last))
    return ValueTest(sign, right).holds(left)


def main() -> int:
    """Prints the comparison; 1 where a verdict differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="a checkout of the Dat3M repository")
    parser.add_argument("--version", default="v7_5", help="whose verdicts: v6_0 or v7_5")
    arguments = parser.parse_args()
    rows = csv.reader((arguments.directory / EXPECTED.format(arguments.version)).read_text().splitlines())
    agreeing, differing, unread = 0, [], 0
    for name, expected in (row for row in rows if len(row) == 2):
        try:
            reader = Reader((arguments.directory / name).read_text(encoding="utf-8"))
        except (UnreadableError, DescriptionError, KeyError, IndexError):
            unread += 1
            continue
        if reader.holds() == (expected == "1"):
            agreeing += 1
        else:
            differing.append(f"{name}: they say {expected}")
    summary = f"{agreeing} agree, {len(differing)} differ, {unread} have jumps, arithmetic or other forms"
    sys.stdout.write("\n".join([summary, *differing, ""]))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
