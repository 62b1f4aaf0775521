"""Which way a linear layer over two GPUs takes before anybody has timed it."""

from dataclasses import replace

import pytest

from wavesim.workloads.tried_tiles import split_of
from wavesim_gpu.peers.choice import (
    FUSED,
    HALVES,
    LIBRARY,
    ONE_SHOT,
    PUSH,
    TILED,
    TWO_SHOT,
    LinearShape,
    WayChoice,
    candidates_of,
    choice_of,
    fits_tile,
)
from wavesim_gpu.peers.options import options_named

HOPPER, SMS = (9, 0), 132
LARGE = LinearShape("all-reduce", 4096, 8192, 2816, "bf16")


def test_many_rows_on_two_hopper_gpus_are_exchanged_in_the_tile_of_the_nearest_measured_shape():
    assert choice_of(LARGE, HOPPER) == WayChoice("exchange:132", (128, 256))
    assert choice_of(replace(LARGE, m=4100), HOPPER).is_ours  # its last row of tiles is cut off
    assert choice_of(replace(LARGE, kind="reduce-scatter"), HOPPER).is_ours
    assert choice_of(replace(LARGE, dtype="fp16"), HOPPER).is_ours
    # Slower than symmetric memory at a nearest shape, or faster by less than two other GPUs may lose.
    assert choice_of(LinearShape("all-reduce", 1152, 5120, 5120, "bf16"), HOPPER).way == PUSH


@pytest.mark.parametrize(
    ("shape", "capability"),
    [
        (replace(LARGE, m=128), HOPPER),
        (replace(LARGE, n=8196), HOPPER),
        (replace(LARGE, k=2820), HOPPER),
        (LARGE, (8, 0)),
    ],
    ids=["few rows", "ragged columns", "ragged depth", "another GPU"],
)
def test_else_a_library_computes_the_product(shape, capability):
    for dtype in ("bf16", "fp16"):
        way = choice_of(replace(shape, dtype=dtype), capability).way
        assert way == (PUSH if capability == HOPPER else LIBRARY)
    assert choice_of(replace(shape, kind="reduce-scatter"), capability).way == LIBRARY


def test_sums_of_two_ranks_and_whole_vectors_are_pushed():
    assert choice_of(replace(LARGE, ranks=4), HOPPER).way == LIBRARY
    assert choice_of(LinearShape("all-reduce", 3, 4, 8, "bf16"), HOPPER).way == LIBRARY
    assert choice_of(LinearShape("all-reduce", 16, 4096, 2816, "bf16"), HOPPER).way == PUSH
    assert choice_of(replace(LARGE, kind="all-gather"), HOPPER).way == LIBRARY


def test_tuning_times_every_library_and_ours_in_the_tiles_that_fit():
    ways = candidates_of(LARGE, HOPPER, SMS)
    assert {TWO_SHOT, ONE_SHOT, LIBRARY, PUSH, HALVES, "exchange", "exchange:132"} == {
        entry.way for entry in ways
    }
    assert {(128, 256), (256, 128), (128, 192)} <= {entry.tile for entry in ways if entry.exchanges}
    # A single wave of the usual tile would hide nothing of the link: smaller ones are tried.
    assert (128, 128) in {entry.tile for entry in candidates_of(replace(LARGE, m=1024, k=6144), HOPPER, SMS)}
    assert [entry.way for entry in candidates_of(replace(LARGE, dtype="fp16"), (8, 0), SMS)] == [
        LIBRARY,
        PUSH,
        HALVES,
    ]
    # Of few rows our own GEMM saves the host time.
    few = {entry.way for entry in candidates_of(replace(LARGE, m=16), HOPPER, SMS)}
    assert few == {TWO_SHOT, ONE_SHOT, LIBRARY, PUSH, TILED}
    assert TILED not in {entry.way for entry in candidates_of(replace(LARGE, m=16), (8, 0), SMS)}
    # Of rows that two ranks cannot halve, of few, or of four ranks there are no halves.
    for other in (replace(LARGE, m=4097), replace(LARGE, m=256), replace(LARGE, ranks=4)):
        assert HALVES not in {entry.way for entry in candidates_of(other, HOPPER, SMS)}
    scattered = replace(LARGE, kind="reduce-scatter", m=1280)
    tried = [entry for entry in candidates_of(scattered, HOPPER, SMS) if entry.exchanges]
    assert {(128, 256), (128, 192)} <= {entry.tile for entry in tried}
    assert all(1280 % (2 * entry.tile[0]) == 0 for entry in tried)
    assert FUSED in {entry.way for entry in candidates_of(scattered, HOPPER, SMS)}
    assert not fits_tile(replace(LARGE, m=128), (128, 256))  # one rank would have no rows


def test_few_tiles_split_k():
    assert split_of((128, 4096, 8192), (128, 128)) == 3
    assert split_of((2048, 4096, 8192), (128, 256)) == 1
    assert split_of((64, 128, 128), (64, 128)) == 2  # K has two tiles


def test_a_ways_name_in_results_says_how_it_is_called():
    assert options_named("stores").reduce_blocks == 0
    assert options_named("stores:8").reduce_blocks == 8
    assert options_named("exchange:132").ahead == 132
    assert options_named("copies:2").copies == 2
