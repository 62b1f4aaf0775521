"""Splits fill the SMs, and are no more than it takes."""

from dataclasses import replace

import pytest

from wavesim.model.device import load
from wavesim.work.attention.decode import AttentionDecode, best_splits

H200 = load("h200")
ON_4_SMS = replace(H200, name="four", sm_count=4)


def work(sequences, keys, kv_heads=2, heads=8, splits=1):
    return AttentionDecode("decode", sequences, keys - 1, heads, kv_heads, splits=splits)


@pytest.mark.parametrize(
    ("sequences", "keys", "splits"),
    [
        (2, 1024, 1),  # 4 tiles are a block for each of the 4 SMs
        (1, 1024, 2),  # 2 tiles in halves
        (3, 1024, 1),  # 6 tiles are resident at once and share the bandwidth
        (8, 1024, 1),  # 16 tiles are two waves of two blocks per SM
        (1, 64, 1),  # one block of keys cannot be shared
    ],
)
def test_on_four_sms_the_fewest_splits_that_keep_all_of_them_reading(sequences, keys, splits):
    assert best_splits(work(sequences, keys), ON_4_SMS) == splits


def test_splits_do_not_depend_on_those_described():
    assert best_splits(work(1, 4096, splits=5), H200) == best_splits(work(1, 4096), H200)


def test_many_splits_are_not_worth_their_sums():
    # 2 tiles of 64 blocks of keys: with 64 splits an SM has one, and the last block has 64 sums of 4 heads.
    assert 8 <= best_splits(work(1, 4096), H200) < 64


def test_a_batch_that_fills_the_gpu_is_left_whole():
    assert best_splits(work(16, 4096, kv_heads=8, heads=32), H200) == 1
    assert best_splits(work(32, 4096), H200) == 2


def test_a_batch_of_many_waves_is_left_whole_though_its_last_wave_is_not_full():
    assert best_splits(work(16, 1024, kv_heads=32, heads=32), H200) == 1
