"""Which kernels compute convolutions, what TMA is told of the images, what is refused before a launch."""

from dataclasses import replace
from itertools import takewhile
from types import SimpleNamespace

import pytest
from conv_cases import conv, conv_chain, residual_block

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.accesses import Accesses
from wavesim.model.device import load
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import semaphore_arrays
from wavesim_gpu.cusync.waits import wait_schedule
from wavesim_gpu.kernels.backends import backend_of
from wavesim_gpu.kernels.convolution.conv_sm80 import PortableConvolution
from wavesim_gpu.kernels.convolution.conv_sm90 import HopperConvolution
from wavesim_gpu.kernels.gemm.sm90 import tensor_map
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

HOPPER, PORTABLE, H200 = HopperConvolution(), PortableConvolution(), load("h200")
STREAM = parse_plan("stream")
LAST = 2**31 - 1
STRIDED = conv(2, 14, 136, 72, stride=2, tile=(128, 64), dtype="bf16")
PLAIN = conv(2, 14, 128, 256, kernel_size=1, tile=(128, 128), has_bias=True, has_residual=True)


class NotedDriver:
    """Stands for the driver: notes what tensor maps are made of."""

    def __init__(self):
        self.tiled, self.im2col = [], []

    cuuint32_t = cuuint64_t = int

    def __getattr__(self, name):
        if name.startswith("CUtensorMap"):
            return SimpleNamespace(
                **{
                    f"CU_TENSOR_MAP_{word}": word
                    for word in (
                        "DATA_TYPE_FLOAT16",
                        "DATA_TYPE_BFLOAT16",
                        "INTERLEAVE_NONE",
                        "SWIZZLE_128B",
                        "L2_PROMOTION_L2_128B",
                        "FLOAT_OOB_FILL_NONE",
                        "FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA",
                    )
                }
            )
        raise AttributeError(name)

    def cuTensorMapEncodeTiled(self, *args):  # the driver's name
        self.tiled.append(args)
        return 0, SimpleNamespace(opaque=[len(self.tiled)] * 16)

    def cuTensorMapEncodeIm2col(self, *args):  # the driver's name
        self.im2col.append(args)
        return 0, SimpleNamespace(opaque=[99] * 16)


@pytest.fixture
def driver(monkeypatch):
    noted = NotedDriver()
    monkeypatch.setattr(tensor_map, "_driver", lambda: noted)
    return noted


def places_of(work):
    """Dense operands, one after the other from 4096 on."""
    return {
        name: OperandPlace(4096 * (number + 1), matrix.columns)
        for number, (name, matrix) in enumerate(work.operands.items())
    }


def record_of(backend, work, words="stream"):
    (record,) = backend.stage_arguments(work, parse_plan(words), places_of(work), Scratch())
    return record


def test_tma_is_told_of_corners_strides_and_boxes(driver):
    record = record_of(HOPPER, STRIDED)["layer"]["plain"]
    (told,) = driver.im2col
    dtype, rank, address, sizes, strides, lower, upper, channels, pixels, steps, *layout = told
    assert (dtype, rank, address) == ("DATA_TYPE_BFLOAT16", 4, 4096)
    assert sizes == [136, 14, 14, 2]
    assert strides == [2 * 136, 2 * 136 * 14, 2 * 136 * 14 * 14]
    # Columns and rows from -1 up to, not including, 14 - 1, in steps of 2: seven outputs each.
    assert (lower, upper, steps) == ([-1, -1], [-1, -1], [1, 2, 2, 1])
    assert (channels, pixels) == (64, 104)  # 98 outputs, in eights
    assert layout == ["INTERLEAVE_NONE", "SWIZZLE_128B", "L2_PROMOTION_L2_128B", "FLOAT_OOB_FILL_NONE"]
    weights = next(args for args in driver.tiled if args[1] == 3 and args[2] == 2 * 4096)
    assert weights[3:6] == ([136, 9, 72], [2 * 136, 2 * 9 * 136], [64, 1, 64])
    assert record["load_bytes"] == (104 + 64) * 128
    assert record["k"] == 9 * 3 * 64


def test_pixels_of_a_wider_buffer_lie_further_apart(driver):
    places = places_of(STRIDED) | {"a": OperandPlace(4096, 512)}
    HOPPER.stage_arguments(STRIDED, STREAM, places, Scratch())
    assert driver.im2col[0][4] == [1024, 1024 * 14, 1024 * 14 * 14]


def test_a_1x1_convolution_of_stride_1_is_a_plain_product(driver):
    record = record_of(HOPPER, PLAIN)["layer"]["plain"]
    assert driver.im2col == []
    assert driver.tiled[0][3:6] == ([128, 392], [256], [64, 128])
    assert (record["k"], record["bias_columns"]) == (128, 256)


@pytest.mark.parametrize(
    ("work", "form"),
    [
        (STRIDED, "ConvForm<true, false, false, false>"),
        (PLAIN, "ConvForm<false, false, true, true>"),
        (replace(PLAIN, activation="relu", has_residual=False), "ConvForm<false, true, true, false>"),
    ],
)
def test_the_kernel_is_the_hopper_gemm_in_another_form(work, form):
    launch = HOPPER.launch(work, STREAM, H200)
    assert launch.expression.startswith("gemm_sm90<TileConfig<")
    assert form in launch.expression
    assert launch.blocks == work.grid.size
    assert launch.dynamic_shared_bytes <= 227 * 1024


@pytest.mark.parametrize(("default", "name"), [("hopper", HOPPER.name), ("portable", PORTABLE.name)])
def test_a_convolution_finds_the_kernels_of_the_wanted_family(default, name):
    assert backend_of(Stage("conv", STRIDED), default).name == name


def test_persistent_blocks_are_one_per_sm():
    work = conv(64, 28, 128, 128, tile=(128, 128))
    assert HOPPER.launch(work, parse_plan("persistent-stream"), H200).blocks == 132


@pytest.mark.parametrize(
    ("backend", "change", "said"),
    [
        (HOPPER, {"tile_n": 80}, r"128x80x64; backend 'hopper-convolution' has .*256x64x64"),
        (HOPPER, {"tile_k": 32}, "128x64x32; backend 'hopper-convolution' has"),
        (PORTABLE, {}, r"128x64x64; backend 'portable-convolution' has 128x128x32"),
        (HOPPER, {"channels": 8 * 60_000}, "67500 k-blocks of 64; kernels count fewer than 65536"),
    ],
)
def test_what_the_loader_cannot_take_is_refused_by_name(backend, change, said):
    with pytest.raises(DescriptionError, match=said):
        backend.check(replace(STRIDED, **change))


def test_another_gpu_is_named():
    with pytest.raises(DeviceError, match=r"backend 'hopper-convolution' needs 9\.0"):
        HOPPER.launch(STRIDED, STREAM, load("a100-80gb"))


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_rows_that_do_not_begin_at_16_bytes_are_refused(driver, name):
    for backend, work in ((HOPPER, STRIDED), (PORTABLE, replace(STRIDED, tile_k=32))):
        columns = work.operands[name].columns
        places = places_of(work) | {name: OperandPlace(4096, columns + 4)}
        with pytest.raises(DescriptionError, match=f"{name}.*{columns + 4}"):
            backend.stage_arguments(work, STREAM, places, Scratch())


def test_the_portable_kernel_is_told_of_the_images():
    record = record_of(PORTABLE, replace(STRIDED, tile_k=32, activation="relu"))
    assert (record["images"], record["height"], record["width"], record["channels"]) == (2, 14, 14, 136)
    assert (record["taps"], record["outputs"], record["filters"], record["has_relu"]) == (9, 98, 72, 1)
    assert (record["bias"], record["residual"], record["a_stride"]) == (0, 0, 136)
    assert record["im2col"]["channel_blocks"] == 5


def steps_of(pipeline, name, x, y):
    """The steps of one tile: before which k-block it waits for which tile (input, x, y)."""
    arrays = semaphore_arrays(pipeline, parse_plan("tile+streams+tile", "row"))
    producers = pipeline.dependency_of(name).producers
    inputs = {producer: array for producer in producers for array in arrays if array.producer == producer}
    stage = pipeline.stage(name)
    schedule = wait_schedule(Precedence(Accesses(pipeline)), stage, inputs, by_tile=True)
    begin = schedule.first[y * stage.grid.x + x]
    return list(takewhile(lambda step: step[0] != LAST, map(tuple, schedule.steps[begin:].tolist())))


def test_a_tap_waits_for_the_rows_that_it_reads():
    # Outputs 64 to 127 of images of 7 x 7: the first tap reads from pixel 56 on, and output 127 is first to
    # read pixel 128, by tap (1, 2).
    assert steps_of(conv_chain(), "conv2", 0, 1) == [(0, 0, 0, 0), (0, 0, 0, 1), (5, 0, 0, 2)]


def test_a_residual_is_awaited_by_its_own_tile_before_the_last_k_block():
    # 147 outputs and 128 filters are three by two tiles; 9 taps of 128 channels are 18 k-blocks.
    residual = [step for step in steps_of(residual_block(), "second", 1, 2) if step[1] == 1]
    assert residual == [(17, 1, 1, 2)]
