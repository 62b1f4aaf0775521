"""A user's CUDA C++ compiles to PTX and a cubin with source lines; what does not compile is said."""

import os
import signal
import subprocess
import sys
import time

import pytest

from wavesim.errors import CompileError, DescriptionError, DeviceError, RecordingError
from wavesim.lint.files import compiled
from wavesim_gpu.driver.user_sources import compile_user_source

SOURCE = """#include <cuda_fp16.h>
#include "tile.cuh"
template <int TILES> __global__ void consume(const float* data, float* out, unsigned* flag) {
    if (threadIdx.x == 0)
        while (atomicAdd(flag, 0u) < TILES) {}
    __threadfence();
    __syncthreads();
    out[threadIdx.x] = twice(data[threadIdx.x]);
}
extern "C" __global__ void produce(float* data) { data[threadIdx.x] = threadIdx.x; }
"""
HEADER = "__device__ float twice(float value) { return 2.0f * value; }\n"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "tile.cuh").write_text(HEADER)
    path = tmp_path / "pair.cu"
    path.write_text(SOURCE)
    return path


def test_kernels_and_template_instances_come_as_ptx_with_lines_and_as_machine_code(source):
    ptx, cubin = compile_user_source(source, "sm_90a", ["consume<4>"])
    assert ".entry produce(" in ptx
    assert ".entry _Z7consumeILi4EEvPKfPfPj(" in ptx
    assert ".loc" in ptx
    assert 'pair.cu"' in ptx
    assert cubin.startswith(b"\x7fELF")
    assert "consume" not in compile_user_source(source, "sm_80")[0]


def test_a_header_that_was_edited_is_read_anew(source):
    before = compile_user_source(source, "sm_90a", ["consume<4>"])[0]
    (source.parent / "tile.cuh").write_text(HEADER.replace("2.0f", "3.0f"))
    assert compile_user_source(source, "sm_90a", ["consume<4>"])[0] != before


@pytest.mark.parametrize("arch", ["sm_45", "90", "sm_90a ", "compute_90", "sm_²0", ""])
def test_an_architecture_that_the_compiler_has_not_is_refused_with_those_it_has(source, arch):
    with pytest.raises(DescriptionError, match=r"arch is .* NVRTC compiles for sm_"):
        compile_user_source(source, arch)


def test_what_does_not_compile_is_refused_with_the_log_and_a_way_out(source):
    source.write_text("#include <vector>\n__global__ void f() { g(); }\n")
    with pytest.raises(CompileError, match=r"pair\.cu does not compile") as refused:
        compile_user_source(source, "sm_90a")
    assert "nvcc -cubin -lineinfo" in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RecordingError, match="cannot be read"):
        compile_user_source(tmp_path / "nowhere.cu", "sm_90a")


def test_without_an_installed_compiler_the_error_says_what_to_do(source, monkeypatch):
    monkeypatch.setattr("wavesim.lint.files.entry_points", lambda group: [])
    with pytest.raises(DeviceError, match="nvcc -cubin -lineinfo and give the cubin"):
        compiled(source, "sm_90a")


MACROS = "#define A(x) x x x x\n" + "".join(
    f"#define {name}(x) {before}({before}({before}({before}(x))))\n"
    for before, name in zip("ABC", "BCD", strict=True)
)
TEMPLATES = """template <int D, long long P> struct tree {
    static const int value = tree<D - 1, 2 * P>::value + tree<D - 1, 2 * P + 1>::value;
};
template <long long P> struct tree<0, P> { static const int value = P; };
__global__ void f(int* out) { out[0] = tree<40, 1>::value; }
"""


@pytest.mark.parametrize(
    "text", [MACROS + "__global__ void f(int* o) { D(o[0] += 1;) }", TEMPLATES, '#include "pipe"\n']
)
def test_a_source_that_would_keep_the_compiler_busy_is_given_up_in_one_line(text, source):
    os.mkfifo(source.parent / "pipe")
    source.write_text(text)
    began = time.monotonic()
    with pytest.raises(CompileError, match=r"takes more than .* --compile-seconds") as refused:
        compile_user_source(source, "sm_90a", seconds=3)
    assert time.monotonic() - began < 8
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("how", ["{file}", "../{name}", "link"])
def test_a_file_outside_of_the_folders_that_are_searched_is_neither_read_nor_quoted(how, source, tmp_path):
    secret = tmp_path.parent / f"{tmp_path.name}-secret.txt"
    secret.write_text("__device__ int told = 0; hush\n")
    (tmp_path / "link").symlink_to(secret)
    source.write_text(
        f'#include "{how.format(file=secret, name=secret.name)}"\n__global__ void f() {{ told = 1; }}\n'
    )
    with pytest.raises(CompileError, match="does not compile") as refused:
        compile_user_source(source, "sm_90a")
    assert "hush" not in str(refused.value)
    assert "cannot open source file" in str(refused.value)


def test_what_is_said_of_a_source_quotes_no_line_of_it(source):
    source.write_text("__global__ void f() { secret_word + ; }\n")
    with pytest.raises(CompileError) as refused:
        compile_user_source(source, "sm_90a")
    assert "pair.cu(1): error" in str(refused.value)
    assert "+ ;" not in str(refused.value)


def test_an_interrupt_while_a_source_is_compiled_ends_the_command_with_its_word(source):
    os.mkfifo(source.parent / "pipe")
    source.write_text('#include "pipe"\n')
    words = [sys.executable, "-m", "wavesim", "lint", str(source)]
    with (
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as command,
        (source.parent / "pipe").open("w"),  # opens once the compiler reads it
    ):
        command.send_signal(signal.SIGINT)
        said = command.communicate(timeout=30)[1]
    assert (command.returncode, said) == (130, "wavesim: interrupted\n")


def test_what_the_assembler_refuses_is_said(tmp_path):
    path = tmp_path / "pair.cu"
    path.write_text('__global__ void k() { asm volatile("griddepcontrol.wait;"); }')
    with pytest.raises(CompileError, match="requires"):
        compile_user_source(path, "sm_80", seconds=60)
