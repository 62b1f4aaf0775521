"""Every kernel compiles for every target with no GPU; what does not compile says where and why."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from faults import cotenant
from small_pipelines import pair

from wavesim.codegen.cuda import generate, stage_header
from wavesim.errors import CompileError, DescriptionError
from wavesim.model.device import load
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver import compiler, cubin_cache
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.driver.kernel_sources import ROOT
from wavesim_gpu.kernels.elementwise import elementwise
from wavesim_gpu.kernels.gemm.sm80 import gemm
from wavesim_gpu.run import control

HEADERS = {GENERATED: stage_header(pair(), SemaphoreSync(TileSync(), order=Grouped(2)), "gemm2").text}
PRODUCER = {GENERATED: stage_header(pair(), SemaphoreSync(RowSync()), "gemm1").text}
# The oldest and the newest, and that from which on kernels launch dependents: no source asks for another.
ARCHITECTURES = ["sm_80", "sm_90a", "sm_120"]
VARIANTS = [
    gemm.expression_of(Gemm("gemm", 256, 256, 256, *tile, dtype=dtype, activation=activation))
    for tile, dtype, activation in (
        ((64, 64, 32), "bf16", "gelu"),
        ((128, 256, 32), "fp16", "gelu"),
        ((128, 128, 32), "fp16", None),
        ((256, 128, 32), "bf16", None),
    )
]


pytestmark = pytest.mark.usefixtures("nvrtc")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_gemm_compiles_for(arch):
    cubin = compile_cubin(gemm.Portable.source, VARIANTS, arch, Build(is_recording=True), HEADERS)
    assert cubin.data[:4] == b"\x7fELF"
    assert len(set(cubin.lowered.values())) == len(VARIANTS)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_small_kernels_and_the_examples_compile_for(arch):
    examples = ROOT.parent / "examples"
    for source in [
        control.SOURCE,
        elementwise.SOURCE,
        cotenant.SOURCE,
        examples / "plain_pair.cu",
    ]:
        assert compile_cubin(source, [], arch).data[:4] == b"\x7fELF"
    sys.path.insert(0, str(examples))
    try:
        from kernel_pair import describe
    finally:
        sys.path.remove(str(examples))
    for plan, sizes in ((SemaphoreSync(RowSync()), "runtime"), (StreamSync(), "constant")):
        text = generate(describe(256, 192), plan, load("h200"), "pair", sizes=sizes)
        source = examples / "synchronised_pair.cu"
        assert compile_cubin(source, [], arch, headers={GENERATED: text}).data[:4] == b"\x7fELF"


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_the_element_wise_kernel_reads_and_writes_16_bytes_at_once(dtype):
    ptx = compile_cubin(elementwise.SOURCE, [], "sm_90a").ptx
    for name, is_vector in zip(elementwise.names(dtype), (True, False), strict=True):
        body = ptx.partition(f".entry {name}(")[2].partition(".entry ")[0]
        assert ("ld.global.v4" in body, "st.global.v4" in body) == (is_vector, is_vector)
        # In place it reads what it writes: nothing may come by the read-only path.
        assert "ld.global.nc" not in body


@pytest.mark.parametrize("mutant", compiler.MUTANTS)
def test_every_mutant_compiles_and_differs_from_the_right_build(mutant):
    expression = VARIANTS[0]
    right, other = (
        compile_cubin(gemm.Portable.source, [expression], "sm_80", Build(mutant=name), PRODUCER).ptx
        for name in ("none", mutant)
    )
    assert (right == other) == (mutant == "none")


def test_recording_is_compiled_out_of_timed_builds():
    expression = VARIANTS[0]
    timed, recorded = (
        compile_cubin(gemm.Portable.source, [expression], "sm_80", Build(is_recording=flag), HEADERS).ptx
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


def test_a_header_is_part_of_the_key_of_what_is_kept():
    expression = VARIANTS[0]
    one, other = (
        compile_cubin(gemm.Portable.source, [expression], "sm_80", headers=headers).ptx
        for headers in (HEADERS, PRODUCER)
    )
    assert one != other


def test_kernels_compiled_in_threads_are_the_same(monkeypatch):
    monkeypatch.setattr(cubin_cache, "read", lambda key: None)
    monkeypatch.setattr(cubin_cache, "keep", lambda key, cubin: None)

    def code(name: str) -> list[str]:
        """PTX but for names that NVRTC makes of the thread's number."""
        ptx = compile_cubin(gemm.Portable.source, [name], "sm_80", headers=HEADERS).ptx
        return [line for line in ptx.splitlines() if "_INTERNAL_" not in line]

    names = VARIANTS[:2]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(code, names)) == [code(name) for name in names]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((128, 256, 64, 96, 256), "backend 'portable' has"),
        ((128, 250, 64, 64, 64), "n is 250"),
        ((128, 256, 40, 64, 64), "k is 40"),
    ],
)
def test_sizes_that_the_kernels_cannot_take_are_refused(sizes, words):
    m, n, k, tile_m, tile_n = sizes
    with pytest.raises(DescriptionError, match=words):
        gemm.Portable().check(Gemm("gemm", m, n, k, tile_m, tile_n))
