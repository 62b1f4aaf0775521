"""How many blocks there is room for, and what limits them, in words: per kernel, and beside those who wait.

Example: a worker takes an SM's whole shared memory; an SM with one small scheduler has no room for it, since
its carve-out stays as small as the scheduler asked for while that is there.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.layout import PoolLayout
from wavesim.safety.hang.pools import SmGroup
from wavesim.safety.hang.situation import LAUNCH_NUMBER, DevicePart, Situation

MOST_LISTED = 40  # kernels
MOST_COMPANIES = 4  # different sets of blocks beside which a kernel's next has no room


def residency_lines(facts: SituationFacts, layouts: Sequence[PoolLayout]) -> Iterator[str]:
    """Per part of a GPU its SMs, per kernel what fits, and for each that lacks room what is lacking."""
    yield from map(_part_text, facts.situation.devices)
    launches: dict[tuple[str, str], int] = {}
    for number, one in enumerate(facts.operations):
        if one.is_kernel:
            key = LAUNCH_NUMBER.sub("", one.name), _kernel_text(facts, number)
            launches[key] = launches.get(key, 0) + 1
    for (name, text), count in islice(launches.items(), MOST_LISTED):
        yield f"{name}: {text}" if count == 1 else f"{name}, {count:,} launches: {text}"
    if len(launches) > MOST_LISTED:
        yield f"and {len(launches) - MOST_LISTED:,} kernels more"
    for layout in layouts:
        yield from islice(dict.fromkeys(_lacking_texts(facts, layout)), MOST_COMPANIES)


def _part_text(part: DevicePart) -> str:
    limits = f", {part.limited_by}" if part.limited_by else ""
    held = f"; {part.held_sms} held by other work" if part.held_sms else ""
    return f"{part.name}: {part.device.name}, {part.device.sm_count} SMs{limits}{held}"


def _kernel_text(facts: SituationFacts, number: int) -> str:
    one, pool = facts.operations[number], facts.pools.of[number]
    assert pool is not None
    cluster = f" in clusters of {one.cluster}" if one.cluster > 1 else ""
    return (
        f"{one.blocks:,} block{'s' * (one.blocks > 1)} of {one.block.threads} threads{cluster}, "
        f"{facts.pools.limiter(number)}: {facts.pools.capacity(number):,} at once on {pool.name}"
    )


def _lacking_texts(facts: SituationFacts, layout: PoolLayout) -> Iterator[str]:
    """Why the starved kernel's next block finds no room beside blocks of others."""
    head, device = layout.starved, layout.pool.device
    if head is None or device is None or facts.operations[head].is_cooperative:
        return
    for group in layout.groups:
        if all(number == head for number, _ in group.held):
            continue
        lack = facts.pools.lacking(device, group, head)
        if lack:
            name = facts.operations[head].name
            yield f"an SM with {_held_text(facts.situation, group)} has no room for {name}: {lack}"


def _held_text(situation: Situation, group: SmGroup) -> str:
    return " and ".join(
        f"{count} block{'s' * (count > 1)} of {situation.operations[number].name}"
        for number, count in group.held
    )
