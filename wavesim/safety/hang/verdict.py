"""Whether a situation can hang, whether for certain, and what the answer rests on.

Example: 80 schedulers and 128 workers on two streams can hang, if the schedulers are placed first; behind an
event that all workers have started they cannot, wherever a block is issued where there is room.

"cuda", "seen" and "idle" are the bases of `docs/safety.md`, strongest first. Without a basis it can hang.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wavesim.safety.hang.autopsy import Autopsy
from wavesim.safety.hang.bound import StuckBound, TooManyKernelsError
from wavesim.safety.hang.certain import hopeless
from wavesim.safety.hang.ground import Ground
from wavesim.safety.hang.remedies import MOST_TRIED, remedies_of
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.stuck import Stuck, StuckSearch, TooManyStatesError, Trust
from wavesim.safety.verdict import Basis

MOST_SEARCHED = 7  # operations of which all states are tried: 4 to their power


@dataclass(frozen=True)
class HangVerdict:
    """`can_hang` is None where that is not known. `is_certain`: whatever the device does.

    `stuck` is the state in which nothing moves, None where there is none. `hangs_as_seen`: also where blocks
    are issued oldest launch first, and a higher priority before; None where that is not known.
    `needed_sms`: how many SMs of each part other work has to leave alone. `remedies` were each found to make
    it safe. `autopsy` is what counters say.
    """

    ground: Ground
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
    return HangVerdict(autopsy.ground, stuck is not None, stuck=stuck, autopsy=autopsy)


def judge(situation: Situation, *, with_remedies: bool = True) -> HangVerdict:
    """The verdict on a situation. Never says that one cannot hang that can, as far as its waits are known."""
    known = replace(situation, waits=[wait for wait in situation.waits if not wait.is_unknown])
    ground = Ground(known)
    unknown = _unknown(situation)
    certain = hopeless(ground)
    if certain is not None:
        remedies = remedies_of(known, _is_safe) if with_remedies else ()
        return HangVerdict(
            ground, True, True, certain, hangs_as_seen=True, unknown=unknown, remedies=remedies
        )
    if not ground.unmet:
        return HangVerdict(
            ground, None if unknown else False, basis=None if unknown else "cuda", unknown=unknown
        )
    try:
        return _judged(ground, unknown, with_remedies=with_remedies)
    except TooManyKernelsError:
        many = "too many different kernels wait at once to look at all ways in which they can stand together"
        return HangVerdict(ground, None, unknown=(*unknown, many))


def _judged(ground: Ground, unknown: Sequence[str], *, with_remedies: bool) -> HangVerdict:
    found = _stuck(ground, "room")
    if found is not None:
        as_seen = _hangs_as_seen(ground)
        remedies = remedies_of(ground.situation, _is_safe) if with_remedies else ()
        return HangVerdict(
            ground, True, stuck=found, hangs_as_seen=as_seen, unknown=unknown, remedies=remedies
        )
    if unknown:
        return HangVerdict(ground, None, unknown=unknown)
    if _stuck(ground, "cuda") is None:
        return HangVerdict(ground, False, basis="cuda", hangs_as_seen=False)
    needed = _needed_sms(ground.situation) if with_remedies else 1
    return HangVerdict(ground, False, basis="idle", hangs_as_seen=False, needed_sms=needed)


def _unknown(situation: Situation) -> tuple[str, ...]:
    names = dict.fromkeys(wait.waiter for wait in situation.waits if wait.is_unknown)
    found = [f"{name} waits for something that is not described" for name in names]
    if not situation.has_all_waits:
        found.append("not all waits are described")
    return tuple(found)


def _stuck(ground: Ground, trust: Trust) -> Stuck | None:
    """A state that nothing leaves. Raises `TooManyKernelsError`."""
    if len(ground.operations) <= MOST_SEARCHED:
        with contextlib.suppress(TooManyStatesError):
            return next(StuckSearch(ground, trust).stuck(), None)
    return next(StuckBound(ground, trust).stuck(), None)


def _hangs_as_seen(ground: Ground) -> bool | None:
    """Whether the order of issue that was seen leads to it; None of so many operations that nobody knows."""
    if len(ground.operations) <= MOST_SEARCHED:
        with contextlib.suppress(TooManyStatesError):
            return next(StuckSearch(ground, "order").stuck(), None) is not None
    return None


def _is_safe(situation: Situation) -> bool:
    ground = Ground(situation)
    return hopeless(ground) is None and (not ground.unmet or _stuck(ground, "room") is None)


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
