"""Whether a situation can hang, whether for certain, and what the answer rests on.

Example: 80 schedulers and 128 workers on two streams can hang, if the schedulers are placed first; behind an
event that all workers have started they cannot, wherever a block is issued where there is room.

"cuda", "seen" and "idle" are the bases of `docs/safety.md`, strongest first. Without a basis it can hang.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from wavesim.safety.hang.autopsy import Autopsy
from wavesim.safety.hang.bound import StuckBound, TooManyKernelsError
from wavesim.safety.hang.certain import hopeless
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.situation import BlockWait, Situation
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
        *_of_loading(situation),
        *_of_carveouts(situation),
        *_of_streams(situation),
        *_of_launches(situation),
        *_of_order(situation),
        *_of_one_order(situation),
        *_of_sizes(situation),
        *_of_waits(situation),
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
    return _comes_after_others(operation) or any(
        operation.name in (*each.after, *each.host_after, *each.after_start) for each in others
    )


def _of_loading(situation: Situation) -> Iterator[tuple[str, Situation]]:
    lazy = [operation.name for operation in situation.operations if operation.is_lazy]
    if lazy:
        loaded = [replace(operation, is_lazy=False) for operation in situation.operations]
        words = (
            f"load {' and '.join(lazy)} before anything waits: CUDA_MODULE_LOADING=EAGER, or a first launch"
        )
        yield words, replace(situation, operations=loaded)
    for number, operation in enumerate(situation.operations):
        if operation.host_after:
            changed = [*situation.operations]
            changed[number] = replace(operation, host_after=())
            words = f"launch {operation.name} before the host waits for {' and '.join(operation.host_after)}"
            yield words, replace(situation, operations=changed)


def _of_sizes(situation: Situation) -> Iterator[tuple[str, Situation]]:
    """A grid of no more blocks than fit at once, as a persistent kernel has: the largest that is safe."""
    pools = SituationFacts(situation).pools
    for number, operation in enumerate(situation.operations):
        if not operation.is_kernel or _is_counted(situation, operation):
            continue
        most = pools.capacity(number)
        left = [most - pools.size(other) for other in range(len(pools.of)) if other != number]
        for share in sorted({most, most // 2, *left}, reverse=True):
            blocks = share // operation.cluster * operation.cluster
            changed = [*situation.operations]
            changed[number] = replace(operation, blocks=blocks)
            if 0 < blocks < operation.blocks and _is_safe(replace(situation, operations=changed)):
                words = f"launch at most {blocks:,} blocks of {operation.name}, which take several tiles each"
                yield words, replace(situation, operations=changed)
                break


def _of_one_order(situation: Situation) -> Iterator[tuple[str, Situation]]:
    """On several GPUs: one stream each, in an order in which nobody waits for who comes later."""
    operations = situation.operations
    if len({operation.device for operation in operations}) < 2:
        return
    for order in permutations(range(len(operations))):
        one_stream = [replace(operations[i], stream="one", is_blocking=False) for i in order]
        changed = replace(situation, operations=one_stream)
        if not any(map(_comes_after_others, one_stream)) and _is_safe(changed):
            names = ", ".join(operation.name for operation in one_stream)
            yield f"launch on one stream of each GPU, everywhere in one order: {names}", changed
            return


def _comes_after_others(operation: StreamOperation) -> bool:
    return any((operation.after, operation.host_after, operation.after_start))


def _is_counted(situation: Situation, operation: StreamOperation) -> bool:
    """Whether somebody counts its blocks, so that fewer would not do."""
    posted = any(post.producer == operation.name for each in situation.semaphores for post in each.posts)
    return posted or any(wait.producer == operation.name and wait.blocks != "all" for wait in situation.waits)


def _of_waits(situation: Situation) -> Iterator[tuple[str, Situation]]:
    """A wait less, or for the start instead of the end; posts that were forgotten."""
    for number, wait in enumerate(situation.waits):
        others = [*situation.waits[:number], *situation.waits[number + 1 :]]
        if wait.semaphore:
            yield from _of_posts(situation, wait)
            continue
        if wait.until == "end":
            sooner = [*others[:number], replace(wait, until="start"), *others[number:]]
            words = (
                f"let {wait.waiter} wait until {wait.producer} has started or posted, not until it has ended"
            )
            yield words, replace(situation, waits=sooner)
        yield f"leave out {wait.waiter}'s wait for {wait.producer}", replace(situation, waits=others)


def _of_posts(situation: Situation, wait: BlockWait) -> Iterator[tuple[str, Situation]]:
    for number, semaphore in enumerate(situation.semaphores):
        if semaphore.name != wait.semaphore:
            continue
        others = [*situation.semaphores[:number], *situation.semaphores[number + 1 :]]
        early = replace(semaphore, posts=[replace(post, until="start") for post in semaphore.posts])
        if early != semaphore:
            words = f"post {semaphore.name} before its producers wait, not at their end"
            yield words, replace(situation, semaphores=[*others, early])
        whole = replace(semaphore, initial=wait.value)
        words = f"post {semaphore.name} {wait.value:,} times, as often as {wait.waiter} waits for"
        yield words, replace(situation, semaphores=[*others, whole])
