"""The fixed part of a generated header: macros, tiles and boxes, and the device's primitives.

Example: a semaphore is a counter in global memory; `wait_for` returns once it has reached a value, and
`add_release` is an atomic add with release semantics. Every header carries them, and includes nothing. Their
one source is `semaphore.cuh`, which our own kernels include.
"""

from functools import cache
from pathlib import Path

PROLOGUE = """\
#pragma once

#ifndef WAVESIM_FUNCTION
#if defined(__CUDACC__)
#define WAVESIM_FUNCTION __host__ __device__ __forceinline__
#else
#define WAVESIM_FUNCTION inline
#endif
#endif

// A wait in which the semaphore stands still for longer gives up, and says so: see wait and gave_up. Other
// programs may hold the GPU for seconds, which is no error.
#ifndef WAVESIM_WAIT_LIMIT_NS
#define WAVESIM_WAIT_LIMIT_NS 30000000000ull
#endif
"""

ARITHMETIC = """\
// x and y: column and row of an output tile; z: its split-K slice.
struct Tile {
    int x, y, z;
};

// Tiles from (x_begin, y_begin) up to, not including, (x_end, y_end), every step-th.
struct Box {
    int x_begin, x_end, x_step, y_begin, y_end, y_step;
};

// A counter, and the value at which what it stands for is there.
struct Fact {
    int counter, value;
};

WAVESIM_FUNCTION constexpr int smaller(int left, int right) { return left < right ? left : right; }
WAVESIM_FUNCTION constexpr int larger(int left, int right) { return left > right ? left : right; }
WAVESIM_FUNCTION constexpr int floor_divided(int all, int by) { return all / by - (all % by < 0 ? 1 : 0); }
"""

_BLOCK_WAITS = """
__device__ __forceinline__ bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

// Spins until the counter has reached `awaited`. False when its time is over, or another waiter's was. The
// first to give up writes down the counter that it waited for, plus one.
[[maybe_unused]] static __device__ __noinline__ bool spin(unsigned* counters, int counter, unsigned awaited) {
    unsigned long long began = time_ns();
    unsigned before = 0, seen;
    while ((seen = load_relaxed(counters + counter)) < awaited) {
        if (load_relaxed(counters + gave_up) != 0) return false;
        const unsigned long long now = time_ns();
        if (seen != before) before = seen, began = now;
        if (now - began > WAVESIM_WAIT_LIMIT_NS) {
            atomicCAS(counters + gave_up, 0u, static_cast<unsigned>(counter) + 1u);
            return false;
        }
        __nanosleep(20);
    }
    return true;
}

// One thread calls it. True once the counter has reached `awaited`, false if it does not in time: what it
// stands for must not be read then.
__device__ __forceinline__ bool wait_alone(unsigned* counters, int counter, unsigned awaited) {
    // Acquire: where the first look sees the value, it is all that a wait costs.
    if (load_acquire(counters + counter) >= awaited) return true;
    if (!spin(counters, counter, awaited)) return false;
    load_acquire(counters + counter);  // spinning was relaxed
    return true;
}

// All threads of the block call it, and all get the same answer.
__device__ __forceinline__ bool wait_for(unsigned* counters, int counter, unsigned awaited) {
    // The barrier hands the leader's acquire and answer on to the other threads.
    return __syncthreads_and(!is_leader() || wait_alone(counters, counter, awaited)) != 0;
}
"""

# `parameters` and `argument`: the sizes, where they are known at run time only.
HOST_FUNCTIONS = """\
// Before every run, on the stream of the first launch. The others wait for it, and it waits for all that the
// run before does on them, which would poll zeros. All but gave_up become zero: where runs are enqueued one
// after another, no later one hides that a wait of an earlier one gave up.
[[nodiscard]] inline cudaError_t prepare_run({parameters}unsigned* counters, cudaStream_t stream) {{
{guard}    const cudaError_t error = cudaMemsetAsync(counters, 0, gave_up * sizeof(unsigned), stream);
    if (error != cudaSuccess) return error;
    const auto size = ({count} - first_semaphore) * sizeof(unsigned);
    return cudaMemsetAsync(counters + first_semaphore, 0, size, stream);
}}

// After a run, or several. Waits for the device. cudaSuccess: every tile of all of them is there.
// cudaErrorLaunchTimeout: a wait gave up, `missing` is what it waited for, and outputs are not whole; runs
// that are prepared after this call are right again.
[[nodiscard]] inline cudaError_t check_run({parameters}unsigned* counters, const char*& missing) {{
    missing = nullptr;
    cudaError_t error = cudaDeviceSynchronize();
    unsigned value = 0;
    if (error != cudaSuccess) return error;
    error = cudaMemcpy(&value, counters + gave_up, sizeof value, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess || value == 0) return error;
    missing = missing_tile({argument}value);
    error = cudaMemset(counters + gave_up, 0, sizeof value);
    return error == cudaSuccess ? cudaErrorLaunchTimeout : error;
}}"""

# Where kernels wait for kernels on other streams. `count`: of kernels, `wait_for_start` among them.
PREPARE_KERNEL = """\
inline int prepared_kernels = 0;

// Before the first run, once for each kernel of the plan, wait_for_start too, with its launches' stream.
// Loads it: loading may wait for all kernels that run, and so for one that spins. Asks for the largest
// shared-memory carve-out, without which its blocks may shut others out of their SMs. Refuses what the
// safety verdict does not cover: clusters, and a stream of another priority than streams have by default.
template <typename Kernel>
[[nodiscard]] inline cudaError_t prepare_kernel(Kernel* kernel, cudaStream_t stream) {
    const auto entry = reinterpret_cast<const void*>(kernel);
    cudaFuncAttributes attributes;
    int priority = 0;
    cudaError_t error = cudaFuncSetAttribute(entry, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, entry);
    if (error == cudaSuccess) error = cudaStreamGetPriority(stream, &priority);
    if (error != cudaSuccess) return error;
    if (attributes.preferredShmemCarveout != 100) return cudaErrorNotSupported;
    if (attributes.clusterDimMustBeSet || attributes.requiredClusterWidth > 1) {
        return cudaErrorInvalidClusterSize;
    }
    if (priority != 0) return cudaErrorInvalidValue;
    ++prepared_kernels;
    return cudaSuccess;
}
"""
PREPARED_GUARD = (
    "    if (prepared_kernels < {kernels}) return cudaErrorInvalidConfiguration;  // see prepare_kernel\n"
)


@cache
def primitives() -> str:
    """The device's functions: the loads, stores and atomics of `semaphore.cuh`, and waits made of them."""
    semaphores = Path(__file__).with_name("semaphore.cuh").read_text()
    return f"#if defined(__CUDACC__)\n{semaphores}{_BLOCK_WAITS}#endif\n"
