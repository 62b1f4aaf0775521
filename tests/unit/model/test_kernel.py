"""Grids, blocks, kernels and GEMMs: their figures, and what cannot be."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop
from wavesim.model.occupancy import occupancy_of
from wavesim.work.gemm import Gemm

SIZES = {"m": 1000, "n": 512, "k": 256, "tile_m": 128, "tile_n": 256}


def test_x_counts_columns_y_rows_and_z_slices():
    grid = Grid(2, 3, 4)
    assert (grid.tiles, grid.size) == (6, 24)
    assert list(grid) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert str(grid) == "2 x 3 x 4"


def test_a_gemms_grid_covers_edge_tiles():
    gemm = Gemm("g", **SIZES)
    assert gemm.grid == Grid(2, 8)
    assert gemm.flops == 2 * 1000 * 512 * 256
    assert gemm.kernel.flops_per_block == 2 * 128 * 256 * 256
    assert gemm.with_m(128).grid == Grid(2, 1)


def test_split_k_slices_share_the_work_of_a_tile():
    gemm = Gemm("g", **SIZES, split_k=4)
    assert gemm.grid == Grid(2, 8, 4)
    assert gemm.kernel.flops_per_block == 2 * 128 * 256 * 64


def test_a_partly_filled_warp_counts_as_a_warp():
    assert Block(threads=33).warps == 2
    assert Block(64, static_shared_bytes=100, dynamic_shared_bytes=28).shared_bytes == 128


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None])
@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_a_grid_of_no_size_is_refused(axis, value):
    with pytest.raises(DescriptionError) as caught:
        Grid(**({"x": 1} | {axis: value}))
    assert str(caught.value) == f"Grid: {axis} is {value!r}; it must be an integer of at least 1"


def test_a_grid_that_cuda_cannot_launch_is_refused():
    with pytest.raises(
        DescriptionError, match=r"Grid: y is 65536; CUDA launches at most 65535\. Use larger tiles"
    ):
        Grid(1, 65_536)
    assert Grid(2**31 - 1).size == 2**31 - 1


@pytest.mark.parametrize("name", ["m", "n", "k", "tile_m", "tile_n", "tile_k", "split_k"])
@pytest.mark.parametrize("value", [0, -128])
def test_a_gemm_of_no_size_is_refused(name, value):
    with pytest.raises(
        DescriptionError, match=f"Gemm g: {name} is {value}; it must be an integer of at least 1"
    ):
        Gemm("g", **(SIZES | {name: value}))


def test_more_slices_than_k_has_chunks_are_refused():
    with pytest.raises(DescriptionError, match=r"split_k is 9; k=256 has only 8 chunks .* Use split_k <= 8"):
        Gemm("g", **SIZES, split_k=9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "fp8"}, "dtype is 'fp8'; it must be 'fp16' or 'bf16'"),
        ({"activation": "tanh"}, "activation is 'tanh'; it must be None, 'gelu', 'gelu-exact', 'relu'"),
        ({"gates": "pairs"}, "gates is 'pairs'; it must be 'interleaved' or 'halves'"),
        ({"gates": "halves"}, "gates is 'halves' and activation None, which has no gate. Use gates="),
        ({"b_order": "tiles"}, "b_order is 'tiles'; it must be 'row' or 'column'"),
        ({"has_bias": None}, "has_bias is None; it must be False or True"),
        ({"activation": "geglu", "n": 511}, "n is 511 and tile_n 256; with geglu they must be even"),
    ],
)
def test_an_unknown_type_or_form_is_refused(changes, words):
    with pytest.raises(DescriptionError, match=words):
        Gemm("g", **(SIZES | changes))


def test_a_gated_activation_leaves_half_of_the_columns():
    assert Gemm("g", **SIZES, activation="silu").columns == 512
    assert Gemm("g", **SIZES, activation="geglu-exact", gates="halves").columns == 256


@pytest.mark.parametrize("value", [0, -32, 1.5])
def test_a_block_of_no_threads_or_registers_is_refused(value):
    for changes in ({"threads": value}, {"threads": 32, "registers": value}):
        with pytest.raises(DescriptionError, match=f"is {value}; it must be an integer of at least 1"):
            Block(**changes)


@pytest.mark.parametrize("name", ["static_shared_bytes", "dynamic_shared_bytes"])
def test_negative_shared_memory_is_refused(name):
    with pytest.raises(DescriptionError, match=f"Block: {name} is -1; it must be an integer of at least 0"):
        Block(32, **{name: -1})


def test_negative_work_and_unknown_carve_outs_are_refused():
    with pytest.raises(
        DescriptionError, match="k: flops_per_block is -1; it must be an integer of at least 0"
    ):
        Kernel("k", Grid(1), Block(32), flops_per_block=-1)
    with pytest.raises(DescriptionError, match="k: carveout is 'half'; it must be 'full' or 'default'"):
        Kernel("k", Grid(1), Block(32), carveout="half")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Block(2048), "threads is 2048; h200 runs at most 1024 per block. Use smaller blocks"),
        (Block(32, 256), "registers is 256 per thread; h200 has at most 255"),
        (
            Block(1024, 128),
            "registers is 128 per thread for 1024 threads; h200 has 65536 per SM, which allows 64",
        ),
        (
            Block(32, dynamic_shared_bytes=233_000),
            "shared_bytes is 233000; h200 allows a block at most 232448 bytes",
        ),
        (Block(32, static_shared_bytes=50_000), "static_shared_bytes is 50000; CUDA compiles at most 49152"),
    ],
    ids=["threads", "registers per thread", "registers per block", "shared memory", "static shared memory"],
)
def test_a_block_that_no_sm_can_hold_is_refused_with_value_bound_and_fix(block, words):
    with pytest.raises(DescriptionError) as caught:
        occupancy_of(load("h200"), block)
    assert words in str(caught.value)


def test_a_main_loop_says_what_its_author_has_not():
    every = ("pipeline_depth", "wait_place", "is_persistent", "tests_each_k_block")
    assert MainLoop().unknown == every
    assert MainLoop(4, "block-barrier", False).unknown == every[3:]
    assert (
        MainLoop(4, "producer-warp", False).unknown
        == MainLoop(4, "block-barrier", False, tests_each_k_block=True).unknown
        == ()
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("pipeline_depth", 0), ("wait_place", "warp"), ("is_persistent", 2), ("tests_each_k_block", 2)],
)
def test_a_main_loop_that_cannot_be_is_refused(field, value):
    with pytest.raises(DescriptionError, match=field):
        MainLoop(**{field: value})
