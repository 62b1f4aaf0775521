"""Ways in turns: each is checked before it is timed, and all ranks take them in one order.

Example: `in_turns(ways, rounds, seed)` runs sequence, stores, chunks, then another order of the three: on
every rank the same orders, as each way waits for the other ranks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

TOLERANCE: Mapping[str, float] = {"fp16": 4e-3, "bf16": 2e-2}  # of the largest output; bf16 has 8 bits


@dataclass(frozen=True)
class PeerContender:
    """A way to compute a case on this rank: `error()` runs it over poison, `timed()` is ns of one call.

    Both are collective: all ranks call them in one order.
    """

    error: Callable[[], float]
    timed: Callable[[], float]


@dataclass(frozen=True)
class MeasuredWay:
    """What came of a way: its error, why it was not timed ("" if it was), nanoseconds per round."""

    error: float
    failure: str
    ns: tuple[int, ...]


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
            error, "" if name in times else "wrong results: not timed", tuple(times.get(name, ()))
        )
        for name, error in errors.items()
    }
