"""Row kernels: how rows are spread over threads, their launches and parameters, and what is refused."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.rows import Copy, Norm, Softmax
from wavesim_gpu.kernels.backends import backend_of
from wavesim_gpu.kernels.rows.row_kernel import MOST_COLUMNS, VECTOR, RowConfig, config_of
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

H200, STREAM, PERSISTENT = load("h200"), parse_plan("stream"), parse_plan("persistent-stream")
NORM = Norm("norm", m=1000, columns=4096, tile_m=8)
SOFTMAX = Softmax("softmax", sequences=2, length=100, heads=3, keys=104, tile_m=16)
COPY = Copy("copy", m=100, columns=512, tile_m=32, tile_n=128)
WORKS = pytest.mark.parametrize("work", [NORM, SOFTMAX, COPY], ids=["norm", "softmax", "copy"])


def backend(work):
    return backend_of(Stage(work.name, work))


def places(work, **changed):
    found = {name: OperandPlace(1 << 20, matrix.columns) for name, matrix in work.operands.items()}
    return found | changed


def test_every_row_has_registers_and_no_warp_is_idle():
    for columns in (*range(VECTOR, 2200, VECTOR), 4096, 8192, 12_288, MOST_COLUMNS):
        config = config_of(columns)
        held = config.threads_per_row * config.vectors * VECTOR
        assert columns <= held < columns + max(32, config.threads_per_row) * VECTOR
        assert config.vectors <= 4
        assert config.threads % config.threads_per_row == 0


def test_short_rows_are_a_warp_s_and_long_ones_the_block_s():
    assert config_of(896) == RowConfig(128, 32, 4)
    assert config_of(4096) == RowConfig(128, 128, 4)
    assert config_of(12_288) == RowConfig(384, 384, 4)


@WORKS
def test_a_block_per_tile_or_as_many_as_fit(work):
    launch = backend(work).launch(work, STREAM, H200)
    assert launch.blocks == work.grid.size
    many = {"norm": Norm("norm", 100_000, 4096, 8), "copy": Copy("copy", 100_000, 512)}.get(work.name, work)
    slots = H200.sm_count * (768 // launch.threads)
    assert backend(many).launch(many, PERSISTENT, H200).blocks == min(slots, many.grid.size)


def test_what_a_norm_or_softmax_is_are_template_arguments():
    layer = Norm("norm", 10, 896, kind="layer", has_residual=False, dtype="bf16")
    dropped = Softmax("softmax", 1, 64, 2, 2048, dropout=0.1, dropout_place="before")
    found = [backend(work).launch(work, STREAM, H200).expression for work in (layer, dropped, SOFTMAX)]
    assert found == [
        "norm<RowConfig<128, 32, 4>, NormKind::layer, false, true, generated::stage>",
        "softmax<RowConfig<64, 64, 4>, DropoutPlace::before, false, generated::stage>",
        "softmax<RowConfig<128, 32, 1>, DropoutPlace::none, false, generated::stage>",
    ]


@WORKS
def test_parameters_say_where_operands_lie_and_which_rows_a_tile_has(work):
    (record,) = backend(work).stage_arguments(work, PERSISTENT, places(work), Scratch())
    assert record["out"]["data"] == 1 << 20
    tiles = record["tiles"]
    rows = work.length if isinstance(work, Softmax) else work.m
    assert (tiles["length"], tiles["row_blocks"]) == (rows, -(-rows // work.tile_m))
    assert (tiles["is_persistent"], tiles["is_dependent"]) == (1, 0)


@WORKS
@pytest.mark.parametrize(
    ("place", "said"),
    [(OperandPlace(8, 4096), "address of out is 8"), (OperandPlace(16, 4100), "row stride of out is 4100")],
)
def test_misaligned_operands_are_refused(work, place, said):
    with pytest.raises(DescriptionError, match=said):
        backend(work).stage_arguments(work, STREAM, places(work, out=place), Scratch())


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (Norm("norm", 10, 900), "columns is 900; .* a multiple of 8. Pad it to 904"),
        (Norm("norm", 10, 16_392), "columns is 16392; a block holds rows of at most 16384"),
        (Softmax("softmax", 1, 10, 1, 1001), "keys is 1001; .* a multiple of 8"),
        (Copy("copy", 10, 100, tile_n=20), "columns is 100; .* a multiple of 8"),
        (Copy("copy", 10, 200, tile_n=20), "tile_n is 20; .* a multiple of 8"),
    ],
)
def test_rows_that_no_kernel_takes_are_refused(work, said):
    with pytest.raises(DescriptionError, match=said):
        backend(work).launch(work, STREAM, H200)
