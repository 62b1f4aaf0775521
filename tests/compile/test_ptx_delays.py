"""PTX with delays in it: every program of the corpus assembles; stores are kept back where they may be."""

import re
import shutil
import subprocess

import pytest
from shake_programs import FOLDER, NAMES, ptx_of

from wavesim_gpu.driver.compiler import compile_text
from wavesim_gpu.shake.ptx_delays import with_delays
from wavesim_gpu.shake.ptx_snippets import FLUSH, TABLE

PTXAS = shutil.which("ptxas")
HEAD = "-arch=sm_90a"


def delayed(name, is_faulty):
    return with_delays(ptx_of(name, is_faulty))


def assembled(text, path):
    path.write_text(text)
    done = subprocess.run(
        [PTXAS, HEAD, path, "-o", path.with_suffix(".cubin")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def before(text, instruction):
    """What was put in front of the compiler's first such instruction, whose operands stand behind a tab."""
    at = re.search(rf"^{re.escape(instruction)}\s*\t", text, re.MULTILINE).start()
    return text[text.rindex("\n\t", 0, at) : at]


@pytest.mark.skipif(PTXAS is None, reason="no ptxas here")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_faulty", [False, True], ids=["right", "fault"])
def test_every_program_assembles_with_delays_in_it(name, is_faulty, tmp_path):
    made = delayed(name, is_faulty)
    assert assembled(made.text, tmp_path / "delayed.ptx") == (0, "")
    assert made.sites
    assert not made.notes
    assert {site.kernel for site in made.sites} == {"first", "second"}


def test_a_program_differs_from_its_twin_by_the_fault_alone():
    assert len(NAMES) == 20
    assert len({path.stem for path in FOLDER.glob("*.cu")} & set(NAMES)) == 20
    assert all(ptx_of(name, True) != ptx_of(name, False) for name in NAMES)


def test_sites_name_instruction_and_source_line():
    sites = delayed("tile_no_fence", True).sites
    kept = next(site for site in sites if "late" in site.how)
    assert (kept.kernel, kept.file, kept.line) == ("first", "tile_no_fence.cu", 4)
    assert str(kept).startswith("tile_no_fence.cu:4, first: a store performed late, st.global")
    assert any(site.how == "a delay before" and site.text.startswith("bar.sync") for site in sites)


def test_a_store_crosses_a_barrier_only_where_nobody_behind_it_can_tell():
    crossing, ended = (delayed("tile_no_fence", True), delayed("tile_no_barrier_after_wait", False))
    assert FLUSH not in before(crossing.text, "bar.sync")  # behind it only the flag is touched, by no release
    assert FLUSH in before(ended.text, "bar.sync")  # a release of the block's thread comes behind it


def test_a_kernel_with_a_grid_wait_reads_nothing_early():
    sites = delayed("pdl_no_wait", False).sites
    assert {site.kernel for site in sites if "stale" in site.how} == {"first"}


def test_functions_that_were_not_inlined_are_left_alone_and_told(tmp_path):
    source = """
    __device__ __noinline__ float twice(float x) { __threadfence(); return 2 * x; }
    extern "C" __global__ void kernel(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
    """
    ptx = compile_text(tmp_path / "call.cu", source, (), ("--gpu-architecture=sm_90a",)).ptx
    made = with_delays(ptx)
    assert made.notes == ("1 device functions that were not inlined are not delayed",)
    if PTXAS is not None:
        assert assembled(made.text, tmp_path / "call.ptx")[0] == 0


def test_predicates_labels_vectors_and_inline_assembly_are_kept(tmp_path):
    source = """
    extern "C" __global__ void kernel(float4* x, unsigned short* y, double2* z, int n) {
        int i = threadIdx.x;
        if (i < n) x[i] = make_float4(i, 1, 2, i);
        if (i > n) y[i] = i;
        z[i] = make_double2(i, n);
        asm volatile("{ .reg .pred p; AGAIN: ld.relaxed.gpu.global.u32 %%r1, [%0]; "
                     "setp.eq.u32 p, %%r1, 0; @p bra AGAIN; }" :: "l"(x) : "memory");
        asm volatile("fence.acq_rel.gpu; bar.sync 1, 64;" ::: "memory");
        if (i & 1) return;
        x[i].x += 1;
    }
    """.replace("%%r1", "r1").replace(".reg .pred p;", ".reg .pred p; .reg .b32 r1;")
    ptx = compile_text(tmp_path / "kinds.cu", source, (), ("--gpu-architecture=sm_90a",)).ptx
    made = with_delays(ptx)
    late = [site.text for site in made.sites if "late" in site.how]
    assert any(".v4" in text for text in late)
    assert any(".u16" in text or ".b16" in text for text in late)
    assert any(".v2" in text for text in late)
    assert made.text.count(f"{TABLE}[") == 1
    if PTXAS is not None:
        assert assembled(made.text, tmp_path / "kinds.ptx") == (0, "")
