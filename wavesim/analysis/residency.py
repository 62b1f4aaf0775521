"""How many SMs waiting blocks can fill: the adversary's side of the safety check.

Picture: 11 waiting blocks of a consumer that fits twice on an SM, against a producer that needs half
an SM too: each SM takes two of them before the producer has no room, so 11 blocks close five SMs.
With kernels of different sizes an SM can be closed in several ways; the search looks for the use
of the waiting blocks that closes most SMs, whatever SM the hardware puts a block on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wavesim.model.device import Device
from wavesim.sim.placement import Footprint

Counts = tuple[int, ...]
MAX_FRONT = 5_000  # partial uses of the waiting blocks kept side by side


@dataclass(frozen=True)
class Waiting:
    """Blocks of one kind that may be resident and wait: what each takes, and how many there are."""

    name: str
    footprint: Footprint
    count: int


@dataclass(frozen=True)
class Closure:
    """What waiting blocks can do to a device: per closed SM the names of the blocks on it.

    `is_exact` is False where there were too many ways to try; `closed` is then an upper bound and
    `residents` are fewer.
    """

    closed: int
    residents: tuple[tuple[str, ...], ...]
    is_exact: bool = True


@dataclass(frozen=True)
class OneSm:
    """An SM of a device that may hold blocks of these kinds while they wait."""

    device: Device
    kinds: tuple[Footprint, ...]

    def fits(self, blocks: Sequence[Footprint], carveout: int) -> bool:
        """Whether these blocks can be on the SM together while it has a carve-out."""
        device = self.device
        return (
            len(blocks) <= device.max_blocks_per_sm
            and sum(block.warps for block in blocks) <= device.max_warps_per_sm
            and sum(block.registers for block in blocks) <= device.registers_per_sm
            and sum(block.shared_bytes for block in blocks) <= carveout
            and all(block.least_carveout_bytes <= carveout for block in blocks)
        )

    def closing(
        self, limits: Counts, head: Footprint, passing: Sequence[Waiting]
    ) -> Iterator[tuple[Counts, int | None]]:
        """Sets of waiting blocks, as counts per kind, that leave the head no room.

        With each, the carve-out that a block of `passing` must have set before it left, if one must:
        an idle SM takes the newcomer's carve-out and keeps it until it is idle again.
        """
        everyone = [*self.kinds, *(kind.footprint for kind in passing)]
        for carveout in sorted({block.carveout_bytes for block in everyone}):
            beside = [block for block in everyone if block.least_carveout_bytes <= carveout]
            for counts, blocks in self._sets(limits, head, carveout):
                if any(block.carveout_bytes == carveout for block in blocks):
                    yield counts, None
                elif any(self.fits((block, other), carveout) for block in set(blocks) for other in beside):
                    yield counts, carveout

    def _sets(
        self, limits: Counts, head: Footprint, carveout: int
    ) -> Iterator[tuple[Counts, tuple[Footprint, ...]]]:
        """All sets that close the SM at a carve-out, smaller ones first."""
        layer = {(0,) * len(self.kinds)}
        while layer:
            grown: set[Counts] = set()
            for counts in layer:
                blocks = self._blocks(counts)
                if blocks and not self.fits((*blocks, head), carveout):
                    yield counts, blocks
                for kind, footprint in enumerate(self.kinds):
                    if counts[kind] < limits[kind] and self.fits((*blocks, footprint), carveout):
                        grown.add((*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]))
            layer = grown

    def _blocks(self, counts: Counts) -> tuple[Footprint, ...]:
        return tuple(kind for kind, count in zip(self.kinds, counts, strict=True) for _ in range(count))


def close_sms(
    device: Device, waiting: Sequence[Waiting], head: Footprint, passing: Sequence[Waiting]
) -> Closure:
    """How many of the device's SMs the waiting blocks can close to a block of the head's footprint.

    `passing` are blocks that may have been on an SM before: all that can be issued before the head.
    """
    names: dict[Footprint, list[str]] = {}
    for kind in waiting:
        names.setdefault(kind.footprint, []).extend([kind.name] * kind.count)
    limits = tuple(len(blocks) for blocks in names.values())
    found = set(OneSm(device, tuple(names)).closing(limits, head, passing))
    # A carve-out that another block must have set costs one of the blocks that can: one more resource.
    carveouts = sorted({carveout for _, carveout in found if carveout is not None})
    openers = tuple(sum(k.count for k in passing if k.footprint.carveout_bytes == c) for c in carveouts)
    ways = _smallest({(*counts, *(int(c == carveout) for c in carveouts)) for counts, carveout in found})
    uses = _most_uses(ways, (*limits, *openers), device.sm_count)
    if uses is None:
        return Closure(_upper_bound(ways, (*limits, *openers), device.sm_count), (), is_exact=False)
    return Closure(len(uses), tuple(_named(counts[: len(limits)], names) for counts in uses))


def _named(counts: Counts, names: Mapping[Footprint, list[str]]) -> tuple[str, ...]:
    """Takes as many blocks of each kind from those that are left."""
    return tuple(
        blocks.pop(0) for blocks, count in zip(names.values(), counts, strict=True) for _ in range(count)
    )


def _most_uses(ways: Sequence[Counts], limits: Counts, sm_count: int) -> list[Counts] | None:
    """A longest list of ways, at most one per SM, that needs no more than the limits; None if unknown.

    Goes SM by SM and keeps, of all blocks used so far, the sums that no other sum is within.
    """
    for way in ways:  # the usual case: one way does it everywhere
        if all(count * sm_count <= limit for count, limit in zip(way, limits, strict=True)):
            return [way] * sm_count
    front: dict[Counts, list[Counts]] = {(0,) * len(limits): []}
    for _ in range(sm_count):
        grown: dict[Counts, list[Counts]] = {}
        for used, uses in front.items():
            for way in ways:
                total = tuple(a + b for a, b in zip(used, way, strict=True))
                if _is_within(total, limits):
                    grown.setdefault(total, [*uses, way])
        if not grown:
            break
        if len(grown) > MAX_FRONT:
            return None
        smallest = _smallest(grown)
        front = {used: grown[used] for used in smallest}
    return next(iter(front.values()))


def _smallest(sums: Iterable[Counts]) -> list[Counts]:
    """Those that no other is within."""
    kept: list[Counts] = []
    for one in sorted(sums):
        if not any(_is_within(other, one) for other in kept):
            kept.append(one)
    return kept


def _upper_bound(ways: Sequence[Counts], limits: Counts, sm_count: int) -> int:
    """SMs that cannot be exceeded: every way costs at least so much of some resource of the adversary's."""
    size = len(limits)
    weights = [tuple(int(i == k) for i in range(size)) for k in range(size)] + [(1,) * size]
    bounds = [sm_count]
    for weight in weights:
        cost = min(sum(w * c for w, c in zip(weight, way, strict=True)) for way in ways)
        if cost:
            bounds.append(sum(w * n for w, n in zip(weight, limits, strict=True)) // cost)
    return min(bounds)


def _is_within(one: Counts, other: Counts) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
