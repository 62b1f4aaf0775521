"""List scheduling of two dependent products, against the same schedule block by block."""

from random import Random

import pytest

from wavesim.predict.pair_schedule import ScheduledProduct, overlapped_ns


def block_by_block(first: ScheduledProduct, second: ScheduledProduct, sm_count: int) -> float:
    """Every tile goes to the SM that is free first; the second's wait for their rows."""
    free = [0.0] * sm_count
    row_ends = [0.0] * first.rows
    for row in first.row_of_each():
        free.sort()
        free[0] += first.tile_ns
        row_ends[row] = max(row_ends[row], free[0])
    for row in second.row_of_each():
        free.sort()
        low, high = row * second.height // first.height, ((row + 1) * second.height - 1) // first.height
        needed = row_ends[low : min(high, first.rows - 1) + 1]
        free[0] = max(free[0], *needed) + second.tile_ns
    return max(free)


@pytest.mark.parametrize("seed", range(60))
def test_it_is_the_schedule_block_by_block(seed):
    draw = Random(seed)
    m, group = draw.randint(1, 12 * 64), draw.choice([1, 4, 8])
    heights = draw.choice([(64, 64), (128, 64), (64, 192), (192, 128)])
    first, second = (
        ScheduledProduct(draw.randint(1, 12), -(-m // height), draw.randint(1, 100), group, height)
        for height in heights
    )
    sm_count = draw.choice([1, 3, 8, 132])
    assert overlapped_ns(first, second, sm_count) == pytest.approx(block_by_block(first, second, sm_count))


def test_rows_end_where_their_last_tile_stands_in_the_order():
    product = ScheduledProduct(columns=3, rows=5, tile_ns=1, group=2)
    order = list(product.row_of_each())
    assert order == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 4, 4]
    assert product.row_positions() == [len(order) - 1 - order[::-1].index(row) for row in range(5)]


def test_a_third_of_a_wave_left_idle_is_filled():
    first = ScheduledProduct(columns=44, rows=8, tile_ns=100, group=4)  # 352 tiles: 2.67 waves of 132
    second = ScheduledProduct(columns=32, rows=8, tile_ns=30, group=4)
    in_turn = first.alone_ns(132) + second.alone_ns(132)
    assert in_turn == 360
    assert 330 <= overlapped_ns(first, second, 132) < 350
