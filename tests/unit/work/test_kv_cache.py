"""A product and the attention that reads its cache must mean the same one, however they are described."""

from dataclasses import replace
from pathlib import Path

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.description.reader import load_description
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.workloads.layer_variants import with_cache, with_rope
from wavesim.workloads.layers import transformer_layer

QKV = Gemm(
    "qkv",
    512,
    768,
    512,
    128,
    128,
    64,
    rope=Rope(10, 64, 256, 100),
    cache=CacheStore(128, 256, 500, 100),
)
PREFILL = Attention("attention", 2, 256, 8, 2, 64, cached=100, kv_rows=500)
STEP = replace(QKV, m=2, rope=Rope(10, 64, 1, 100), cache=CacheStore(128, 1, 500, 100))
DECODE = AttentionDecode("attention", 2, 100, 8, 2, 64, kv_rows=500)
PAGE = Path(__file__).parents[3] / "docs" / "describe-your-kernels.md"


def pair(qkv, attention, places=None):
    """Bound by the tiles that attention needs, or, with places, by the buffers too."""
    named = places or {}
    first = Stage("qkv", qkv, buffers=named.get("qkv", {}))
    own = Stage("attention", attention, buffers=named.get("attention", {}))
    return Pipeline("own", [first, own], [Dependency(own[x, y], [first[:, :]])])


@pytest.mark.parametrize(("qkv", "attention"), [(QKV, PREFILL), (STEP, DECODE)])
def test_a_product_and_attention_of_one_cache_agree(qkv, attention):
    pair(qkv, attention)
    pair(replace(qkv, cache=None), attention)
    pair(replace(qkv, rope=None), attention)


WRONG = {
    "capacity": (
        QKV,
        replace(PREFILL, kv_rows=600),
        "rows of the cache .* is 500 in qkv and 600 in attention",
    ),
    "position": (QKV, replace(PREFILL, cached=99), r"the first new row \(first; cached\) is 100 .* and 99"),
    "length": (QKV, replace(PREFILL, length=128, sequences=4), r"rows of a sequence \(rows; length\) is 256"),
    "sequences": (QKV, replace(PREFILL, sequences=1), "sequences is 2 in qkv and 1 in attention"),
    "heads": (QKV, replace(PREFILL, heads=6), "columns of Q .* is 512 in qkv and 384"),
    "kv heads": (QKV, replace(PREFILL, kv_heads=1), "columns of K .* is 128 in qkv and 64"),
    "head size": (QKV, replace(PREFILL, heads=4, kv_heads=1, head_dim=128), "head.* is 64 in qkv and 128"),
    "element": (QKV, replace(PREFILL, dtype="bf16"), r"element \(dtype\) is fp16 in qkv and bf16"),
    "who stores": (STEP, replace(DECODE, appends=True), r"this product in qkv and attention too \(appends\)"),
    "step": (STEP, replace(DECODE, cached=101), "the first new row .* is 100 in qkv and 101 in attention"),
    "RoPE's heads": (
        replace(QKV, rope=Rope(5, 64, 256, 100)),
        PREFILL,
        "heads of Q and K .* is 5 in qkv and 10",
    ),
    "RoPE's position": (
        replace(QKV, rope=Rope(10, 64, 256, 0)),
        PREFILL,
        "the first position .* is 0 in qkv and 100 in attention",
    ),
}


@pytest.mark.parametrize(("qkv", "attention", "words"), WRONG.values(), ids=WRONG)
def test_what_they_disagree_on_is_named_with_both_values(qkv, attention, words):
    with pytest.raises(
        DescriptionError, match=f"stages qkv and attention disagree on K and V: .*{words}"
    ) as one:
        pair(qkv, attention)
    assert "make them equal" in str(one.value)
    assert "\n" not in str(one.value)


def with_one_stage(layer, name, **changes):
    stages = {stage.name: stage for stage in layer.stages}
    return layer.with_stages({**stages, name: replace(stages[name], **changes)})


def test_in_a_layer_whose_buffers_are_named_places_must_agree_too():
    layer = with_cache(with_rope(transformer_layer("llama-3-8b", 128)), cached=64, capacity=300)
    own = layer.stage("attention")
    swapped = {**own.buffers, "k": own.buffers["v"], "v": own.buffers["k"]}
    with pytest.raises(
        DescriptionError, match=r"the place of K is row 0, column 0 of 'keys_0' in qkv and .*values_0"
    ):
        with_one_stage(layer, "attention", buffers=swapped)
    lower = {**own.buffers, "k": View("keys_0", row=1)}
    with pytest.raises(
        DescriptionError, match=r"the place of K is row 0, .* row 1, column 0 of 'keys_0' in att"
    ):
        with_one_stage(layer, "attention", buffers=lower)
    longer = replace(own.work, kv_rows=301)
    with pytest.raises(DescriptionError, match="is 300 in qkv and 301 in attention"):
        with_one_stage(layer, "attention", work=longer)
    gemm = layer.stage("qkv").gemm
    assert gemm.cache is not None
    other = replace(gemm, cache=replace(gemm.cache, capacity=301))
    with pytest.raises(DescriptionError, match="is 301 in qkv and 300 in attention"):
        with_one_stage(layer, "qkv", work=other)


def test_attention_that_reads_another_cache_than_the_product_fills_is_none_of_its_business():
    layer = with_cache(transformer_layer("llama-3-8b", 128), capacity=300)
    own = layer.stage("attention")
    elsewhere = {**own.buffers, "k": View("draft_keys"), "v": View("draft_values")}
    with_one_stage(layer, "attention", buffers=elsewhere, work=replace(own.work, kv_rows=400))


def test_a_file_that_disagrees_is_refused_when_it_is_read(tmp_path: Path):
    (text,) = [one for one in PAGE.read_text(encoding="utf-8").split("```") if "rope =" in one]
    path = tmp_path / "layer.toml"
    path.write_text('device = "h200"\n' + text.removeprefix("toml\n"))
    load_description(path)
    path.write_text(
        path.read_text().replace("cached = 512, capacity = 2048", "cached = 512, capacity = 4096")
    )
    with pytest.raises(DescriptionError, match="is 2048 in qkv and 4096 in attention; make them equal"):
        load_description(path)
