"""Which products go over peer memory, and in which tiles."""

from wavesim_gpu.peers.choice import split_of, takes_peers, tile_of


def test_few_rows_other_gpus_and_odd_sides_stay_with_the_library():
    hopper = (9, 0)
    assert takes_peers("all-reduce", (128, 4096, 2816), 2, hopper)
    assert takes_peers("all-reduce", (4100, 8192, 2816), 2, hopper)  # its last row of tiles is cut off
    assert takes_peers("reduce-scatter", (4096, 8192, 2816), 2, hopper)
    # On another kind of GPU, over more ranks, of few rows, of narrow or shallow products, of ragged ones.
    assert not takes_peers("all-reduce", (4096, 8192, 2816), 2, (8, 0))
    assert not takes_peers("all-reduce", (4096, 8192, 2816), 4, hopper)
    assert not takes_peers("all-reduce", (127, 8192, 2816), 2, hopper)
    assert not takes_peers("all-reduce", (4096, 4088, 2816), 2, hopper)
    assert not takes_peers("all-reduce", (4096, 8192, 1400), 2, hopper)
    assert not takes_peers("all-reduce", (4096, 8196, 2816), 2, hopper)
    assert not takes_peers("reduce-scatter", (4100, 8192, 2816), 2, hopper)
    # Ours were slower at most sizes.
    assert not takes_peers("all-gather", (4096, 8192, 2816), 2, hopper)


def test_tiles_are_those_of_the_nearest_measured_product_and_few_tiles_split_k():
    assert (
        tile_of("all-reduce", (2048, 12288, 1408)) == tile_of("all-reduce", (2500, 12000, 1500)) == (128, 256)
    )
    assert tile_of("all-reduce", (256, 4096, 1408)) == (64, 256)
    assert tile_of("all-gather", (256, 4096, 1408)) == (128, 256)
    assert split_of((128, 4096, 8192), (128, 128)) == 3
    assert split_of((2048, 4096, 8192), (128, 256)) == 1
    assert split_of((64, 128, 128), (64, 128)) == 2  # K has two tiles
