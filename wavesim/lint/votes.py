"""Barriers that hand a vote on: who gave up waiting votes no, and the block leaves.

Example: after `bar.red.and.pred %p2, 0, %p1; @!%p2 bra END`, a path on which %p1 was made of a constant 0 can
only go to END, whatever loads stand behind the branch.

Source: PTX ISA 9.0, section 9.7.13.1 (barrier.red).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from wavesim.lint.code import Code
from wavesim.lint.instruction import Instruction, Op

_AND = re.compile(r"\bbar(rier)?\.(cta\.)?red\.(\w+\.)*and\b|\bBAR\.RED\.AND\b")
_RESULT = re.compile(r"\bB2R\.RESULT\b")
_EQUALITY = re.compile(r"setp\.(eq|ne)\.[sub]\d+$")
_TRUTHS = {("0x80", "0x0"): True, ("0x80", "0x8"): True, ("0x8", "0x0"): False, ("0x8", "0x80"): False}
_MOST_DEPTH = 6  # moves and comparisons between a constant and the vote, or the vote and the branch


class Votes(NamedTuple):
    """Instructions by index, each with the barrier that it belongs to.

    `answers` put a thread's answer into a register, with whether that is no; `cast` read it there; `branches`
    are decided by the result, with where they go on only if all voted yes.
    """

    answers: Mapping[int, tuple[int, bool]]
    cast: Mapping[int, int]
    branches: Mapping[int, tuple[int, int]]


class Voted(NamedTuple):
    """A path's votes: the barriers that it will say no at, and has said no at; where it can't go on."""

    no: int = -1
    refused: int = -1
    barred: int = -1

    def after(self, votes: Votes, i: int) -> "Voted":
        """The same after one more instruction."""
        if i not in votes.answers and i not in votes.cast and i not in votes.branches:
            return self if self.barred < 0 else self._replace(barred=-1)
        voted = self._replace(barred=-1)
        if i in votes.answers:
            barrier, is_no = votes.answers[i]
            voted = voted._replace(no=barrier if is_no else -1)
        if i in votes.cast:
            voted = voted._replace(refused=self.no if self.no == votes.cast[i] else -1)
        if i in votes.branches and votes.branches[i][0] == self.refused:
            voted = voted._replace(barred=votes.branches[i][1])
        return voted


def votes_of(code: Code) -> Votes:
    """The kernel's votes whose answers are constants on each path that leads to the barrier."""
    answers: dict[int, tuple[int, bool]] = {}
    cast: dict[int, int] = {}
    branches: dict[int, tuple[int, int]] = {}
    barriers = [i for i in code.having(Op.BARRIER) if _AND.search(code[i].text) and code[i].uses]
    for barrier in barriers:
        read_at, values = _answers(code, barrier)
        cast[read_at] = barrier
        answers |= {i: (barrier, not value) for i, value in values.items()}
        result = _result(code, barrier)
        for branch in code.having(Op.BRANCH, Op.EXIT, Op.RETURN):
            way = _way_on_yes(code, branch, result)
            if way is not None:
                branches[branch] = (barrier, way)
    return Votes(answers, cast, branches)


def _answers(code: Code, barrier: int) -> tuple[int, dict[int, bool]]:
    """Where the answer is read, and the instructions that made it; what is not constant may be a yes."""
    register, at = code[barrier].uses[-1], barrier
    made_by = code.flow.definitions(register, at)
    is_equal = False
    if len(made_by) == 1 and (made := code[min(made_by)]).op is Op.COMPARE:
        if not (match := _EQUALITY.match(made.text.split()[0])) or made.value != 0 or len(made.uses) != 1:
            return barrier, {}
        is_equal, register, at = match[1] == "eq", made.uses[0], min(made_by)
        made_by = code.flow.definitions(register, at)
    values = {i: _constant(code, i) for i in made_by}
    return at, {i: value is None or bool(value) != is_equal for i, value in values.items()}


def _constant(code: Code, at: int, depth: int = 0) -> int | None:
    instruction = code[at] if at >= 0 else None
    if instruction is None or instruction.guard or depth == _MOST_DEPTH:
        return None
    if instruction.text.startswith("PLOP3.LUT") and not instruction.uses:
        tables = instruction.text.replace(" ", "").split(",")[-2:]
        return _TRUTHS.get((tables[0], tables[1]))
    if instruction.op is not Op.MOVE or len(instruction.uses) > 1:
        return None
    if not instruction.uses:
        return instruction.value
    values = {_constant(code, i, depth + 1) for i in code.flow.definitions(instruction.uses[0], at)}
    return values.pop() if len(values) == 1 else None


def _result(code: Code, barrier: int) -> int:
    """The instruction that defines the vote's result: the barrier; in machine code the B2R after it."""
    following = range(barrier + 1, min(barrier + 4, len(code.instructions)))
    return next((i for i in following if _RESULT.search(code[i].text)), barrier)


def _way_on_yes(code: Code, branch: int, result: int) -> int | None:
    """Where a branch goes on only where all voted yes; None where another value decides it."""
    guard = code[branch].guard
    taken_on_no = _on_no(code, guard.lstrip("!"), branch, result)
    if not guard or taken_on_no is None:
        return None
    is_taken = taken_on_no != guard.startswith("!")
    ways = [way for way in code.flow.successors(branch) if (way == branch + 1) == is_taken]
    return ways[0] if len(ways) == 1 else None


def _on_no(code: Code, register: str, at: int, result: int, depth: int = 0) -> bool | None:
    made_by = code.flow.definitions(register, at)
    if made_by == {result}:
        return False
    if len(made_by) != 1 or min(made_by) < 0 or depth == _MOST_DEPTH:
        return None
    place = min(made_by)
    instruction = code[place]
    if len(instruction.uses) != 1 or instruction.guard:
        return None
    before = _on_no(code, instruction.uses[0], place, result, depth + 1)
    return None if before is None else _derived(instruction, before)


def _derived(instruction: Instruction, before: bool) -> bool | None:
    opcode, _, operands = instruction.text.partition(" ")
    if opcode.startswith("selp."):
        _, yes, no, _ = (word.strip() for word in operands.split(","))
        return {("1", "0"): before, ("0", "1"): not before}.get((yes, no))
    if (match := _EQUALITY.match(opcode)) and instruction.value == 0:
        return before == (match[1] == "ne")
    return None
