"""outcomes(): every outcome that the PTX memory model allows of a litmus test, by trying all candidate
executions.

Example: of message passing without ordering the consumer's register is 0 or 42; with a release and an acquire
it is 42.

A candidate says which write every read reads from. Values follow from that; guards and waits must fit them;
the axioms (`ptx_model.py`) must hold in some coherence order. A wait is its last look: earlier ones change
nothing that is allowed, as they need not be there. Runs in which a wait is never satisfied have no outcome.
"""

from collections.abc import Iterator
from functools import cached_property

from wavesim.litmus.events import Skeleton, skeletons
from wavesim.litmus.program import LitmusTest
from wavesim.litmus.ptx_model import FIRST, PtxModel, ReadsFrom
from wavesim.litmus.relation import Relation, closure, has_loop, relation_of, union

Outcome = tuple[tuple[str, int], ...]
"""(register or variable, value), sorted by name."""


def outcomes(test: LitmusTest) -> set[Outcome]:
    """Every allowed outcome: the registers of all loads that were done, and the test's final variables."""
    found: set[Outcome] = set()
    for skeleton in skeletons(test):
        _Search(test, skeleton, found).run()
    return found


class _Search:
    """All candidates of one skeleton. What is in `found` already is not shown to be allowed a second time."""

    def __init__(self, test: LitmusTest, skeleton: Skeleton, found: set[Outcome]) -> None:
        self._test, self._skeleton, self._found = test, skeleton, found
        self._model = PtxModel(test, skeleton)
        self._depends = relation_of(skeleton.depends, len(skeleton.events))
        self._reads = [i for i, event in enumerate(skeleton.events) if event.kind == "read"]
        self._partner = dict(skeleton.atomics)

    def run(self) -> None:
        for source in self._candidates(0, {}):
            values = self._values(source)
            if values is None or not self._fits(values):
                continue
            registers = {name: values[index] for name, index in self._loads.items()}
            if self._test.final:
                for order in self._model.coherence_orders(source):
                    self._found.update(self._with_memory(registers, values, order))
            else:
                self._try(tuple(sorted(registers.items())), source)

    def _try(self, outcome: Outcome, source: ReadsFrom) -> None:
        if outcome not in self._found and next(self._model.coherence_orders(source), None) is not None:
            self._found.add(outcome)

    def _candidates(self, at: int, source: dict[int, int]) -> Iterator[ReadsFrom]:
        if at == len(self._reads):
            yield source
            return
        read = self._reads[at]
        for write in self._possible(read, source):
            source[read] = write
            yield from self._candidates(at + 1, source)
            del source[read]

    def _possible(self, read: int, source: ReadsFrom) -> Iterator[int]:
        """Writes that nothing known beforehand forbids this read to read from."""
        event, program = self._skeleton.events[read], self._skeleton.program
        for write in [FIRST, *self._model.writes.get(self._model.memory_of(read), [])]:
            if write != FIRST and (program[read] >> write & 1 or write == self._partner.get(read)):
                continue
            constant = self._constant(read, write)
            if event.awaited and constant is not None and not event.awaited.holds(constant):
                continue
            if not self._is_taken(read, write, source):
                yield write

    def _constant(self, read: int, write: int) -> int | None:
        if write == FIRST:
            return self._test.first_value(self._skeleton.events[read].variable)
        value = self._skeleton.events[write].value
        is_number = len(value) == 1 and isinstance(value[0], str) and value[0].lstrip("-").isdigit()
        return int(value[0]) if is_number else None

    def _is_taken(self, read: int, write: int, source: ReadsFrom) -> bool:
        """Whether another atomic has read from this write, one that this one can't share it with (8.10.3)."""
        if read not in self._partner:
            return False
        strong = self._skeleton.morally_strong
        own = self._partner[read]
        return any(
            from_write == write
            and other in self._partner
            and strong[own] >> self._partner[other] & 1
            and (write == FIRST or (strong[write] >> own & 1 and strong[write] >> self._partner[other] & 1))
            for other, from_write in source.items()
        )

    def _values(self, source: ReadsFrom) -> dict[int, int] | None:
        """What every read and write has, or None where a value would come out of thin air (8.10.4)."""
        size = len(self._skeleton.events)
        reads_from = relation_of(((w, r) for r, w in source.items() if w != FIRST), size)
        if has_loop(closure(union(reads_from, self._depends))):
            return None
        values: dict[int, int] = {}
        for index, event in enumerate(self._skeleton.events):
            if event.is_memory:
                self._value(index, source, values)
        return values

    def _value(self, index: int, source: ReadsFrom, values: dict[int, int]) -> int:
        if index not in values:
            event = self._skeleton.events[index]
            if event.kind == "write":
                values[index] = self._written(index, source, values)
            elif source[index] == FIRST:
                values[index] = self._test.first_value(event.variable)
            else:
                values[index] = self._value(source[index], source, values)
        return values[index]

    def _written(self, index: int, source: ReadsFrom, values: dict[int, int]) -> int:
        value = self._skeleton.events[index].value
        if len(value) == 1:
            return self._operand(value[0], source, values)
        operation, read, *operands = value
        assert isinstance(read, int)
        before = self._value(read, source, values)
        numbers = [self._operand(operand, source, values) for operand in operands]
        if operation == "add":
            return before + numbers[0]
        if operation == "exch":
            return numbers[0]
        if operation == "sub":
            return before - numbers[0]
        if operation == "cas":
            return numbers[1] if before == numbers[0] else before
        return before  # a copy

    def _operand(self, operand: str | int, source: ReadsFrom, values: dict[int, int]) -> int:
        text = str(operand)
        if text.lstrip("-").isdigit():
            return int(text)
        return self._value(self._loads[text], source, values)

    @cached_property
    def _loads(self) -> dict[str, int]:
        return {e.register: i for i, e in enumerate(self._skeleton.events) if e.register}

    def _fits(self, values: dict[int, int]) -> bool:
        """Whether waits got what they wait for, and guards chose this skeleton."""
        for index in self._reads:
            awaited = self._skeleton.events[index].awaited
            if awaited and not awaited.holds(values[index]):
                return False
        # Where a guard's register was not loaded, what it guards is not done.
        return all(
            (name in self._loads and compared.holds(values[self._loads[name]])) == is_true
            for name, compared, is_true in self._skeleton.guards
        )

    def _with_memory(
        self, registers: dict[str, int], values: dict[int, int], order: Relation
    ) -> Iterator[Outcome]:
        """One outcome for every choice of last writes; unordered writes race to be last."""
        partial = [dict(registers)]
        for variable in self._test.final:
            writes = self._model.writes.get(self._test.memory_of(variable), [])
            last = {values[w] for w in writes if not order[w]} or {self._test.first_value(variable)}
            partial = [{**known, variable: value} for known in partial for value in last]
        for known in partial:
            yield tuple(sorted(known.items()))
