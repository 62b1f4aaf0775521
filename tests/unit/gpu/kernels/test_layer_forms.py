"""Residual, RoPE and KV cache on the GPU: which kernels take them, and what is refused before a launch."""

from dataclasses import replace

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm90.parameters import LAYER_PARAMS, PARAMS

HOPPER, H200 = backend_named("hopper"), load("h200")
STREAM = parse_plan("stream")
OUT = Gemm("out", 256, 1024, 512, 128, 256, 64, has_residual=True)
QKV = Gemm(
    "qkv", 256, 768, 512, 128, 256, 64, rope=Rope(5, 128, 128), cache=CacheStore(128, 128, capacity=256)
)


def form_of(gemm):
    return HOPPER.launch(gemm, STREAM, H200).expression.partition("Form")[2].partition(", generated")[0]


def test_forms_are_template_arguments_and_those_that_are_not_asked_for_change_no_name():
    assert form_of(replace(OUT, has_residual=False)) == "<Activation::none>"
    assert form_of(OUT) == "<Activation::none, Order::row, false, false, true>"
    assert form_of(replace(QKV, cache=None)) == "<Activation::none, Order::row, false, false, false, 128>"
    biased = replace(QKV, has_bias=True, b_order="column")
    assert form_of(biased) == "<Activation::none, Order::column, true, false, false, 128, true>"


def test_their_parameters_follow_the_plain_ones():
    assert LAYER_PARAMS.fields["plain"][0] == PARAMS
    assert LAYER_PARAMS.fields["residual"][1] == PARAMS.itemsize


@pytest.mark.parametrize("gemm", [OUT, QKV, replace(QKV, rope=None)], ids=["residual", "rope", "cache"])
def test_the_portable_kernels_refuse_them_by_name(gemm):
    found = "has_residual" if gemm.has_residual else "rope" if gemm.rope else "cache"
    portable = replace(gemm, tile_k=32)
    with pytest.raises(DescriptionError, match=f"{found} is .* 'portable' has none.*backend='hopper'"):
        backend_named("portable").check(portable)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tile_n": 192}, r"tile_n is 192; .* a multiple of 128\. Use 128x256x64"),
        ({"tile_n": 208, "rope": None}, "tile_n is 208; .* a multiple of 64"),
        (
            {"m": 300, "cache": CacheStore(128, 100, 200), "rope": None},
            "takes 100 rows of each of 3 sequences",
        ),
    ],
)
def test_tiles_that_cut_heads_and_rows_of_two_sequences_are_refused(change, said):
    with pytest.raises(DescriptionError, match=said):
        HOPPER.check(replace(QKV, **change))


@pytest.mark.parametrize("rows", [1, 64, 300])
def test_one_row_whole_panels_and_one_sequence_are_taken(rows):
    m = rows if rows == 300 else 8 * rows
    HOPPER.check(replace(QKV, m=m, rope=None, cache=CacheStore(128, rows, 400)))


def test_one_kernel_for_two_stages_takes_no_residual():
    first = Stage("first", replace(OUT, name="first", has_residual=False))
    second = Stage("second", replace(OUT, name="second", k=1024, n=512))
    pipeline = Pipeline("pair", [first, second], [gemm_rows(first, second)])
    with pytest.raises(DescriptionError, match="second has a residual"):
        HOPPER.fused_launch(pipeline, parse_plan("fused+row"), H200)
