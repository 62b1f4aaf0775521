"""Who holds which slot in a state that nothing leaves, and who finds no room: one way in which it comes.

Example: the schedulers' 80 blocks go one to an SM, as a GPU spreads them; then 68 of 128 workers find room.
Where spreading does not do it, the SMs are filled as the search found that they can be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.pools import Pool, SmGroup
from wavesim.safety.hang.situation import LAUNCH_NUMBER, DevicePart, Situation
from wavesim.safety.hang.stuck import Stuck


@dataclass(frozen=True)
class Holder:
    """Blocks of an operation that are there and wait: `blocks` of `size`, on `sms` SMs of their pool."""

    number: int
    pool: Pool | None
    blocks: int
    size: int
    sms: int


@dataclass(frozen=True)
class PoolLayout:
    """The SMs of a pool in groups that hold the same, and the operation whose next block finds no room."""

    pool: Pool
    groups: Sequence[SmGroup]
    starved: int | None = None

    def placed(self, number: int) -> int:
        """Blocks of an operation that are there."""
        return sum(dict(group.held).get(number, 0) * group.sms for group in self.groups)

    def sms_with(self, number: int) -> int:
        """SMs that hold some of it."""
        return sum(group.sms for group in self.groups if number in dict(group.held))


def layouts_of(facts: SituationFacts, stuck: Stuck) -> tuple[PoolLayout, ...]:
    """The pools in which blocks wait."""
    pools = dict.fromkeys(
        pool for number in (*stuck.resident, *stuck.heads.values()) if (pool := facts.pools.of[number])
    )
    return tuple(_layout(facts, stuck, pool) for pool in pools if pool.device is not None)


def holders_of(facts: SituationFacts, stuck: Stuck, layouts: Sequence[PoolLayout]) -> tuple[Holder, ...]:
    """Everyone who is there and waits, in the order of launch."""
    by_pool = {layout.pool: layout for layout in layouts}
    holders = []
    for number in sorted({*stuck.resident, *(n for n in stuck.heads.values())}):
        pool, size = facts.pools.of[number], facts.pools.size(number)
        layout = by_pool.get(pool) if pool is not None else None
        blocks = layout.placed(number) if layout else stuck.resident.get(number, 0)
        if blocks:
            holders.append(Holder(number, pool, blocks, size, layout.sms_with(number) if layout else 0))
    return tuple(holders)


def _layout(facts: SituationFacts, stuck: Stuck, pool: Pool) -> PoolLayout:
    head = stuck.heads.get(pool)
    others = [
        (number, count)
        for number, count in sorted(stuck.resident.items())
        if facts.pools.of[number] == pool and number != head
    ]
    # The smaller grids first: that is how few blocks come to hold many SMs.
    others.sort(key=lambda entry: entry[1])
    if head is None:
        return PoolLayout(pool, facts.pools.spread(pool, others)[0])
    size = facts.pools.size(head)
    own = [(head, size)] if head in stuck.resident or not others else []
    if facts.operations[head].is_cooperative:
        own = []
    groups, placed = facts.pools.spread(pool, [*others, *own])
    is_whole = all(placed[number] == count for number, count in others)
    if is_whole and not _has_room(facts, pool, groups, head, placed.get(head, 0)):
        return PoolLayout(pool, groups, head)
    closed = stuck.closed.get(pool, (0, ()))[1]
    return PoolLayout(pool, _groups(facts, pool, closed) if closed else groups, head)


def _has_room(facts: SituationFacts, pool: Pool, groups: Sequence[SmGroup], head: int, placed: int) -> bool:
    if placed == facts.pools.size(head):
        return True
    if facts.operations[head].is_cooperative:
        return False
    assert pool.device is not None
    return any(facts.pools.fits(pool.device, group, head) for group in groups)


def _groups(facts: SituationFacts, pool: Pool, residents: Sequence[Sequence[str]]) -> list[SmGroup]:
    """SMs with the blocks that the search found on them, and the others, empty."""
    assert pool.device is not None
    numbers: Mapping[str, int] = {operation.name: number for number, operation in enumerate(facts.operations)}
    kinds = Counter(tuple(sorted(Counter(numbers[name] for name in sm).items())) for sm in residents)
    groups = [SmGroup(count, held) for held, count in kinds.items()]
    rest = pool.device.sm_count - len(residents)
    return [*groups, SmGroup(rest)] if rest > 0 else groups


MOST_LISTED = 40  # kernels
MOST_COMPANIES = 4  # different sets of blocks beside which a kernel's next has no room


def residency_lines(facts: SituationFacts, layouts: Sequence[PoolLayout]) -> Iterator[str]:
    """Per part of a GPU its SMs, per kernel what fits, and for each that lacks room what is lacking."""
    yield from map(_part_text, facts.situation.devices)
    launches: dict[tuple[str, str], int] = {}
    for number, operation in enumerate(facts.operations):
        if operation.is_kernel:
            key = LAUNCH_NUMBER.sub("", operation.name), _kernel_text(facts, number)
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
    kernel, pool = facts.operations[number], facts.pools.of[number]
    assert pool is not None
    cluster = f" in clusters of {kernel.cluster}" if kernel.cluster > 1 else ""
    return (
        f"{kernel.blocks:,} block{'s' * (kernel.blocks > 1)} of {kernel.block.threads} threads{cluster}, "
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
