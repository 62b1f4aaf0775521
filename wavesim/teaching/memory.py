"""Notebook 5: a half-fenced litmus test, a protocol of one's own, and a row's value."""

from collections.abc import Collection, Sequence
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.teaching.exercises import WrongAnswer, number, require, several
from wavesim.teaching.litmus import Litmus, Operation, guide_test, load, post, store, wait

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
