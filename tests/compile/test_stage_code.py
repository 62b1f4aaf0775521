"""The machine code of stages: nothing spilled, wide copies, fences that are there unless dropped."""

import re
from functools import partial

import pytest
from attention_layers import attention, decode, decode_layer, layer
from conv_cases import conv_chain, residual_block
from row_chains import norm_chain
from stage_code import compiled, instructions

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim.work.rows import Copy, Norm, Softmax
from wavesim.workloads.attention_chain import paper_attention
from wavesim_gpu.driver.compiler import Build

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

SPIN_ARGUMENT_BYTES = 32  # on the stack, for the arguments of the function that spins
STACK = re.compile(r"\b(?:STL|LDL)\b\S* .*?\[R1(?:\+0x(\w+))?\]")
QKV = {"rope": Rope(5, 128, 64), "cache": CacheStore(128, 64, 128), "has_bias": True, "b_order": "column"}
WIDE = partial(Gemm, "gemm", 64, 768, 512, 128, 256, 64)
ROWS = (
    Norm("norm", 64, 4096, 8, dtype="bf16"),
    Softmax("softmax", 1, 64, 2, 2048, 8, dropout=0.1),
    Copy("copy", 64, 512),
)


def alone(work):
    return Pipeline("alone", [Stage(work.name, work)])


def between_products(work):
    """Attention that consumes the QKV product and produces for another."""
    width = (work.heads + 2 * work.kv_heads) * work.head_dim
    qkv = Stage("qkv", Gemm("qkv", work.m, width, 512, 64, work.head_dim))
    own = Stage("attention", work)
    out = Stage("out", Gemm("out", work.m, 512, work.columns, 64, 128))
    row = y if isinstance(work, Attention) else 0  # of the product, which has all decoded tokens in one
    return Pipeline(
        "layer", [qkv, own, out], [Dependency(own[x, y], [qkv[:, row]]), Dependency(out[x, y], [own[:, y]])]
    )


ROW_COPIES = (r"\bLDG\.E\.128", r"\bSTG\.E\.128")
ATTENTION = (r"HMMA\.16816\.F32", r"LDGSTS")
CASES = [  # pipeline, stage, plan, family, target, what is in the code, bytes of the stack
    (
        conv_chain(3, tile=(128, 128), tile_k=32, has_bias=True, activation="relu"),
        *("conv2", "streams+tile grouped:2", "portable", "sm_80"),
        (r"LDGSTS\.E\.BYPASS\.\S*128", r"\bSTG\.E\.128"),
        SPIN_ARGUMENT_BYTES,
    ),
    *(
        (between_products(work), "attention", "streams+tile", "portable", arch, ATTENTION, 0)
        for work, arch in (
            (Attention("attention", 1, 512, 2, 2, 128, tile_m=64), "sm_80"),
            (Attention("attention", 1, 512, 4, 2, 64, tile_m=64, dropout=0.1), "sm_90a"),
            (AttentionDecode("attention", 64, 1000, 32, 8, 128, splits=2, dtype="bf16"), "sm_80"),
            (AttentionDecode("attention", 64, 1000, 32, 2, 64, appends=True), "sm_90a"),
        )
    ),
    *(
        (alone(work), work.name, "persistent-stream", "hopper", arch, ROW_COPIES, SPIN_ARGUMENT_BYTES)
        for work in ROWS
        for arch in ("sm_80", "sm_90a")
    ),
    *(
        (alone(work), "gemm", "persistent-stream", "hopper", "sm_90a", (instruction,), 0)
        for work, instruction in (
            (WIDE(has_residual=True, dtype="bf16"), r"HADD2\.BF16|HFMA2\.BF16"),
            (WIDE(**QKV), r"UTMASTG\.3D"),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]} {case[4]}")
def test_copies_are_wide_and_nothing_is_spilled(case, tmp_path, nvdisasm):
    *what, patterns, stack = case
    code = "\n".join(instructions(compiled(*what), nvdisasm, tmp_path))
    for pattern in patterns:
        assert re.search(pattern, code), pattern
    if patterns is ROW_COPIES:
        assert not re.search(r"\b(LDG|STG)\.E\.[US]?(8|16)\b", code)
    assert all(int(offset or "0", 16) < stack for offset in STACK.findall(code))
    assert stack or not re.search(r"\b(STL|LDL)\b", code)


@pytest.mark.parametrize(("tile", "fragments"), [((128, 256), 1), ((256, 64), 2)])
def test_the_hopper_gemm_gathers_pixels_by_tma_and_spills_nothing(tile, fragments, tmp_path, nvdisasm):
    pipeline = residual_block(tile=tile, dtype="bf16")
    cubin = compiled(pipeline, "second", "persistent+pdl+tile grouped:2", "hopper")
    code = "\n".join(instructions(cubin, nvdisasm, tmp_path))
    # One load of pixels, where it waits for them; filters by taps, wherever there is time.
    assert len(re.findall(r"UTMALDG\.4D\.IM2COL", code)) == 1
    assert re.search(r"UTMALDG\.3D ", code)
    # The loop is unrolled once for each step of a k-block, as that of a product is.
    assert len(re.findall(r"HGMMA", code)) == 4 * fragments
    assert re.search(r"HFMA2\.\S*RELU|HADD2\S*RELU|HMNMX2\S*NAN", code)  # of the sum with the residual
    assert not re.search(r"\b(STL|LDL)\b", code)


@pytest.mark.parametrize(
    ("pipeline", "name", "plan", "family", "arch"),
    [
        (norm_chain(8), "norm", "persistent+streams+tile", "hopper", "sm_90a"),
        (norm_chain(8), "up", "persistent+pdl+row", "hopper", "sm_90a"),
        (layer(attention(dtype="bf16")), "attention", "persistent+streams+tile", "hopper", "sm_90a"),
        (layer(attention()), "attention", "streams+row", "portable", "sm_90a"),
        (decode_layer(decode()), "decode", "streams+tile", "portable", "sm_90a"),
        (paper_attention(256), "scores", "streams+tile", "portable", "sm_80"),
        (paper_attention(256), "context", "streams+tile", "portable", "sm_90a"),
    ],
)
def test_a_dropped_fence_shows_in_the_code(pipeline, name, plan, family, arch):
    """Too rare to catch in a run, so the instruction itself is looked for."""
    builds = Build(), Build(mutant="no_fence")
    right, broken = (compiled(pipeline, name, plan, family, arch, build).ptx for build in builds)
    posts = [len(re.findall(r"\b(?:red|st)\.release\.gpu\.global", code)) for code in (right, broken)]
    assert posts[0] > posts[1]
    assert "fence.acq_rel.gpu" in right
    if family == "hopper" and name == "attention":
        assert posts[1] == 0
        assert "fence.proxy.async.global" in right
    if name in ("scores", "context"):
        assert posts[1] == 0
        assert "0f7FFFFFFF" in right or "0x7fffffff" in right  # a wait that gives up leaves NaN
        assert ("griddepcontrol.launch_dependents" in right) == (arch == "sm_90a")
