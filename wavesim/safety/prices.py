"""Most SMs that waiting blocks can close, bounded in polynomial time: a price per block.

Example: every SM that blocks of three kinds close takes at least one unit of prices; 40 blocks at a third
each close 13 SMs at most. A set of blocks closes an SM by one resource: their demands x, as parts of what
must be used up, add up to 1 or more. Then floor(m x) + 1, summed over the blocks, exceeds m for every
integer m >= 1, so (floor(m x) + 1) / (m + 1), at most 1, is a price for that resource; the largest over
the resources is a price whatever closes the SM. Source: dual feasible functions, as in bounds for bin
packing (Fekete and Schepers, 2001), for covering.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from wavesim.model.device import Device
from wavesim.sim.placement import Footprint

STEPS = (*range(1, 13), 16, 24, 32, 64, 1_000)  # the m that are tried; a large one is the plain share x
SWEEPS = 3  # in which each resource's m is chosen anew beside the others'

Resource = tuple[tuple[int, ...], int]  # demand of a block of each kind, and how much of it closes an SM


def closing_bound(
    device: Device,
    waiting: Sequence[Footprint],
    limits: Sequence[int],
    head: Footprint,
    passing: Sequence[Footprint],
) -> int:
    """A number of SMs that no placement of so many waiting blocks of each kind closes to the head.

    `passing` are blocks that may have set an SM's carve-out before.
    """
    resources = [
        resource
        for resource in _resources(device, waiting, head, passing)
        if sum(n * use for n, use in zip(limits, resource[0], strict=True)) >= resource[1]
    ]
    if not resources:
        return 0
    tables = [
        np.array([[float(_price(use, full, m)) for use in uses] for m in STEPS]) for uses, full in resources
    ]
    chosen = min(
        (_descent(tables, limits, start) for start in range(len(STEPS))), key=lambda descent: descent[0]
    )[1]
    prices = [
        max(
            _price(uses[kind], full, STEPS[step])
            for (uses, full), step in zip(resources, chosen, strict=True)
        )
        for kind in range(len(waiting))
    ]
    return min(device.sm_count, int(sum(n * price for n, price in zip(limits, prices, strict=True))))


def _resources(
    device: Device, waiting: Sequence[Footprint], head: Footprint, passing: Sequence[Footprint]
) -> Iterator[Resource]:
    """Whatever can be used up on an SM; shared memory at each carve-out that some block sets."""
    yield (1,) * len(waiting), device.max_blocks_per_sm
    yield tuple(kind.warps for kind in waiting), device.max_warps_per_sm - head.warps + 1
    yield tuple(kind.registers for kind in waiting), device.registers_per_sm - head.registers + 1
    for carveout in {kind.carveout_bytes for kind in (*waiting, *passing)}:
        can_be_there = [kind.least_carveout_bytes <= carveout for kind in waiting]
        left = carveout - head.shared_bytes
        if carveout < head.least_carveout_bytes or left < 0:
            yield tuple(map(int, can_be_there)), 1
        else:
            uses = zip(waiting, can_be_there, strict=True)
            yield tuple(kind.shared_bytes * is_there for kind, is_there in uses), left + 1


def _price(use: int, full: int, step: int) -> Fraction:
    return min(Fraction(1), Fraction(step * use // full + 1, step + 1)) if use else Fraction(0)


def _descent(
    tables: Sequence[NDArray[np.float64]], limits: Sequence[int], start: int
) -> tuple[float, tuple[int, ...]]:
    """(the cost of all blocks, a step per resource), each step in turn the cheapest beside the others."""
    counts, chosen = np.array(limits, dtype=float), [start] * len(tables)
    cost = 0.0
    for _ in range(SWEEPS):
        for number, table in enumerate(tables):
            others = [
                own[step] for i, (own, step) in enumerate(zip(tables, chosen, strict=True)) if i != number
            ]
            beside = np.maximum.reduce(others) if others else np.zeros(len(counts))
            costs = np.maximum(table, beside) @ counts
            chosen[number] = int(costs.argmin())
            cost = float(costs[chosen[number]])
    return cost, tuple(chosen)
