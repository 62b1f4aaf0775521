"""Whether a situation can hang, whether for certain, and what the answer rests on.

Example: 80 schedulers and 128 workers on two streams can hang, if the schedulers are placed first; behind an
event that all workers have started they cannot, wherever a block is issued where there is room.

"cuda", "seen" and "idle" are the bases of `docs/safety.md`, strongest first. Without a basis it can hang.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wavesim.safety.hang.autopsy import Autopsy
from wavesim.safety.hang.bound import StuckBound, TooManyKernelsError
from wavesim.safety.hang.certain import hopeless
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.stuck import ORDERLY, PROMISED, ROOMY, Stuck, StuckSearch, TooManyStatesError
from wavesim.safety.verdict import Assumption, Basis
from wavesim.sim.streams.stream_order import LEGACY, StreamOperation

MOST_TRIED = 4  # operations of a situation for which changes are tried
MOST_SAID = 3  # changes
MOST_SEARCHED = 7  # operations of which all states are tried: 4 to their power


@dataclass(frozen=True)
class HangVerdict:
    """`can_hang` is None where that is not known. `is_certain`: whatever the device does.

    `stuck` is the state in which nothing moves, None where there is none. `hangs_as_seen`: also where blocks
    are issued oldest launch first, and a higher priority before; None where that is not known.
    `needed_sms`: how many SMs of each part other work has to leave alone. `remedies` were each found to make
    it safe. `autopsy` is what counters say.
    """

    facts: SituationFacts
    can_hang: bool | None
    is_certain: bool = False
    stuck: Stuck | None = None
    basis: Basis | None = None
    hangs_as_seen: bool | None = None
    unknown: Sequence[str] = ()
    needed_sms: int = 1
    remedies: Sequence[str] = ()
    autopsy: Autopsy | None = None


def verdict_after(autopsy: Autopsy) -> HangVerdict:
    """The verdict on a process whose counters were seen: whether somebody waits for what was not posted."""
    stuck = autopsy.stuck
    return HangVerdict(autopsy.facts, stuck is not None, stuck=stuck, autopsy=autopsy)


def judge(situation: Situation, *, with_remedies: bool = True) -> HangVerdict:
    """The verdict on a situation. Never says that one cannot hang that can, as far as its waits are known."""
    known = replace(situation, waits=[wait for wait in situation.waits if not wait.is_unknown])
    facts = SituationFacts(known)
    unknown = _unknown(situation)
    certain = hopeless(facts)
    if certain is not None:
        remedies = remedies_of(known) if with_remedies else ()
        return HangVerdict(facts, True, True, certain, hangs_as_seen=True, unknown=unknown, remedies=remedies)
    if not facts.unmet:
        return HangVerdict(
            facts, None if unknown else False, basis=None if unknown else "cuda", unknown=unknown
        )
    try:
        return _judged(facts, unknown, with_remedies=with_remedies)
    except TooManyKernelsError:
        many = "too many different kernels wait at once to look at all ways in which they can stand together"
        return HangVerdict(facts, None, unknown=(*unknown, many))


def _judged(facts: SituationFacts, unknown: Sequence[str], *, with_remedies: bool) -> HangVerdict:
    stuck = _stuck(facts, ROOMY)
    if stuck is not None:
        as_seen = _hangs_as_seen(facts)
        remedies = remedies_of(facts.situation) if with_remedies else ()
        return HangVerdict(
            facts, True, stuck=stuck, hangs_as_seen=as_seen, unknown=unknown, remedies=remedies
        )
    if unknown:
        return HangVerdict(facts, None, unknown=unknown)
    if _stuck(facts, PROMISED) is None:
        return HangVerdict(facts, False, basis="cuda", hangs_as_seen=False)
    needed = _needed_sms(facts.situation) if with_remedies else 1
    return HangVerdict(facts, False, basis="idle", hangs_as_seen=False, needed_sms=needed)


def _unknown(situation: Situation) -> tuple[str, ...]:
    names = dict.fromkeys(wait.waiter for wait in situation.waits if wait.is_unknown)
    texts = [f"{name} waits for something that is not described" for name in names]
    if not situation.has_all_waits:
        texts.append("not all waits are described")
    return tuple(texts)


def _stuck(facts: SituationFacts, trusted: frozenset[Assumption]) -> Stuck | None:
    if len(facts.operations) <= MOST_SEARCHED:
        with contextlib.suppress(TooManyStatesError):
            return next(StuckSearch(facts, trusted).stuck(), None)
    return next(StuckBound(facts, trusted).stuck(), None)


def _hangs_as_seen(facts: SituationFacts) -> bool | None:
    """Whether the order of issue that was seen leads to it; None of so many operations that nobody knows."""
    if len(facts.operations) <= MOST_SEARCHED:
        with contextlib.suppress(TooManyStatesError):
            return next(StuckSearch(facts, ORDERLY).stuck(), None) is not None
    return None


def _is_safe(situation: Situation) -> bool:
    facts = SituationFacts(situation)
    return hopeless(facts) is None and (not facts.unmet or _stuck(facts, ROOMY) is None)


def _needed_sms(situation: Situation) -> int:
    """The fewest SMs of each part on which it is still safe; all where that is not looked at."""
    most = max(part.sm_count for part in situation.devices)
    if len(situation.operations) > MOST_TRIED:
        return most
    least = 1
    while least < most:
        middle = (least + most) // 2
        parts = [
            replace(part, held_sms=part.device.sm_count - min(middle, part.sm_count))
            for part in situation.devices
        ]
        if _is_safe(replace(situation, devices=parts)):
            most = middle
        else:
            least = middle + 1
    return most


# --- what would make it safe: changes that a person could make, each tried and judged again ---


def remedies_of(situation: Situation) -> tuple[str, ...]:
    """Changes that were each found to make it safe, in words."""
    if len(situation.operations) > MOST_TRIED:
        return ()
    changes = (
        *_of_carveouts(situation),
        *_of_streams(situation),
        *_of_launches(situation),
        *_of_order(situation),
    )
    return tuple(words for words, changed in changes if _is_safe(changed))[:MOST_SAID]


def _of_carveouts(situation: Situation) -> Iterator[tuple[str, Situation]]:
    names = [
        operation.name
        for operation in situation.operations
        if operation.is_kernel and operation.carveout != "full"
    ]
    if names:
        full = [replace(operation, carveout="full") for operation in situation.operations]
        words = (
            f"ask for the largest shared-memory carve-out for {' and '.join(names)}, so that blocks share SMs"
        )
        yield words, replace(situation, operations=full)


def _of_streams(situation: Situation) -> Iterator[tuple[str, Situation]]:
    if any(operation.stream == LEGACY for operation in situation.operations):
        free = [
            operation if operation.stream == LEGACY else replace(operation, is_blocking=False)
            for operation in situation.operations
        ]
        words = "make the streams beside the legacy default stream non-blocking (cudaStreamNonBlocking)"
        yield words, replace(situation, operations=free)
    for number, operation in enumerate(situation.operations):
        is_shared = any(
            (each.process, each.device, each.stream)
            == (operation.process, operation.device, operation.stream)
            for each in situation.operations[:number]
        )
        if is_shared:
            changed = [*situation.operations]
            changed[number] = replace(
                operation, stream=f"{operation.stream} of {operation.name}", is_blocking=False
            )
            words = f"launch {operation.name} on a stream of its own, so that it stands behind nothing"
            yield words, replace(situation, operations=changed)


def _of_launches(situation: Situation) -> Iterator[tuple[str, Situation]]:
    for number, operation in enumerate(situation.operations):
        if operation.is_kernel and not operation.is_cooperative:
            changed = [*situation.operations]
            changed[number] = replace(operation, is_cooperative=True)
            words = f"launch {operation.name} cooperatively, so that all its blocks start together"
            yield words, replace(situation, operations=changed)


def _of_order(situation: Situation) -> Iterator[tuple[str, Situation]]:
    named = {operation.name: operation for operation in situation.operations}
    for wait in situation.waits:
        operation, other = named[wait.waiter], named.get(wait.producer)
        if other is None or other is operation or not (operation.is_kernel and other.is_kernel):
            continue
        place, where = (operation.process, operation.device), (other.process, other.device)
        if place != where or operation.stream == other.stream or LEGACY in (operation.stream, other.stream):
            continue
        others = [each for each in situation.operations if each is not operation]
        if _is_tied(operation, others):
            continue
        moved = replace(operation, after_start=(other.name,))
        at = others.index(other) + 1
        words = (
            f"launch {operation.name} once all blocks of {other.name} have started: they raise a counter, "
            "and the launch waits for it"
        )
        yield words, replace(situation, operations=[*others[:at], moved, *others[at:]])


def _is_tied(operation: StreamOperation, others: Sequence[StreamOperation]) -> bool:
    return any((operation.after, operation.host_after, operation.after_start)) or any(
        operation.name in (*each.after, *each.host_after, *each.after_start) for each in others
    )
