"""What the control and data flow of a kernel say: what precedes what, in which thread, from which parameter.

Example: in `flow = Flow(kernel)`, `flow.path_without(wait, load, is_fence)` is None where every path from the
wait to the load passes a fence, and otherwise such a path, to be shown.

Instructions are named by their index in `kernel.instructions`; `len(kernel.instructions)` is the end.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from wavesim.lint.addresses import AddressRoots
from wavesim.lint.blocks import ControlFlow
from wavesim.lint.control import CodeLoop, Control, loops_of
from wavesim.lint.data_flow import DataFlow, Values
from wavesim.lint.instruction import Instruction, KernelCode, Op
from wavesim.lint.one_thread import OneThread
from wavesim.lint.paths import Effort

__all__ = ["CodeLoop", "Fact", "Flow", "Predicates", "ThreadTest"]


@dataclass(frozen=True)
class ThreadTest:
    """A branch that some of the block's threads take: one of all, a warp's lane, some warps, or others."""

    kind: Literal["thread", "lane", "warp", "some"]
    key: frozenset[int] = frozenset()  # the instructions that make the predicate


class Flow:
    """All questions about one kernel; each answer is worked out when it is first asked for.

    Any may raise `RecordingError`: a kernel that branches too much to be followed (see `effort`).
    """

    def __init__(self, kernel: KernelCode) -> None:
        self.kernel = kernel
        self._control_flow = flow = ControlFlow(kernel, Effort(f"kernel {kernel.name}"))
        self._data = DataFlow(flow)
        self._values = Values(self._data)
        self._addresses = AddressRoots(self._data, self._values, kernel)
        self._control = Control(flow)
        self._one_thread = OneThread(self._data, self._control, kernel.threads)
        # Branches that can't be followed: whatever is asked about their surroundings is unknown.
        self.unknown_branches = tuple(flow.unknown)
        self.is_reachable = flow.is_reachable
        self.successors = flow.successors
        self.predecessors = flow.predecessors
        self.dominates = flow.dominates
        self.post_dominates = flow.post_dominates
        self.can_follow = flow.can_follow
        self.definitions = self._data.definitions
        self.readers = self._data.readers
        self.slice_of = self._data.slice_of
        self.roots = self._addresses.roots
        self.same_address = self._addresses.are_same
        self.value_of_address = self._values.of_address
        self.value_of = self._values.of
        self.is_beside = self._addresses.are_beside
        self.shared_stores = self._addresses.shared_stores
        self.guards = self._control.guards
        self.is_one_thread = self._one_thread.holds
        self.thread_number = self._one_thread.number

    @cached_property
    def loops(self) -> tuple[CodeLoop, ...]:
        """All loops, outer ones before inner ones."""
        return loops_of(self._control_flow)

    @cached_property
    def _innermost(self) -> dict[int, CodeLoop]:
        return {at: loop for loop in self.loops for at in loop.body}

    def loop_of(self, at: int) -> CodeLoop | None:
        """The innermost loop that `at` is in."""
        return self._innermost.get(at)

    def path_without(
        self, first: int, second: int, stops: Callable[[Instruction], bool]
    ) -> tuple[int, ...] | None:
        """A shortest path from after `one` (-1: the entry) to `other`, on which nothing satisfies `stops`.

        `other` itself is the path's last instruction and is not asked; None where there is no such path.
        """
        flow = self._control_flow
        came: dict[int, int] = {}
        starts = flow.successors(first) if first >= 0 else (0,)
        work = [(start, first) for start in starts]
        for at, before in work:  # grows while it is gone through
            if at in came:
                continue
            came[at] = before
            if at == second:
                flow.effort.spend(len(came))
                return _way(came, first, second)
            if at < flow.end and not stops(flow.instructions[at]):
                work += [(following, at) for following in flow.successors(at)]
        flow.effort.spend(len(came))
        return None


def _way(came: dict[int, int], first: int, second: int) -> tuple[int, ...]:
    path = [second]
    while came[path[-1]] != first:
        path.append(came[path[-1]])
    return tuple(reversed(path))


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
    if (match := _LOGIC.match(made.text)) and (match[1] == "and") == value:
        return [match[2], match[3]]
    if (match := _CHAINED.search(made.text)) and (match[1] == "AND") == value:
        return [match[2]]
    return []
