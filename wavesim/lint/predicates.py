"""What a predicate's value says of others: a path on which they contradict each other is none.

Example: `or.pred %p3, %p1, %p2; @%p3 bra END; red ...` runs the reduction where neither %p1 nor %p2 holds, so
a path to it that took `@%p1 bra` before is impossible.
"""

import re
from collections.abc import Iterator

from wavesim.lint.flow import Flow
from wavesim.lint.instruction import Instruction, Op

Fact = tuple[object, bool]  # what makes a predicate, and its value

_MOST_DEPTH = 4  # of predicates made of predicates
_LOGIC = re.compile(r"(or|and)\.pred\s+\S+\s*,\s*(\S+)\s*,\s*(\S+)")
_CHAINED = re.compile(r"\.(OR|AND)\s.*,\s*(!?U?P\d+)\s*$")
_NOT_EQUAL = re.compile(r"\.(ne|NE)\b")
_EQUALITY = re.compile(r"\.(eq|ne|EQ|NE)\b")


class Predicates:
    """Answers about one kernel."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._instructions = flow.kernel.instructions

    def facts(self, predicate: str, at: int, value: bool, depth: int = 0) -> Iterator[tuple[Fact, str, int]]:
        """What follows from a predicate's value; each with its register and where that was read."""
        if predicate.startswith("!"):
            predicate, value = predicate[1:], not value
        made_by = self._flow.definitions(predicate, at)
        if not made_by:
            return
        made = self._made(made_by)
        key, sign = self._key(made, made_by)
        yield (key, value == sign), predicate, at
        if made is None or depth == _MOST_DEPTH:
            return
        place = next(iter(made_by))
        for operand in _operands(made, value):
            yield from self.facts(operand, place, value, depth + 1)

    def _made(self, made_by: frozenset[int]) -> Instruction | None:
        place = next(iter(made_by))
        return self._instructions[place] if len(made_by) == 1 and place >= 0 else None

    def _key(self, made: Instruction | None, made_by: frozenset[int]) -> tuple[object, bool]:
        """The same for two comparisons of the same values, and whether it is meant positively."""
        if made is None or made.op is not Op.COMPARE or made.guard or _CHAINED.search(made.text):
            return made_by, True
        place = next(iter(made_by))
        opcode, _, operands = made.text.partition(" ")
        values = tuple(sorted((used, self._flow.definitions(used, place)) for used in made.uses))
        key = (_EQUALITY.sub(".=", opcode), operands.split(",", 1)[-1], str(values))
        return key, not _NOT_EQUAL.search(opcode)


def _operands(made: Instruction, value: bool) -> list[str]:
    """The predicates that have the same value as the one that is made of them."""
    if (found := _LOGIC.match(made.text)) and (found[1] == "and") == value:
        return [found[2], found[3]]
    if (found := _CHAINED.search(made.text)) and (found[1] == "AND") == value:
        return [found[2]]
    return []
