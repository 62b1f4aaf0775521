"""Kernels that others might have written compile for Ampere and Hopper, with the acquire that waits need."""

import re

import pytest

from wavesim.bench.foreign_pairs import ForeignPair
from wavesim_gpu.bench.kinds.foreign.kernels import FLAGS, GEMM, ROWS, gemm_name, softmax_name
from wavesim_gpu.driver.compiler import Build, compile_cubin

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

WIDE, SQUARE, FLAT = (128, 256, 32), (128, 128, 32), (64, 128, 32)
PAIRS = (
    ForeignPair("wide", 256, 512, 512, 512, WIDE),
    ForeignPair("two-blocks", 256, 512, 512, 512, SQUARE, blocks_per_sm=2),
    ForeignPair("persistent", 256, 512, 512, 512, SQUARE, pipeline_depth=4, is_persistent=True),
    ForeignPair("before", 256, 512, 512, 512, FLAT, wait_place="before-main-loop", blocks_per_sm=2),
)
ARCHITECTURES = ("sm_80", "sm_90a")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("is_recording", [False, True], ids=["plain", "recording"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_variant_of_the_product_compiles(pair, is_recording, arch):
    name = gemm_name(pair, 0)
    cubin = compile_cubin(GEMM, (name,), arch, Build(is_recording=is_recording))
    assert cubin.data
    assert set(cubin.lowered) == {name}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_waits_acquire_posts_release_and_only_hopper_launches_dependents(arch):
    product = compile_cubin(GEMM, (gemm_name(PAIRS[0], 0),), arch, Build()).ptx
    softmax = compile_cubin(ROWS, (softmax_name(),), arch, Build()).ptx
    for text in (product, softmax):
        assert "ld.acquire.gpu.global.u32" in text
        assert re.search(r"(membar\.gl|fence\.\w+\.gpu)[^}]*?(atom|red)\.\S*add", text, re.DOTALL)
        assert ("griddepcontrol.launch_dependents" in text) == (arch == "sm_90a")


def test_the_parameter_that_the_host_fills_in_is_as_large_as_the_kernels():
    """`Flags` is the last parameter but one: 80 bytes, as NumPy lays it out."""
    text = compile_cubin(ROWS, (), "sm_80", Build()).ptx
    (size,) = re.findall(r"\.param \.align 8 \.b8 hold_param_0\[(\d+)\]", text)
    assert int(size) == FLAGS.itemsize
