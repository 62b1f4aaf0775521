"""Kinds of right code that shipped binaries hold and lint once called wrong, each beside a wrong twin."""

from pathlib import Path

import pytest

from wavesim.lint.check import findings_of
from wavesim.lint.files import listings_of
from wavesim_gpu.driver.compiler import compile_text

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
HEAD = """
#define K extern "C" __global__ void
__device__ unsigned poll(const unsigned* flag) {
    unsigned seen;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    return seen;
}
__device__ void post(unsigned* flag) {
    asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(flag) : "memory");
}
"""
# Name -> what is right, and what makes its twin wrong: (old, new), the rule that says so.
KINDS = {
    "a packet of flag and data needs no acquire": (
        """K kernel(const uint2* slots, const float* table, float* out) {
            uint2 word;
            do asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                            : "=r"(word.x), "=r"(word.y) : "l"(slots + threadIdx.x) : "memory");
            while (word.y != 7);
            out[threadIdx.x] = __uint_as_float(word.x) + table[threadIdx.x];
        }""",
        ("__uint_as_float(word.x)", "1.0f"),
        "no-acquire",
    ),
    "a barrier at the kernel's end that releases nothing": (
        """K kernel(unsigned* flags, const float* peer, float* out) {
            if (threadIdx.x == 0) {
                __threadfence_system();
                post(flags);
                while (poll(flags) < 2) {}
                __threadfence_system();
            }
            __syncthreads();
            out[threadIdx.x] = peer[threadIdx.x];
            __syncthreads();
            if (threadIdx.x == 0) { post(flags); while (poll(flags) < 4) {} }
        }""",
        (
            "while (poll(flags) < 4) {} }",
            "while (poll(flags) < 4) {} __threadfence_system(); out[1] = peer[0]; }",
        ),
        "no-release",
    ),
    "what is declared constant is loaded while others wait": (
        """K kernel(unsigned* flag, const float* data, const float* __restrict__ bias, float* out) {
            if (threadIdx.x == 0) { while (poll(flag) == 0) {} __threadfence_system(); }
            float b = __ldg(bias + threadIdx.x);
            __syncthreads();
            out[threadIdx.x] = data[threadIdx.x] + b;
        }""",
        ("float b = __ldg(bias + threadIdx.x);", "float b = data[threadIdx.x + 64];"),
        "load-before-barrier",
    ),
    "a record of the time is no data": (
        """K kernel(unsigned* flag, unsigned long long* times, float* out) {
            unsigned long long now;
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
            times[threadIdx.x] = now;
            if (threadIdx.x == 0) post(flag);
        }""",
        ("times[threadIdx.x] = now;", "out[threadIdx.x] = 2 * out[threadIdx.x];"),
        "no-release",
    ),
    "lanes that share a word of shared memory meet in a shuffle": (
        """K kernel(float* out) {
            __shared__ float most[32];
            int row = threadIdx.x / 8;
            if (threadIdx.x < 32) most[threadIdx.x] = out[threadIdx.x];
            __syncthreads();
            float old = most[row];
            float now = old + out[threadIdx.x];
            for (int lane = 4; lane; lane /= 2) now = fmaxf(now, __shfl_xor_sync(~0u, now, lane));
            if (threadIdx.x % 8 == 0) most[row] = now;
            __syncthreads();
            out[threadIdx.x] = most[row] + old;
        }""",
        None,
        "shared-slot-race",
    ),
}


def wrong_rules(source, folder, language):
    made = compile_text(Path("kind.cu"), HEAD + source, (), ("--gpu-architecture=sm_90a", "--std=c++17"))
    path = folder / f"kind.{language}"
    path.write_bytes(made.ptx.encode() if language == "ptx" else made.data)
    found = [finding for listing in listings_of(path) for finding in findings_of(listing)]
    return {finding.rule for finding in found if finding.verdict == "wrong"} - {"unbounded-spin"}


@pytest.mark.parametrize("language", ["ptx", "cubin"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_right_kind_is_not_called_wrong_and_its_twin_is(kind, language, tmp_path, nvdisasm):
    source, change, rule = KINDS[kind]
    assert wrong_rules(source, tmp_path, language) == set()
    if change is not None:
        assert change[0] in source
        assert rule in wrong_rules(source.replace(*change), tmp_path, language)
