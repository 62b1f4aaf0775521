"""outcomes(): every outcome that the PTX memory model allows of a litmus test, by trying all candidate
executions.

Example: of message passing without ordering the consumer's register is 0 or 42; with a release and an acquire
it is 42.

A candidate says which write every read reads from. Values follow from that; guards and waits must fit them;
the axioms (`ptx_model.py`) must hold in some coherence order. A wait is its last look: earlier ones change
nothing that is allowed, as they need not be there. Runs in which a wait is never satisfied have no outcome.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

from wavesim.errors import DescriptionError
from wavesim.litmus.events import Relation, Skeleton, closure, has_loop, relation_of, union
from wavesim.litmus.program import LitmusTest, ValueTest
from wavesim.litmus.ptx_model import FIRST, PtxModel, ReadsFrom
from wavesim.litmus.skeleton_builder import skeletons

MAX_CANDIDATES = 1_000_000
Outcome = tuple[tuple[str, int], ...]
"""(register or variable, value), sorted by name."""


def outcomes(test: LitmusTest) -> set[Outcome]:
    """Every allowed outcome: the registers of all loads that were done, and the test's final variables.

    Raises `DescriptionError` for a test with more than `MAX_CANDIDATES` ways to read.
    """
    allowed: set[Outcome] = set()
    for skeleton in skeletons(test):
        for outcome in _Search(test, skeleton).outcomes(lambda outcome: outcome not in allowed):
            allowed.add(outcome)
    return allowed


def find_outcome(test: LitmusTest, wanted: Callable[[Outcome], bool]) -> Outcome | None:
    """An allowed outcome of which `wanted` holds, or None; faster than to list all of them."""
    return next((each for s in skeletons(test) for each in _Search(test, s).outcomes(wanted)), None)


_COMPUTED: dict[str, Callable[..., int]] = {
    "add": lambda before, by: before + by,
    "sub": lambda before, by: before - by,
    "exch": lambda _, by: by,
    "cas": lambda before, compared, by: by if before == compared else before,
    "copy": lambda before: before,
}


class _Search:
    """All candidates of one skeleton."""

    def __init__(self, test: LitmusTest, skeleton: Skeleton) -> None:
        self._test, self._skeleton = test, skeleton
        self._model = PtxModel(test, skeleton)
        self._depends = relation_of(skeleton.depends, len(skeleton.events))
        self._partner = dict(skeleton.atomics)
        self._tests = self._tests_by_read()
        reads = [i for i, event in enumerate(skeleton.events) if event.kind == "read"]
        self._reads = sorted(reads, key=lambda read: (read not in self._tests, read not in self._partner))
        self._decisive = sum(read in self._tests or read in self._partner for read in reads)

    def outcomes(self, wanted: Callable[[Outcome], bool]) -> Iterator[Outcome]:
        """Allowed outcomes that are wanted when they are found, some of them more than once."""
        # Where a guard's register is not loaded, what it guards is not done.
        if any(is_true and name not in self._loads for name, _, is_true in self._skeleton.guards):
            return
        for tried, source in enumerate(self._candidates(0, {})):
            if tried == MAX_CANDIDATES:
                raise DescriptionError(
                    f"litmus test: more than {MAX_CANDIDATES} ways to read; leave out what orders nothing"
                )
            values = self._values(source)
            if values is None or not any(map(wanted, self._possible_outcomes(values))):
                continue
            if self._is_out_of_thin_air(source):
                continue
            for order in self._model.coherence_orders(source):
                yield from sorted(filter(wanted, self._possible_outcomes(values, order)))
                if not self._test.final:
                    break

    def _candidates(self, at: int, source: dict[int, int]) -> Iterator[ReadsFrom]:
        if at == len(self._reads):
            yield source
            return
        read = self._reads[at]
        for write in self._possible(read, source):
            source[read] = write
            # Tested reads and atomics come first; what is read after them seldom changes what they have read.
            if self._decisive <= at < len(self._reads) - 1 or self._passes(source):
                yield from self._candidates(at + 1, source)
            del source[read]

    def _possible(self, read: int, source: ReadsFrom) -> Iterator[int]:
        program = self._skeleton.program
        for write in [FIRST, *self._model.writes.get(self._model.memory_of(read), [])]:
            is_own = write != FIRST and (program[read] >> write & 1 or write == self._partner.get(read))
            if not is_own and not self._is_taken(read, write, source):
                yield write

    def _is_taken(self, read: int, write: int, source: ReadsFrom) -> bool:
        """Whether another atomic has read from this write, one that this one can't share it with (8.10.3)."""
        if read not in self._partner:
            return False
        strong = self._skeleton.whole
        own = self._partner[read]
        return any(
            from_write == write
            and other in self._partner
            and strong[own] >> self._partner[other] & 1
            and (write == FIRST or (strong[write] >> own & 1 and strong[write] >> self._partner[other] & 1))
            for other, from_write in source.items()
        )

    def _is_out_of_thin_air(self, source: ReadsFrom) -> bool:
        size = len(self._skeleton.events)
        reads_from = relation_of(((w, r) for r, w in source.items() if w != FIRST), size)
        return has_loop(closure(union(reads_from, self._depends)))

    def _values(self, source: ReadsFrom) -> dict[int, int] | None:
        values: dict[int, int] = {}
        for index, event in enumerate(self._skeleton.events):
            if event.is_memory and self._value(index, source, values, set()) is None:
                return None
        return values

    def _passes(self, source: ReadsFrom) -> bool:
        known: dict[int, int] = {}
        for read, tests in self._tests.items():
            if read in source:
                value = self._value(read, source, known, set())
                if value is not None and not all(test.holds(value) == is_true for test, is_true in tests):
                    return False
        return True

    def _tests_by_read(self) -> dict[int, list[tuple[ValueTest, bool]]]:
        tests: dict[int, list[tuple[ValueTest, bool]]] = {}
        for index, event in enumerate(self._skeleton.events):
            if event.awaited:
                tests.setdefault(index, []).append((event.awaited, True))
        for name, test, is_true in self._skeleton.guards:
            if name in self._loads:
                tests.setdefault(self._loads[name], []).append((test, is_true))
        return tests

    def _value(
        self, index: int, source: ReadsFrom, values: dict[int, int], under_way: set[int]
    ) -> int | None:
        """What an access reads or writes; None where that is not known yet, or only from itself."""
        if index in values:
            return values[index]
        if index in under_way:
            return None
        event = self._skeleton.events[index]
        if event.kind == "write":
            value = self._written(event.value, source, values, under_way | {index})
        elif index not in source:
            value = None
        elif source[index] == FIRST:
            value = self._test.first_value(event.variable)
        else:
            value = self._value(source[index], source, values, under_way | {index})
        if value is not None:
            values[index] = value
        return value

    def _written(
        self, value: tuple[str | int, ...], source: ReadsFrom, values: dict[int, int], under_way: set[int]
    ) -> int | None:
        def operand(of: str | int) -> int | None:
            text = str(of)
            if text.lstrip("-").isdigit():
                return int(text)
            return self._value(self._loads[text], source, values, under_way) if text in self._loads else None

        if len(value) == 1:
            return operand(value[0])
        operation, read, *operands = value
        assert isinstance(read, int)
        before = self._value(read, source, values, under_way)
        numbers = [operand(each) for each in operands]
        if before is None or None in numbers:
            return None
        return _COMPUTED[str(operation)](before, *numbers)

    @cached_property
    def _loads(self) -> dict[str, int]:
        return {e.register: i for i, e in enumerate(self._skeleton.events) if e.register}

    def _possible_outcomes(self, values: dict[int, int], order: Relation | None = None) -> set[Outcome]:
        """The outcome, or several where unordered writes race to be a final variable's last."""
        partial = [{name: values[index] for name, index in self._loads.items()}]
        for variable in self._test.final:
            writes = self._model.writes.get(self._test.memory_of(variable), [])
            last = {values[w] for w in writes if order is None or not order[w]}
            last = last or {self._test.first_value(variable)}
            partial = [{**known, variable: value} for known in partial for value in last]
        return {tuple(sorted(known.items())) for known in partial}
