"""Where operands lie: buffers, views, and what a run makes of them; what cannot be is refused by name."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.buffers import buffers_of
from wavesim.model.contents import contents_of
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region, View
from wavesim.model.stage import Stage
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.work.rows import Norm

QKV = {"q": "qkv", "k": View("qkv", 256), "v": View("qkv", 384)}


def attention(**buffers):
    return Stage("attention", Attention("attention", 1, 200, 2, 1), buffers=buffers)


def contents(pipeline, name):
    return contents_of(Accesses(pipeline), buffers_of(pipeline)[name])


def test_where_nobody_names_a_buffer_a_gemm_reads_its_producers_output():
    first, second = (Stage(name, Gemm(name, 64, 128, 128, 64, 64, 32)) for name in ("first", "second"))
    found = buffers_of(Pipeline("pair", [first, second], [gemm_rows(first, second)]))
    assert list(found) == ["first.a", "first.b", "first.c", "second.b", "second.c"]
    assert [(use.stage, use.operand) for use in found["first.c"].uses] == [("first", "c"), ("second", "a")]


def test_several_operands_lie_in_one_buffer_which_is_as_large_as_all_of_them():
    qkv = buffers_of(Pipeline("alone", [attention(**QKV)]))["qkv"]
    assert (qkv.rows, qkv.columns, qkv.bytes) == (200, 512, 2 * 200 * 512)
    assert [use.region for use in qkv.uses] == [(0, 200, 0, 256), (0, 200, 256, 384), (0, 200, 384, 512)]


@pytest.mark.parametrize(
    ("buffers", "words"),
    [
        (
            {"p": "x"},
            "buffers names 'p', which is no operand of its Attention; it has q, k, v",
        ),
        (
            {"k": View("qkv", 4)},
            "operand 'k' begins at column 4 of 'qkv', 8 bytes .* multiple of 8 columns",
        ),
        ({"k": View("qkv", -8)}, "operand 'k': column is -8; it must be an integer from 0"),
    ],
)
def test_buffers_that_cannot_be_are_refused_by_stage_and_operand(buffers, words):
    with pytest.raises(DescriptionError, match=words):
        buffers_of(Pipeline("alone", [attention(**buffers)]))


def test_two_element_types_in_one_buffer_are_refused():
    other = Stage("other", Gemm("other", 64, 128, 128, 64, 64, 32, dtype="bf16"), buffers={"a": "qkv"})
    with pytest.raises(DescriptionError, match="buffer 'qkv' holds fp16 as 'q' of stage attention and bf16"):
        buffers_of(Pipeline("two", [attention(**QKV), other]))


def test_an_a_that_its_producer_does_not_make_is_refused():
    first = Stage("first", Gemm("first", 64, 128, 128, 64, 64, 32))
    second = Stage("second", Gemm("second", 64, 128, 64, 64, 64, 32))
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])
    with pytest.raises(DescriptionError, match=r"second reads A \(64, 64\) fp16 but first makes \(64, 128\)"):
        buffers_of(pipeline)


def test_of_a_cache_a_step_makes_its_own_rows_and_the_others_are_inputs():
    work = AttentionDecode("decode", 2, 100, 2, 2, appends=True, kv_rows=128)
    found = contents(Pipeline("alone", [Stage("decode", work)]), "decode.k")
    assert found.has_inputs
    assert sorted(found.made) == [Region(100, 101, 0, 256), Region(228, 229, 0, 256)]
    assert found.updated == ()


def test_a_residual_that_is_updated_in_place_is_read_before_it_is_written():
    norm = Stage("norm", Norm("norm", 64, 256, 8), buffers={"residual": "h", "sum": "h"})
    found = contents(Pipeline("alone", [norm]), "h")
    assert (found.made, found.updated, found.has_inputs) == ((), (Region(0, 64, 0, 256),), True)


def test_what_a_stage_makes_and_another_reads_is_no_input():
    first, second = (Stage(name, Gemm(name, 70, 128, 128, 64, 64, 32)) for name in ("first", "second"))
    found = contents(Pipeline("pair", [first, second], [gemm_rows(first, second)]), "first.c")
    assert (found.made, found.has_inputs) == ((Region(0, 70, 0, 128),), False)
