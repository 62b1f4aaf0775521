"""A layer's kernels from TOML and back: RoPE, KV cache, residual, attention and its products, row kernels."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from trace_invariants import violations

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import described_costs
from wavesim.sim.simulation import simulate
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode, best_splits
from wavesim.work.attention.head_product import HeadProduct
from wavesim.work.description.reader import Description, load_description
from wavesim.work.description.writer import description_text
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.work.rows import Copy, Norm, Softmax
from wavesim.workloads.attention_chain import paper_attention
from wavesim.workloads.layer_variants import with_cache, with_rope
from wavesim.workloads.layers import transformer_layer

H200 = load("h200")
BLOCK = Block(128, 168, dynamic_shared_bytes=98_304)
FIT = "threads = 128\nregisters = 168\nshared_bytes = 98304\n"
PRODUCT = "m = 256\nn = 768\nk = 512\ntile = [128, 128, 64]\n"
QKV = Gemm("a", 256, 768, 512, 128, 128, 64, dtype="bf16", block=BLOCK)
WORKS = {
    "bias and residual": replace(QKV, has_bias=True, has_residual=True),
    "rope": replace(QKV, rope=Rope(5, 128, 128, 70)),
    "rope and cache": replace(QKV, rope=Rope(10, 64, 256), cache=CacheStore(128, 256, 400, 3), split_k=2),
    "attention": Attention("a", 2, 300, 8, 2, 64, 100, kv_rows=500, tile_n=64, dtype="bf16", block=BLOCK),
    "attention of all keys": Attention("a", 1, 300, 8, 2, is_causal=False, block=BLOCK),
    "decode": AttentionDecode("a", 16, 2047, 8, 2, splits=3, appends=True, kv_rows=4096, block=BLOCK),
    "scores": HeadProduct("a", "scores", 2, 512, 8, 2, block=BLOCK),
    "context": HeadProduct("a", "context", 1, 512, 8, 8, 96, 64, 1024, dtype="bf16", block=BLOCK),
    "norm": Norm("a", 300, 4096, 8, "layer", has_residual=False, dtype="bf16", epsilon=1e-6, block=BLOCK),
    "norm with a residual": Norm("a", 300, 4096, block=BLOCK),
    "softmax": Softmax("a", 2, 100, 3, 104, 16, False, 0.3, "before", scale=0.125, block=BLOCK),
    "copy": Copy("a", 100, 312, 16, 104, block=BLOCK),
}


def read(tmp_path: Path, stage: str, more: str = "dependencies = []\n"):
    path = tmp_path / "own.toml"
    path.write_text(f'device = "h200"\n{more}[[stages]]\nname = "a"\n{FIT}{stage}\n')
    return load_description(path).pipeline.stages[0]


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_what_is_written_is_read_back(work, tmp_path: Path):
    after = Stage("b", Gemm("b", 128, 128, 128, 128, 128, 64, block=BLOCK))
    stage = Stage("a", work)
    pipeline = Pipeline("own", [stage, after], [Dependency(after[x, y], [stage[:, y]])])
    text = description_text(Description(pipeline, H200))
    (tmp_path / "own.toml").write_text(text)
    found = load_description(tmp_path / "own.toml")
    assert found.pipeline.stages[0].work == work
    assert description_text(found).replace("tile_weights", "#").splitlines()[:4] == text.splitlines()[:4]


WHOLE = (
    paper_attention(4, cached=1023, sequences=4),
    with_cache(with_rope(transformer_layer("llama-3-8b", 256)), cached=64, capacity=400),
    transformer_layer("qwen2.5-0.5b", 2, phase="decode", cached=300),
)


@pytest.mark.parametrize("pipeline", WHOLE, ids=lambda one: one.name)
def test_a_whole_layer_is_written_and_read_back_as_what_it_computes(pipeline, tmp_path: Path):
    path = tmp_path / "layer.toml"
    path.write_text(description_text(Description(pipeline, H200)))
    found = load_description(path).pipeline
    for ours, theirs in zip(pipeline.stages, found.stages, strict=True):
        of_one_block = [replace(stage.work, block=BLOCK) for stage in (ours, theirs)]
        assert of_one_block[0] == of_one_block[1]
        assert theirs.kernel.block.shared_bytes == ours.kernel.block.shared_bytes
    assert list(map(str, found.dependencies)) == list(map(str, pipeline.dependencies))


def test_needs_too_long_to_be_read_are_not_written():
    row = y
    for _ in range(40):
        row = row + 1
    first, after = Stage("a", QKV), Stage("b", QKV)
    pipeline = Pipeline("own", [first, after], [Dependency(after[x, y], [first[x, row.at_most(0)]])])
    with pytest.raises(DescriptionError, match="letters; a description reads 200"):
        description_text(Description(pipeline, H200))


def test_what_a_file_does_not_say_is_usual(tmp_path: Path):
    qkv = read(tmp_path, PRODUCT + "rope = { heads = 4 }\ncache = { columns = 128 }")
    assert (qkv.gemm.rope, qkv.gemm.cache) == (Rope(4, 128, 256), CacheStore(128, 256, 256))
    attention = read(tmp_path, "attention = { length = 300, heads = 8, kv_heads = 2 }")
    assert attention.work == Attention("a", 1, 300, 8, 2, block=BLOCK)
    product = read(tmp_path, 'head_product = { product = "scores", length = 64, heads = 8, kv_heads = 2 }')
    assert product.work == HeadProduct("a", "scores", 1, 64, 8, 2, block=BLOCK)
    assert read(tmp_path, "norm = { rows = 300, columns = 4096 }").work == WORKS["norm with a residual"]


@pytest.mark.parametrize("sequences", [1, 16, 200])
def test_decode_that_names_no_splits_has_as_many_as_the_device_needs(sequences, tmp_path: Path):
    table = f"decode = {{ sequences = {sequences}, cached = 4095, heads = 8, kv_heads = 2 }}"
    plain = AttentionDecode("a", sequences, 4095, 8, 2, block=BLOCK)
    assert read(tmp_path, table).work == replace(plain, splits=best_splits(plain, H200))
    assert best_splits(plain, H200) == {1: 22, 16: 4, 200: 1}[sequences]
    assert read(tmp_path, table.replace("heads = 8", "splits = 5, heads = 8")).grid.z == 5


def test_a_causal_attentions_time_is_shared_out_by_the_keys_that_its_tiles_read(tmp_path: Path):
    more = "kernel_us = 50\n" + "attention = { length = 512, heads = 8, kv_heads = 2 }"
    stage = read(tmp_path, more)
    assert stage.tile_weights == (1, 2, 3, 4)
    costs = described_costs(Pipeline("own", [stage]), H200, {"a": 50_000}).model
    times = costs.tile_times(stage)
    assert times[24] / times[0] == pytest.approx(4, rel=1e-3)
    assert read(tmp_path, more + "\ntile_weights = [1, 1, 1, 2]").tile_weights == (1, 1, 1, 2)
    assert not read(tmp_path, more.replace("heads = 8", "causal = false, heads = 8")).tile_weights


def test_a_residual_counts_among_the_bytes_of_a_product_of_other_elements(tmp_path: Path):
    alone, added = (
        read(tmp_path, PRODUCT + f'element = "fp8"\nresidual = {word}').kernel for word in ("false", "true")
    )
    blocks = math.prod((6, 2))
    assert added.bytes_per_block - alone.bytes_per_block == pytest.approx(2 * 256 * 768 / blocks, abs=1)


ATTENTION = "attention = { length = 300, heads = 8, kv_heads = 2"
OF_HEADS = "length = 64, heads = 8, kv_heads = 2 }"
REFUSED = (
    ("grid = [4, 4]\nbias = true", "bias' is True; it says nothing without m, n and k"),
    (PRODUCT + "bias = 'yes'", "bias' is 'yes'; expected true or false"),
    (PRODUCT + "rope = {}", "rope.heads' is missing; write heads = 40"),
    (PRODUCT + "rope = { heads = 4, head_dim = 96 }", "Rope: head_dim is 96; kernels rotate"),
    (PRODUCT + "rope = { heads = 4, rows = 100 }", "m is 256; with rope it must be a multiple"),
    (PRODUCT + "rope = { heads = 4 }\nactivation = 'relu'", "with rope it must be None"),
    (PRODUCT + "rope = { head = 4 }", "rope.head' is unknown; known are heads, "),
    (PRODUCT + "cache = { columns = 64, capacity = 9 }", "capacity is 9; 0 cached rows and 256"),
    (ATTENTION + " }\nm = 3", "m' is 3; attention says what the kernel is; leave one of them out"),
    (ATTENTION + " }\ndecode = {}", "decode' is {}; attention says what the kernel is"),
    (ATTENTION + " }\ngrid = [8, 3]", "grid' is [8, 3]; attention says what the kernel is"),
    (ATTENTION + " }\ntile = [1, 2, 3]", "[1, 2, 3]; expected [query rows, keys]"),
    (ATTENTION + ", head_dim = 63.5 }", "attention.head_dim' is 63.5; expected an integer"),
    ("attention = { heads = 8 }", "attention.length' is missing"),
    (ATTENTION.replace("2", "3") + " }", "heads must be a multiple of kv_heads"),
    ("decode = { cached = 63, heads = 8, kv_heads = 2, splits = 2 }", "Use at most 1"),
    ("decode = { cached = 99999999999999, heads = 8, kv_heads = 2 }", "cached' is 99999999999999; "),
    ("decode = { cached = 99999999, heads = 8, kv_heads = 2, splits = 99999 }", "Grid: z is 99999"),
    ("head_product = { product = 'score', " + OF_HEADS, "The nearest is scores"),
    ("norm = { columns = 4096 }", "norm.rows' is missing; write rows = 1024"),
    ("norm = { rows = 4, columns = 4096, kind = 'rsm' }", "norm.kind' is 'rsm'; known are rms, layer"),
    ("norm = { rows = 4, columns = 4096, epsilon = 'no' }", "norm.epsilon' is 'no'; expected a number"),
    ("norm = { rows = 4, columns = 4096 }\nresidual = true", "residual' is True; norm says what the kernel"),
    ("softmax = { length = 4, heads = 2, keys = 3 }", "keys is 3; it must be at least length, 4"),
    (
        "softmax = { length = 4, heads = 2, keys = 8, dropout = 2 }",
        "dropout' is 2; it must be a number from 0 to 1",
    ),
    ("tile = [8]\ncopy = { rows = 4, columns = 8 }", "tile' is [8]; expected [rows, columns]"),
    ("element = 'fp8'\nhead_product = { product = 'scores', " + OF_HEADS, "known are fp16, bf16"),
)


@pytest.mark.parametrize(("stage", "words"), REFUSED)
def test_what_no_kernel_computes_is_refused_in_one_line(stage, words, tmp_path: Path):
    with pytest.raises((DescriptionError, RecordingError)) as refused:
        read(tmp_path, stage)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "stage",
    ["norm = { rows = 256, columns = 768 }", f"{ATTENTION} }}", "copy = { rows = 256, columns = 768 }"],
)
def test_a_described_kernel_waits_for_what_it_needs_though_no_file_names_buffers(stage, tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text(
        f'device = "h200"\n[[stages]]\nname = "a"\n{FIT}{PRODUCT}kernel_us = 30\n'
        f'[[stages]]\nname = "b"\n{FIT}{stage}\nkernel_us = 5\n'
        '[[dependencies]]\nconsumer = "b"\nneeds = ["a[:, 0:2]"]\n'
    )
    described = load_description(path)
    costs = described_costs(described.pipeline, H200, described.kernel_ns).model
    trace = simulate(described.pipeline, parse_plan("row"), H200, costs)
    assert violations(trace, described.pipeline) == []
    assert trace.end_ns[trace.stage == 1].min() > trace.end_ns[trace.stage == 0].max()
