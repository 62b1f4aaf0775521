"""Litmus tests: every outcome of a few threads that share memory, with and without fences.

Example: one thread stores 10 to X and 20 to Y, another loads Y and then X. Interleaving alone gives three
outcomes; when each thread's accesses may also be performed out of order there is a fourth, Y new and
X old; a fence between the two accesses of *both* threads forbids it again, one of a single thread does not.

The machine: a thread may perform a later access before an earlier one unless they touch the same variable, a
fence lies between, the earlier is an acquire or the later a release. An access that is performed is seen by
all threads at once. That is enough for the tests here, and weaker machines exist: PTX lets two observers
disagree on the order of independent stores, and has scopes and proxies. `wavesim.litmus` follows that model;
docs/memory-model.md says where the two differ. Source: CUDA C++ Programming Guide, Memory Fence Functions;
PTX ISA, Memory Consistency Model.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import typed
from wavesim.teaching.exercises import WrongAnswer, number, require, several

Kind = Literal["store", "load", "fence", "post", "wait"]
Outcome = tuple[tuple[str, int], ...]  # (register, value), in the order of the program
MAX_OPERATIONS = 12
MAX_LISTED = 8


@dataclass(frozen=True)
class Operation:
    """One access of one thread. `register` names what a load leaves; `is_ordered`: release or acquire."""

    kind: Kind
    variable: str = ""
    value: int = 0
    register: str = ""
    is_ordered: bool = False

    def __str__(self) -> str:
        return {
            "store": f"{self.variable} = {self.value}",
            "load": f"{self.register} = {self.variable}",
            "fence": "__threadfence()",
            "post": f"post({self.variable}, {'release' if self.is_ordered else 'relaxed'})",
            "wait": f"wait({self.variable} ≥ {self.value}, {'acquire' if self.is_ordered else 'relaxed'})",
        }[self.kind]


@typed
def store(variable: str, value: int) -> Operation:
    """Writes a value."""
    return Operation("store", variable, value)


@typed
def load(register: str, variable: str) -> Operation:
    """Reads a variable into a register."""
    return Operation("load", variable, register=register)


def fence() -> Operation:
    """`__threadfence()`: nothing of this thread is performed across it."""
    return Operation("fence")


@typed
def post(semaphore: str, *, release: bool) -> Operation:
    """An atomic add of 1; as a release it is performed after all that comes before it."""
    return Operation("post", semaphore, is_ordered=release)


@typed
def wait(semaphore: str, value: int, *, acquire: bool) -> Operation:
    """Spins until the semaphore holds the value; as an acquire it is performed before all that follows."""
    return Operation("wait", semaphore, value, is_ordered=acquire)


@typed
def may_pass(earlier: Operation, later: Operation) -> bool:
    """Whether a thread may perform `later` before `earlier`, which stands before it in the program."""
    if "fence" in (earlier.kind, later.kind) or earlier.variable == later.variable:
        return False
    is_acquire = earlier.kind == "wait" and earlier.is_ordered
    is_release = later.kind == "post" and later.is_ordered
    return not (is_acquire or is_release)


@dataclass(frozen=True)
class Litmus:
    """Threads by name, each a sequence of operations, and the variables' first values.

    Raises `DescriptionError` for more than `MAX_OPERATIONS`, and for registers of one name.
    """

    threads: Mapping[str, Sequence[Operation]]
    memory: Mapping[str, int]

    def __post_init__(self) -> None:
        count = sum(len(operations) for operations in self.threads.values())
        if count > MAX_OPERATIONS:
            raise DescriptionError(
                f"Litmus: {count} operations; every order of at most {MAX_OPERATIONS} is tried"
            )
        if len(set(self.registers)) < len(self.registers):
            raise DescriptionError(f"Litmus: registers are {self.registers}; give every load its own")
        for operations in self.threads.values():
            for operation in operations:
                if operation.kind != "fence" and operation.variable not in self.memory:
                    raise DescriptionError(
                        f"Litmus: {operation} names a variable that is not in {list(self.memory)}"
                    )

    @property
    def registers(self) -> tuple[str, ...]:
        """What the loads leave, sorted by name."""
        loads = (op.register for operations in self.threads.values() for op in operations)
        return tuple(sorted(name for name in loads if name))

    def outcomes(self, *, reorder: bool = True) -> dict[Outcome, tuple[str, ...]]:
        """Every possible outcome, sorted, with one order of performing the accesses that leads to it.

        Without `reorder` each thread performs its accesses as written: interleavings only. Such an order is
        also what an outcome is shown with if it has one. Runs in which a wait is never satisfied have none.
        """
        found = self.outcomes(reorder=False) if reorder else {}
        start = _State({name: frozenset() for name in self.threads}, dict(self.memory), {}, ())
        pending, seen = [start], {start.key}
        while pending:
            state = pending.pop()
            steps = list(self._steps(state, reorder=reorder))
            if not steps and self._is_finished(state):
                found.setdefault(tuple(sorted(state.registers.items())), state.history)
            for step in steps:
                if step.key not in seen:
                    seen.add(step.key)
                    pending.append(step)
        return dict(sorted(found.items()))

    def orders(self, *, reorder: bool = True) -> dict[Outcome, list[tuple[str, ...]]]:
        """Every order of performing the accesses, by the outcome it leads to; fences are no accesses.

        Raises `DescriptionError` for more than `MAX_LISTED` operations: too many orders to list.
        """
        count = sum(len(operations) for operations in self.threads.values())
        if count > MAX_LISTED:
            raise DescriptionError(f"Litmus: {count} operations; orders are listed of at most {MAX_LISTED}")
        found: dict[Outcome, dict[tuple[str, ...], None]] = {}
        pending = [_State({name: frozenset() for name in self.threads}, dict(self.memory), {}, ())]
        while pending:
            state = pending.pop()
            steps = list(self._steps(state, reorder=reorder))
            if not steps and self._is_finished(state):
                accesses = tuple(step for step in state.history if not step.endswith(str(fence())))
                found.setdefault(tuple(sorted(state.registers.items())), {})[accesses] = None
            pending.extend(reversed(steps))
        return {outcome: list(listed) for outcome, listed in sorted(found.items())}

    def _is_finished(self, state: "_State") -> bool:
        return all(len(done) == len(self.threads[name]) for name, done in state.done.items())

    def _steps(self, state: "_State", *, reorder: bool) -> Iterator["_State"]:
        for name, operations in self.threads.items():
            done = state.done[name]
            for index, operation in enumerate(operations):
                before = [operations[i] for i in range(index) if i not in done]
                is_next = all(may_pass(earlier, operation) for earlier in before) if reorder else not before
                if index not in done and is_next and state.allows(operation):
                    yield state.after(name, index, operation)


@dataclass(frozen=True)
class _State:
    """How far every thread is, what memory and registers hold, and how that came about."""

    done: Mapping[str, frozenset[int]]
    memory: Mapping[str, int]
    registers: Mapping[str, int]
    history: tuple[str, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for states with the same future."""
        return tuple(tuple(sorted(part.items())) for part in (self.memory, self.registers)) + tuple(
            tuple(sorted(done)) for done in self.done.values()
        )

    def allows(self, operation: Operation) -> bool:
        return operation.kind != "wait" or self.memory[operation.variable] >= operation.value

    def after(self, thread: str, index: int, operation: Operation) -> "_State":
        memory, registers = dict(self.memory), dict(self.registers)
        if operation.kind == "store":
            memory[operation.variable] = operation.value
        elif operation.kind == "post":
            memory[operation.variable] += 1
        elif operation.kind == "load":
            registers[operation.register] = memory[operation.variable]
        done = {**self.done, thread: self.done[thread] | {index}}
        return _State(done, memory, registers, (*self.history, f"{thread}: {operation}"))


@typed
def guide_test(*, writer_fence: bool = False, reader_fence: bool = False) -> Litmus:
    """The CUDA guide's example: X = 1, Y = 2; one thread writes 10 and 20, one reads Y into B, X into A."""
    between = {True: [fence()], False: []}
    writer = [store("X", 10), *between[writer_fence], store("Y", 20)]
    reader = [load("B", "Y"), *between[reader_fence], load("A", "X")]
    return Litmus({"writer": writer, "reader": reader}, {"X": 1, "Y": 2})


@typed
def semaphore_test(*, release: bool = False, acquire: bool = False) -> Litmus:
    """A tile and its semaphore: the producer stores 42 and posts; the consumer waits and reads the tile."""
    producer = [store("tile", 42), post("semaphore", release=release)]
    consumer = [wait("semaphore", 1, acquire=acquire), load("read", "tile")]
    return Litmus({"producer": producer, "consumer": consumer}, {"tile": 0, "semaphore": 0})


STALE = (("read", 0),)
PRODUCER = (store("tile", 42), post("semaphore", release=False))
CONSUMER = (wait("semaphore", 1, acquire=False), load("read", "tile"))
FENCES = 2


def _grade_one_fence(answer: Any) -> str:
    """All outcomes (A, B) of the guide's test with a fence in the writer only."""
    given = _pairs(answer)
    found = {tuple(value for _, value in o) for o in guide_test(writer_fence=True).outcomes()}
    extra, missing = given - found, found - given
    swapped = {(a, b) for b, a in extra} & found
    require(not swapped, f"{sorted(extra)}: A, which is read from X, comes first, and B, from Y, second.")
    require(not extra, f"{sorted(extra)} cannot happen: nobody stores such values there.")
    require(
        not missing,
        f"{len(missing)} outcome is missing. The writer is in order now; may the reader load X before Y?"
        if len(missing) == 1
        else f"{len(missing)} outcomes are missing; start with the interleavings.",
    )
    return "All four: one fence orders one thread. The reader may still load X early."


def _pairs(answer: Any) -> set[tuple[float, float]]:
    asked = "give a set of pairs (A, B), such as {(1, 2), (10, 20)}."
    require(isinstance(answer, Collection) and not isinstance(answer, str), asked)
    for pair in answer:
        require(isinstance(pair, tuple | list) and len(pair) == 2, asked)
    return {(number(a, "A"), number(b, "B")) for a, b in answer}


def _grade_protocol(answer: Any) -> str:
    """Two lists of operations, a producer's and a consumer's, that can only read 42."""
    producer, consumer = several(answer, 2, "the producer's operations and the consumer's")
    test = _protocol(producer, consumer)
    outcomes = test.outcomes()
    require(bool(outcomes), "this never ends: the consumer waits for a value that nobody posts.")
    require(test.registers == ("read",), 'the consumer must load the tile into "read", once.')
    if STALE in outcomes:
        raise WrongAnswer(f"it can read 0: {' → '.join(outcomes[STALE])}.")
    require(set(outcomes) == {(("read", 42),)}, f"outcomes are {list(outcomes)}; only read = 42 is right.")
    for name, given, wanted in (("producer", producer, PRODUCER), ("consumer", consumer, CONSUMER)):
        kept = tuple(step for step in given if step.kind != "fence")
        broken = "; ".join(map(str, wanted))
        require(kept == wanted, f"the {name} must still do what it did, and only get fences: {broken}.")
    fences = len(producer) + len(consumer) - len(PRODUCER) - len(CONSUMER)
    require(fences == FENCES, f"right, with {fences} fences; {FENCES} are enough. Which order nothing?")
    return "One outcome is left, read = 42, whatever is reordered."


def _protocol(producer: Sequence[Operation], consumer: Sequence[Operation]) -> Litmus:
    for operation in (*producer, *consumer):
        require(
            isinstance(operation, Operation),
            f"{operation!r} is no operation: store, load, fence, post, wait.",
        )
        require(not operation.is_ordered, f"{operation}: relaxed ones only; order them with fences.")
    try:
        return Litmus({"producer": producer, "consumer": consumer}, {"tile": 0, "semaphore": 0})
    except DescriptionError as error:
        raise WrongAnswer(str(error)) from None


def _row_value(value: int) -> dict[str, Any]:
    """Two producers of a row post one semaphore; the consumer waits for `value` and reads both tiles."""
    producers = {name: [store(name, 42), post("row_ready", release=True)] for name in ("left", "right")}
    consumer = [wait("row_ready", value, acquire=True), load("a", "left"), load("b", "right")]
    test = Litmus({**producers, "consumer": consumer}, {"left": 0, "right": 0, "row_ready": 0})
    outcomes = test.outcomes()
    stale = next((outcome for outcome in outcomes if dict(outcome) != {"a": 42, "b": 42}), None)
    how = "" if stale is None else " → ".join(outcomes[stale])
    return {"ends": bool(outcomes), "is_fresh": stale is None, "stale": stale, "how": how}


GRADERS = {"5.1": _row_value, "5.2": _grade_one_fence, "5.3": _grade_protocol}
