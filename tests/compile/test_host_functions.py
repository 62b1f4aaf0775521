"""A wait that gives up is told: by the wait to its block, and by `check_run` to the host. No GPU is needed.

Picture: a header is compiled for the host, with a GPU of one thread whose clock moves by eight seconds at
each look, and with the five functions of CUDA's runtime that the header calls.
"""

import shutil
import subprocess

import pytest
from generated_cuda import host_compiler
from hostile_names import chain

from wavesim.codegen.cuda import generate
from wavesim.codegen.header_text import primitives
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync

H200 = load("h200")
BEFORE = """
#include <cstdio>
#include <cstring>
#include <vector>
#define __CUDACC__
#define CUDART_VERSION 13000
#define __host__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
struct int4 { int x, y, z, w; };
struct Place { int x, y, z; } static threadIdx{0, 0, 0}, blockIdx{0, 0, 0};
enum cudaError_t {
    cudaSuccess, cudaErrorInvalidValue, cudaErrorInvalidConfiguration = 9, cudaErrorLaunchTimeout = 702,
    cudaErrorNotSupported = 801, cudaErrorInvalidClusterSize = 912
};
enum { cudaMemcpyDeviceToHost, cudaFuncAttributePreferredSharedMemoryCarveout };
using cudaStream_t = int;  // its priority
struct cudaFuncAttributes { int preferredShmemCarveout, clusterDimMustBeSet, requiredClusterWidth; };
static cudaFuncAttributes a_kernel{-1, 0, 0};
static bool takes_carveout = true;
static void kernel() {}
static cudaError_t cudaFuncSetAttribute(const void*, int, int percent) {
    if (takes_carveout) a_kernel.preferredShmemCarveout = percent;
    return cudaSuccess;
}
static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void*) {
    *to = a_kernel;
    return cudaSuccess;
}
static cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    *priority = stream;
    return cudaSuccess;
}
static cudaError_t device_state = cudaSuccess;
static cudaError_t cudaDeviceSynchronize() { return device_state; }
static cudaError_t cudaMemset(void* at, int byte, size_t size) {
    memset(at, byte, size);
    return cudaSuccess;
}
static cudaError_t cudaMemsetAsync(void* at, int byte, size_t n, int) { return cudaMemset(at, byte, n); }
static cudaError_t cudaMemcpy(void* to, const void* from, size_t size, int) {
    memcpy(to, from, size);
    return cudaSuccess;
}
static int looks = 0;
static void __nanosleep(int) {}
static void __syncthreads() {}
static int __syncthreads_and(int all) { return all; }
static unsigned atomicAdd(unsigned* at, unsigned value) { return (*at += value) - value; }
static unsigned atomicCAS(unsigned* at, unsigned old, unsigned value) {
    const unsigned before = *at;
    if (before == old) *at = value;
    return before;
}
"""
# In place of loads and stores in PTX.
SEMAPHORES = """
unsigned long long time_ns() { return 8000000000ull * ++looks; }
unsigned load_relaxed(const unsigned* counter) { return *counter; }
unsigned load_acquire(const unsigned* counter) { return *counter; }
void add_release(unsigned* counter, unsigned value) { *counter += value; }
"""
MAIN = """
static void say(bool is_there) { std::printf("%d ", is_there); }
int main() {
    MAKE_RUN
    std::vector<unsigned> counters(COUNT, 7u);
    unsigned* const at = counters.data();
    counters[space::gave_up] = 0;
    const char* missing = "nothing yet";
    auto check = [&] {
        const int error = space::check_run(RUN at, missing);
        std::printf("%d %s %u\\n", error, missing == nullptr ? "-" : missing, counters[space::gave_up]);
    };
    std::printf("%d ", space::prepare_run(RUN at, 0));
    takes_carveout = false; std::printf("%d ", space::prepare_kernel(kernel, 0)); takes_carveout = true;
    a_kernel.requiredClusterWidth = 2; std::printf("%d ", space::prepare_kernel(kernel, 0));
    a_kernel.requiredClusterWidth = 0; std::printf("%d ", space::prepare_kernel(kernel, -1));
    for (int i = 0; i < 4; ++i) {
        std::printf("%d", space::prepare_run(RUN at, 0) + space::prepare_kernel(kernel, 0));
    }
    std::printf("\\n");
    if (space::prepare_run(RUN at, 0) != cudaSuccess) return 1;
    for (unsigned counter : counters) std::printf("%u", counter);
    std::printf("\\n");
    for (int x = 0; x < 3; ++x) FIRST post(at, {x, 1, 0});
    say(EDGE wait(at, 0, 1)); say(EDGE wait_tile(at, 2, 1)); check();
    say(EDGE wait(at, 0, 0)); const int slow = looks;
    say(EDGE wait(at, 1, 0)); say(EDGE wait(at, 0, 1));
    std::printf("%d ", looks - slow <= 1);
    if (space::prepare_run(RUN at, 0) != cudaSuccess) return 1;
    device_state = cudaErrorInvalidValue; check();
    device_state = cudaSuccess; check(); check();
    say(space::wait_for(at, 1, 1)); check();
}
"""


def header(sizes: str) -> str:
    pipeline = chain(("up", "down", "sum"), "space")
    return generate(pipeline, SemaphoreSync(RowSync()), H200, "space", sizes=sizes)


def program(sizes: str) -> str:
    text = header(sizes)
    fixed = primitives()
    semaphores = fixed[
        fixed.index("// Semaphores:") : fixed.index("__device__ __forceinline__ bool is_leader")
    ]
    assert semaphores in text
    is_constant = sizes == "constant"
    words = {
        "MAKE_RUN": ""
        if is_constant
        else "const auto run = space::run_with({3, 2, 1}, {3, 2, 1}, {3, 2, 1});",
        "COUNT": "space::counter_count" if is_constant else "run.counter_count",
        "RUN": "" if is_constant else "run,",
        "FIRST ": "space::up::" if is_constant else "run.up.",
        "EDGE ": "space::up_to_down::" if is_constant else "run.down.from_up.",
    }
    main = MAIN
    for word, by in words.items():
        main = main.replace(word, by)
    return BEFORE + text.replace(semaphores, SEMAPHORES).replace("#pragma once", "") + main


@pytest.mark.parametrize("sizes", ["constant", "runtime"])
def test_a_wait_that_gives_up_is_false_and_the_host_hears_what_was_missing(sizes, tmp_path):
    source = tmp_path / "host.cpp"
    source.write_text(program(sizes))
    command = [host_compiler(), "-std=c++17", "-Wall", "-Wextra", "-Werror", source, "-o", tmp_path / "host"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    found = subprocess.run([tmp_path / "host"], capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == [
        # No run before all four kernels are prepared; a carve-out that the driver does not take, a cluster
        # and a priority are refused.
        "9 801 912 1 9999",
        "00000000",  # three stages, gave_up, two rows of each producer
        "1 1 0 - 0",  # row 1 is there: both waits say so, and the check has nothing to report
        # Row 0 is not: the first wait runs out of time, the next does not wait again, row 1 is still there.
        "0 0 1 1 1 - 5",  # and where the device is in error the check says that, and keeps the report
        "702 a tile of up 0",  # zeroing the counters did not hide it
        "0 - 0",
        "0 702 the start of down 0",
    ]


def test_ignoring_the_answer_of_a_wait_or_of_the_check_is_a_warning(tmp_path):
    source = tmp_path / "host.cpp"
    source.write_text(
        program("constant") + "void ignore(unsigned* at) { space::up_to_down::wait(at, 0, 0); }"
    )
    command = [host_compiler(), "-std=c++17", "-fsyntax-only", "-Werror=unused-result", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "nodiscard" in done.stderr


@pytest.mark.parametrize("sizes", ["constant", "runtime"])
def test_nvcc_takes_the_host_functions(sizes, tmp_path):
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("no nvcc: install the CUDA toolkit to compile the header as its users do")
    text = header(sizes)
    run = "" if sizes == "constant" else "const space::Run& run, "
    argument = "" if sizes == "constant" else "run, "
    source = tmp_path / "host.cu"
    source.write_text(
        f"{text.replace('#pragma once', '')}\n"
        f"__global__ void kernel() {{}}\ncudaError_t once({run}unsigned* counters, const char*& missing) {{\n"
        f"  if (auto error = space::prepare_kernel(kernel, 0)) return error;\n"
        f"  if (auto error = space::prepare_run({argument}counters, 0)) return error;\n"
        f"  return space::check_run({argument}counters, missing);\n}}\n"
    )
    command = [compiler, "-std=c++17", "-arch=sm_90a", "-c", source, "-o", tmp_path / "host.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
