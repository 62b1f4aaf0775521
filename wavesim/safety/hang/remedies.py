"""What would make a situation safe: changes that a person could make, each tried and judged again.

Example: of two persistent kernels on two streams the second is launched once the first one's blocks have all
started; or both ask for the largest carve-out, so that their blocks share SMs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from wavesim.safety.hang.situation import Situation
from wavesim.sim.streams.operation import LEGACY, StreamOperation

MOST_TRIED = 4  # operations of a situation for which changes are tried
MOST_SAID = 3
Judge = Callable[[Situation], bool]


def remedies_of(situation: Situation, is_safe: Judge) -> tuple[str, ...]:
    """Changes that were each found to make it safe, in words."""
    if len(situation.operations) > MOST_TRIED:
        return ()
    changes = (
        *_of_carveouts(situation),
        *_of_streams(situation),
        *_of_launches(situation),
        *_of_order(situation),
    )
    return tuple(words for words, changed in changes if is_safe(changed))[:MOST_SAID]


def _of_carveouts(situation: Situation) -> Iterator[tuple[str, Situation]]:
    names = [one.name for one in situation.operations if one.is_kernel and one.carveout != "full"]
    if names:
        full = [replace(one, carveout="full") for one in situation.operations]
        words = (
            f"ask for the largest shared-memory carve-out for {' and '.join(names)}, so that blocks share SMs"
        )
        yield words, replace(situation, operations=full)


def _of_streams(situation: Situation) -> Iterator[tuple[str, Situation]]:
    if any(one.stream == LEGACY for one in situation.operations):
        free = [
            one if one.stream == LEGACY else replace(one, is_blocking=False) for one in situation.operations
        ]
        words = "make the streams beside the legacy default stream non-blocking (cudaStreamNonBlocking)"
        yield words, replace(situation, operations=free)
    for number, one in enumerate(situation.operations):
        is_shared = any(
            (each.process, each.device, each.stream) == (one.process, one.device, one.stream)
            for each in situation.operations[:number]
        )
        if is_shared:
            changed = [*situation.operations]
            changed[number] = replace(one, stream=f"{one.stream} of {one.name}", is_blocking=False)
            words = f"launch {one.name} on a stream of its own, so that it stands behind nothing"
            yield words, replace(situation, operations=changed)


def _of_launches(situation: Situation) -> Iterator[tuple[str, Situation]]:
    for number, one in enumerate(situation.operations):
        if one.is_kernel and not one.is_cooperative:
            changed = [*situation.operations]
            changed[number] = replace(one, is_cooperative=True)
            words = f"launch {one.name} cooperatively, so that all its blocks start together"
            yield words, replace(situation, operations=changed)


def _of_order(situation: Situation) -> Iterator[tuple[str, Situation]]:
    """Each kernel behind the start of one that it waits for."""
    named = {one.name: one for one in situation.operations}
    for wait in situation.waits:
        one, other = named[wait.waiter], named.get(wait.producer)
        if other is None or other is one or not (one.is_kernel and other.is_kernel):
            continue
        place, where = (one.process, one.device), (other.process, other.device)
        if place != where or one.stream == other.stream or LEGACY in (one.stream, other.stream):
            continue
        others = [each for each in situation.operations if each is not one]
        if _is_tied(one, others):
            continue
        moved = replace(one, after_start=(other.name,))
        at = others.index(other) + 1
        words = (
            f"launch {one.name} once all blocks of {other.name} have started: they raise a counter, and the "
            "launch waits for it"
        )
        yield words, replace(situation, operations=[*others[:at], moved, *others[at:]])


def _is_tied(one: StreamOperation, others: Sequence[StreamOperation]) -> bool:
    """Whether events or the host hold it where it is."""
    return any((one.after, one.host_after, one.after_start)) or any(
        one.name in (*each.after, *each.host_after, *each.after_start) for each in others
    )
