"""Which products go over peer memory, and in which tiles."""

from wavesim.sim.peers.tiles import split_of
from wavesim_gpu.peers.choice import LIBRARY, choice_of
from wavesim_gpu.peers.options import options_named

HOPPER = (9, 0)


def way_of(kind, size, ranks=2, capability=HOPPER):
    return choice_of(kind, size, ranks, capability).way


def test_few_rows_other_gpus_and_odd_sides_stay_with_the_library():
    assert way_of("all-reduce", (128, 4096, 2816)) != LIBRARY
    assert way_of("all-reduce", (4100, 8192, 2816)) != LIBRARY  # its last row of tiles is cut off
    assert way_of("reduce-scatter", (4096, 8192, 2816)) != LIBRARY
    # On another kind of GPU, over more ranks, of few rows, of narrow or shallow products, of ragged ones.
    assert way_of("all-reduce", (4096, 8192, 2816), capability=(8, 0)) == LIBRARY
    assert way_of("all-reduce", (4096, 8192, 2816), ranks=4) == LIBRARY
    for size in ((127, 8192, 2816), (4096, 4088, 2816), (4096, 8192, 1400), (4096, 8196, 2816)):
        assert way_of("all-reduce", size) == LIBRARY
    assert way_of("reduce-scatter", (4100, 8192, 2816)) == LIBRARY
    assert way_of("all-gather", (256, 8192, 2816)) == LIBRARY


def test_tiles_are_those_of_the_nearest_measured_product_and_few_tiles_split_k():
    def tile_of(kind, size):
        return choice_of(kind, size, 2, HOPPER).tile

    near = tile_of("all-reduce", (2500, 12000, 1504))
    assert tile_of("all-reduce", (2048, 12288, 1408)) == near == (128, 256)
    assert split_of((128, 4096, 8192), (128, 128)) == 3
    assert split_of((2048, 4096, 8192), (128, 256)) == 1
    assert split_of((64, 128, 128), (64, 128)) == 2  # K has two tiles


def test_a_ways_name_in_results_says_how_it_is_called():
    assert options_named("stores").reduce_blocks == 0
    assert options_named("stores:8").reduce_blocks == 8
    assert options_named("exchange:132").ahead == 132
    assert options_named("copies:2").copies == 2
