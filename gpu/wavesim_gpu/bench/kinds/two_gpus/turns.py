"""Ways in turns: each is checked before it is timed, and all ranks take them in one order.

Example: `in_turns(ways, rounds, seed)` runs sequence, stores, chunks, then another order of the three: on
every rank the same orders, as each way waits for the other ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

TRIED_ROUNDS = 3  # of a variant, before one of them is compared
TOLERANCE: Mapping[str, float] = {"fp16": 4e-3, "bf16": 2e-2}  # of the largest output; bf16 has 8 bits


@dataclass(frozen=True)
class PeerContender:
    """A way to compute a case on this rank: `error()` runs it over poison, `timed()` is ns of one call.

    Both are collective: all ranks call them in one order. `words` says how, where there was a choice.
    """

    error: Callable[[], float]
    timed: Callable[[], float]
    words: str = ""


@dataclass(frozen=True)
class MeasuredWay:
    """What came of a way: its error, why it was not timed ("" if it was), nanoseconds per round."""

    error: float
    failure: str
    ns: tuple[int, ...]
    words: str = ""


def fastest(variants: Sequence[PeerContender], dtype: str, agreed: Callable[[float], float]) -> PeerContender:
    """Of those that are right the one with the least median of a few rounds; the first where none is."""
    if len(variants) == 1:
        return variants[0]
    right = [entry for entry in variants if agreed(entry.error()) <= TOLERANCE[dtype]]
    return min(right, key=lambda entry: _tried(entry, agreed), default=variants[0])


def _tried(variant: PeerContender, agreed: Callable[[float], float]) -> float:
    return median(agreed(variant.timed()) for _ in range(TRIED_ROUNDS))


def in_turns(
    ways: Mapping[str, PeerContender],
    rounds: int,
    dtype: str,
    agreed: Callable[[float], float],
    seed: int = 0,
) -> dict[str, MeasuredWay]:
    """Errors and times of all ways. `agreed` takes a rank's number to the largest of all ranks, NaN as it is.

    A way that is wrong on any rank is timed on none.
    """
    errors = {name: agreed(way.error()) for name, way in ways.items()}
    right = [name for name, error in errors.items() if error <= TOLERANCE[dtype]]
    times: dict[str, list[int]] = {name: [] for name in right}
    order = Random(seed)  # noqa: S311  # an order, no secret
    for _ in range(rounds):
        for name in order.sample(right, len(right)):
            times[name].append(round(agreed(ways[name].timed())))
    return {
        name: MeasuredWay(
            error,
            "" if name in times else "wrong results: not timed",
            tuple(times.get(name, ())),
            ways[name].words,
        )
        for name, error in errors.items()
    }
