"""Covering SMs with waiting blocks: exact on small cases, and never below what is possible on large ones."""

from functools import cache
from random import Random

import pytest

from wavesim.safety.covering import is_within, largest_cover, smallest, upper_bound


def brute_force(ways: list[tuple[int, ...]], limits: tuple[int, ...], sm_count: int) -> int:
    """The most SMs, by trying every next way."""

    @cache
    def most(left: tuple[int, ...], sms: int) -> int:
        found = 0
        for way in ways:
            if sms and is_within(way, left):
                found = max(found, 1 + most(tuple(n - c for n, c in zip(left, way, strict=True)), sms - 1))
        return found

    return most(limits, sm_count)


def problem(seed: int, most_blocks: int, most_sms: int) -> tuple[list[tuple[int, ...]], tuple[int, ...], int]:
    random = Random(seed)
    size = random.randint(1, 3)
    ways = {tuple(random.randint(0, 4) for _ in range(size)) for _ in range(random.randint(1, 6))}
    limits = tuple(random.randint(0, most_blocks) for _ in range(size))
    return smallest(way for way in ways if any(way)), limits, random.randint(1, most_sms)


@pytest.mark.parametrize("part", range(4))
def test_on_small_devices_the_cover_is_the_largest_there_is(part):
    for seed in range(part * 150, part * 150 + 150):
        ways, limits, sm_count = problem(seed, 12, 6)
        cover = largest_cover(ways, limits, sm_count)
        assert len(cover.uses) == cover.at_most == brute_force(ways, limits, sm_count)


def test_a_cover_keeps_to_the_limits_and_never_exceeds_the_bound():
    gaps = []
    for seed in range(200):
        ways, limits, sm_count = problem(seed, 400, 132)
        cover = largest_cover(ways, limits, sm_count)
        used = [sum(way[kind] for way in cover.uses) for kind in range(len(limits))]
        assert is_within(tuple(used), limits)
        assert len(cover.uses) <= cover.at_most <= sm_count
        gaps.append(cover.at_most - len(cover.uses))
    assert sum(gap > 0 for gap in gaps) <= 10  # unknown on few, so few safe plans are refused


def test_the_bound_is_never_below_what_is_possible():
    for seed in range(200):
        ways, limits, sm_count = problem(seed, 20, 8)
        if ways:
            assert upper_bound(ways, limits, sm_count) >= brute_force(ways, limits, sm_count)
