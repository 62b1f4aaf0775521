"""What a tile needs and when, from what tiles read and write; reads that no wait covers are refused."""

from dataclasses import replace

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.work.attention import Attention
from wavesim.work.gemm import Gemm
from wavesim.work.rows import Copy, Norm
from wavesim.workloads.layers import transformer_layer, with_shared_qkv


def layer(needs_of_attention=None):
    """QKV of four heads and two KV heads of 64 columns, in tiles as wide as a head; attention; a norm."""
    qkv = Stage("qkv", Gemm("qkv", 384, 512, 256, 128, 64, 64), buffers={"c": "qkv"})
    places = {"q": "qkv", "k": View("qkv", 256), "v": View("qkv", 384), "out": "heads"}
    attention = Stage("attention", Attention("attention", 1, 384, 4, 2, 64), buffers=places)
    norm = Stage("norm", Norm("norm", 384, 256, 128), buffers={"x": "heads", "residual": View("qkv")})
    rows = slice(0, y + 1)
    needs = [qkv[x, y], qkv[4 + x // 2, rows], qkv[6 + x // 2, rows]]
    return Pipeline(
        "layer",
        [qkv, attention, norm],
        [
            Dependency(attention[x, y], needs_of_attention(qkv) if needs_of_attention else needs),
            Dependency(norm[x, y], [attention[:, y]]),
        ],
    )


def items(pipeline, stage, tile, z=0):
    found = Precedence(Accesses(pipeline)).needed(stage, tile, z)
    return {(one.producer, one.tile): one.at for one in found}


def test_attention_needs_its_queries_at_once_and_each_block_of_keys_when_it_comes_to_it():
    assert items(layer(), "attention", (3, 1)) == {
        ("qkv", (3, 1)): 0,
        ("qkv", (5, 0)): 0,
        ("qkv", (7, 0)): 0,
        ("qkv", (5, 1)): 1,
        ("qkv", (7, 1)): 1,
    }


def test_a_tile_that_is_named_and_shares_nothing_is_not_waited_for():
    named_too_much = layer(lambda qkv: [qkv[:, 0 : y + 1]])
    assert items(named_too_much, "attention", (3, 1)) == items(layer(), "attention", (3, 1))


def test_what_is_read_of_an_earlier_stage_is_covered_by_way_of_the_stage_between():
    order = Precedence(Accesses(layer()))
    for stage in ("qkv", "attention", "norm"):
        order.require_covered(stage)
    assert order.before("norm", (0, 1)) >> order.number("qkv", (3, 1)) & 1
    assert not order.before("norm", (0, 0)) >> order.number("qkv", (3, 1)) & 1


def test_keys_that_no_need_names_are_refused_with_tile_rows_columns_and_fix():
    pipeline = layer(lambda qkv: [qkv[x, y], qkv[4 + x // 2, y], qkv[6 + x // 2, 0 : y + 1]])
    with pytest.raises(DescriptionError) as caught:
        Precedence(Accesses(pipeline)).require_covered("attention")
    assert (
        "tile (0, 1) of attention reads rows 0 to 127, columns 256 to 319 of 'qkv', which tile (4, 0) of qkv "
        "writes; it is not among its needs"
    ) in str(caught.value)


def test_what_is_read_before_the_wait_that_would_cover_it_is_refused():
    """`late` reads what `first` made at once, but waits for `mid`, which comes after, at its second item."""
    first = Stage("first", Copy("first", 64, 64, 64, 64), buffers={"out": View("joint", 0)})
    mid = Stage("mid", Copy("mid", 64, 64, 64, 64), buffers={"x": "joint", "out": View("joint", 64)})
    late = Stage("late", Gemm("late", 64, 64, 128, 64, 64, 64), buffers={"a": "joint"})
    needs = [Dependency(mid[x, y], [first[x, y]]), Dependency(late[x, y], [mid[0, y]])]
    pipeline = Pipeline("late", [first, mid, late], needs)
    with pytest.raises(DescriptionError, match="reads rows 0 to 63, columns 0 to 63 of 'joint', which tile"):
        Precedence(Accesses(pipeline)).require_covered("late")
    both = replace(pipeline, dependencies=[needs[0], Dependency(late[x, y], [first[0, y], mid[0, y]])])
    Precedence(Accesses(both)).require_covered("late")


def test_before_it_overwrites_what_others_read_a_tile_waits_at_its_last_item():
    layers = with_shared_qkv(transformer_layer("qwen2.5-0.5b", 256, layers=2))
    found = items(layers, "qkv_1", (0, 1))
    last = layers.stage("qkv_1").gemm.k_blocks(0)[1] - 1
    assert {at for (name, _), at in found.items() if name == "attention_0"} == {last}
    assert {at for (name, _), at in found.items() if name == "attention_norm_1"} == {0}


def test_a_split_needs_what_its_own_part_of_k_reads():
    first = Stage("first", Gemm("first", 64, 256, 64, 64, 64, 64))
    second = Stage("second", Gemm("second", 64, 64, 256, 64, 64, 64, split_k=2))
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])
    assert items(pipeline, "second", (0, 0), 0) == {("first", (0, 0)): 0, ("first", (1, 0)): 1}
    assert items(pipeline, "second", (0, 0), 1) == {("first", (2, 0)): 2, ("first", (3, 0)): 3}
