"""The fixed part of a generated header: macros, tiles and boxes, and the device's primitives.

Example: a semaphore is a counter in global memory; `wait_for` returns once it has reached a value, and
`add_one` is an atomic add with release semantics. Every header carries them, and includes nothing.
"""

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

PRIMITIVES = """\
#if defined(__CUDACC__)
__device__ __forceinline__ bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

// Relaxed: says only what the counter held. Whoever goes on to read a producer's data fences after it.
__device__ __forceinline__ unsigned seen(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

__device__ __forceinline__ unsigned long long time_ns() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

// Spins until *counter >= awaited. Gives up when its time is over or another waiter has given up.
[[maybe_unused]] static __device__ __noinline__ void spin(
    unsigned* counters, const unsigned* counter, unsigned awaited) {
    const unsigned long long began = time_ns();
    while (seen(counter) < awaited) {
        if (time_ns() - began > WAVESIM_WAIT_LIMIT_NS) atomicExch(counters + gave_up, 1u);
        if (seen(counters + gave_up) != 0) return;
        __nanosleep(20);
    }
}

// One thread calls it. Returns once the counter has reached `awaited`.
__device__ __forceinline__ void wait_alone(unsigned* counters, int counter, unsigned awaited) {
    if (seen(counters + counter) < awaited) spin(counters, counters + counter, awaited);
    // After the relaxed load that saw the value: makes the pair an acquire that orders later reads.
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// All threads of the block call it.
__device__ __forceinline__ void wait_for(unsigned* counters, int counter, unsigned awaited) {
    if (is_leader()) wait_alone(counters, counter, awaited);
    __syncthreads();  // hands the leader's acquire on to the other threads
}

// One thread calls it, after a barrier. Release: the stores before it are seen with the new value.
__device__ __forceinline__ void add_one(unsigned* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

// The same for a semaphore that only one tile posts: a plain store in place of an atomic add.
__device__ __forceinline__ void set_one(unsigned* counter) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(counter) : "memory");
}
#endif
"""
