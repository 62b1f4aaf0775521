"""Every kernel compiles for every target with no GPU; what does not compile says where and why."""

import pytest

from wavesim.errors import CompileError, DescriptionError
from wavesim.model.kernel import Gemm
from wavesim_gpu import compiler
from wavesim_gpu.compiler import Build, compile_cubin
from wavesim_gpu.kernels import control, gemm

ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"]
VARIANTS = [
    gemm.Variant(gemm.SHAPES[64, 64, 32], "bf16", "gelu"),
    gemm.Variant(gemm.SHAPES[128, 256, 32], "fp16", "gelu"),
    gemm.Variant(gemm.SHAPES[128, 128, 32], "fp16", None),
    gemm.Variant(gemm.SHAPES[256, 128, 32], "bf16", None),
]


@pytest.fixture(autouse=True)
def nvrtc():
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    try:
        compiler._nvrtc()
    except CompileError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_gemm_compiles_for(arch):
    cubin = compile_cubin(
        gemm.SOURCE, [variant.expression for variant in VARIANTS], arch, Build(is_recording=True)
    )
    assert cubin.data[:4] == b"\x7fELF"
    assert len(set(cubin.lowered.values())) == len(VARIANTS)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_small_kernels_and_the_examples_compile_for(arch):
    examples = compiler.ROOT.parent / "examples"
    for source in [control.SOURCE, examples / "plain_pair.cu", examples / "synchronised_pair.cu"]:
        assert compile_cubin(source, [], arch).data[:4] == b"\x7fELF"


@pytest.mark.parametrize("mutant", compiler.MUTANTS)
def test_every_mutant_compiles_and_differs_from_the_right_build(mutant):
    expression = VARIANTS[0].expression
    right, other = (
        compile_cubin(gemm.SOURCE, [expression], "sm_80", Build(mutant=name)).ptx for name in ("none", mutant)
    )
    assert (right == other) == (mutant == "none")


def test_recording_is_compiled_out_of_timed_builds():
    expression = VARIANTS[0].expression
    timed, recorded = (
        compile_cubin(gemm.SOURCE, [expression], "sm_80", Build(is_recording=flag)).ptx
        for flag in (False, True)
    )
    assert "clock64" not in timed
    assert "clock64" in recorded


def test_an_error_shows_the_log_and_numbered_lines(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void f() {\n  int x = y;\n}\n')
    with pytest.raises(CompileError) as caught:
        compile_cubin(path, [], "sm_80")
    assert "broken.cu(2): error" in str(caught.value)
    assert "   2 |   int x = y;" in str(caught.value)


def test_the_source_hash_sees_headers(tmp_path, monkeypatch):
    before = compiler.source_hash()
    header = tmp_path / "extra.cuh"
    header.write_text("// new")
    monkeypatch.setattr(compiler, "ROOT", tmp_path)
    compiler.source_hash.cache_clear()
    try:
        assert compiler.source_hash() != before
    finally:
        monkeypatch.undo()
        compiler.source_hash.cache_clear()
    assert compiler.source_hash() == before


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((128, 256, 64, 96, 256), "the GPU's kernels have"),
        ((128, 250, 64, 64, 64), "n is 250"),
        ((128, 256, 40, 64, 64), "k is 40"),
    ],
)
def test_sizes_that_the_kernels_cannot_take_are_refused(sizes, words):
    m, n, k, tile_m, tile_n = sizes
    with pytest.raises(DescriptionError, match=words):
        gemm.variant(Gemm("gemm", m, n, k, tile_m, tile_n))
