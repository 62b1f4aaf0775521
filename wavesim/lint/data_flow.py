"""Which instructions a register's value comes from.

Example: after `mov %r1, 0; @%p mov %r1, 1` both may have set %r1: a predicated definition does not end the
one before it. For what reads it under the same predicate it does.
"""

from collections import defaultdict
from collections.abc import Iterable

from wavesim.lint.blocks import ControlFlow


class DataFlow:
    """Reaching definitions and backward slices, each worked out when it is first asked for."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow
        self.instructions = flow.instructions
        self.effort = flow.effort
        self._by_register: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for at, instruction in enumerate(flow.instructions):
            for register in instruction.defines:
                self._by_register[register].setdefault(flow.block_of[at], []).append(at)
        # Most registers of PTX are written once: whatever reads them afterwards reads that.
        self._only = {
            register: places[0]
            for register, by_block in self._by_register.items()
            if len(places := [place for block in by_block.values() for place in block]) == 1
        }
        self._found: dict[tuple[str, int], frozenset[int]] = {}
        self._at_start: dict[tuple[str, int], frozenset[int]] = {}

    def definitions(self, register: str, at: int) -> frozenset[int]:
        """The instructions whose value of `register` may be what `at` reads."""
        if register not in self._by_register:
            return frozenset()
        if (register, at) not in self._found:
            self._found[register, at] = self._before(register, at)
        return self._found[register, at]

    def _before(self, register: str, at: int) -> frozenset[int]:
        only = self._only.get(register, -1)
        if 0 <= only != at and self._flow.dominates(only, at):
            return frozenset((only,))
        places: set[int] = set()
        block = self._flow.block_of[at]
        if not self._within(register, block, at, places):
            places |= self._reaching(register, block)
        self._flow.effort.spend(len(places))
        return frozenset(places)

    def _within(self, register: str, block: int, before: int, places: set[int]) -> bool:
        """Adds the definitions of one block before an instruction; whether one of them is certain."""
        for definition in reversed(self._by_register[register].get(block, ())):
            if definition < before:
                places.add(definition)
                guard = self._flow.instructions[definition].guard
                if not guard or self._is_guarded_alike(definition, before, block):
                    return True
        return False

    def _is_guarded_alike(self, definition: int, reader: int, block: int) -> bool:
        """Whether what reads it in its block runs only where the definition did: by the same predicate."""
        guard = self._flow.instructions[definition].guard
        if reader == self._flow.end or self._flow.instructions[reader].guard != guard:
            return False
        changes = self._by_register.get(guard.lstrip("!"), {}).get(block, ())
        return not any(definition <= change < reader for change in changes)

    def _reaching(self, register: str, block: int) -> frozenset[int]:
        if (register, block) in self._at_start:
            return self._at_start[register, block]
        places: set[int] = set()
        seen: set[int] = set()
        work = list(self._flow.back[block])
        while work:
            before = work.pop()
            if before in seen:
                continue
            seen.add(before)
            self._flow.effort.spend(1)
            if not self._within(register, before, self._flow.end, places):
                work += self._flow.back[before]
        self._flow.effort.spend(len(places))
        self._at_start[register, block] = frozenset(places)
        return self._at_start[register, block]

    def slice_of(self, register: str, at: int) -> frozenset[int]:
        """The instructions that the value of `register` at `at` is computed from, through registers alone."""
        return self.closure(self.definitions(register, at))

    def closure(self, starts: Iterable[int]) -> frozenset[int]:
        """The instructions and all that their operands are computed from."""
        closed: set[int] = set()
        work = list(starts)
        while work:
            at = work.pop()
            if at in closed:
                continue
            closed.add(at)
            self._flow.effort.spend(1)
            for register in self._flow.instructions[at].uses:
                work += self.definitions(register, at)
        return frozenset(closed)
