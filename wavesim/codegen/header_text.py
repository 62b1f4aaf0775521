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

// A wait that lasts longer gives up: see gave_up.
#ifndef WAVESIM_WAIT_LIMIT_NS
#define WAVESIM_WAIT_LIMIT_NS 2000000000ull
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

WAVESIM_FUNCTION constexpr int smaller(int a, int b) { return a < b ? a : b; }
WAVESIM_FUNCTION constexpr int larger(int a, int b) { return a > b ? a : b; }
WAVESIM_FUNCTION constexpr int floor_divided(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }
"""

_BLOCK_WAITS = """
__device__ __forceinline__ bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

// Spins until *counter >= awaited. Gives up when its time is over or another waiter has given up.
[[maybe_unused]] static __device__ __noinline__ void spin(
    unsigned* counters, const unsigned* counter, unsigned awaited) {
    const unsigned long long began = time_ns();
    while (load_relaxed(counter) < awaited) {
        if (time_ns() - began > WAVESIM_WAIT_LIMIT_NS) atomicExch(counters + gave_up, 1u);
        if (load_relaxed(counters + gave_up) != 0) return;
        __nanosleep(20);
    }
}

// One thread calls it. Returns once the counter has reached `awaited`.
__device__ __forceinline__ void wait_alone(unsigned* counters, int counter, unsigned awaited) {
    // Acquire: where the first look sees the value, it is all that a wait costs.
    if (load_acquire(counters + counter) >= awaited) return;
    spin(counters, counters + counter, awaited);
    load_acquire(counters + counter);  // spinning was relaxed
}

// All threads of the block call it.
__device__ __forceinline__ void wait_for(unsigned* counters, int counter, unsigned awaited) {
    if (is_leader()) wait_alone(counters, counter, awaited);
    __syncthreads();  // hands the leader's acquire on to the other threads
}
"""


@cache
def primitives() -> str:
    """The device's functions: the loads, stores and atomics of `semaphore.cuh`, and waits made of them."""
    semaphores = Path(__file__).with_name("semaphore.cuh").read_text()
    return f"#if defined(__CUDACC__)\n{semaphores}{_BLOCK_WAITS}#endif\n"
