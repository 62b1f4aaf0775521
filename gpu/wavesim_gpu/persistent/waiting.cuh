// How blocks that stay wait for each other: a barrier of the whole grid, or the awaited words themselves. Every wait has
// an end: whoever runs out of patience says so to all, and the grid drains.
#pragma once

#include <cusync/clock.cuh>

// What all blocks of a run share. `arrived` is 0 before a run, `gave_up` before the first.
struct Progress {
    unsigned* arrived;   // blocks that have come to the grid's barriers, all barriers together
    unsigned* gave_up;   // not 0: somebody waited longer than `limit_ns`
    unsigned long long limit_ns;
};
static_assert(sizeof(Progress) == 24, "wavernn.py packs 24 bytes");

// One thread's patience for one wait. `is_over` is asked after a look that saw nothing.
struct Patience {
    const Progress& progress;
    unsigned looks = 0;
    unsigned long long began = 0;

    __device__ explicit Patience(const Progress& of) : progress(of) {}

    __device__ __forceinline__ bool is_over() {
        if (++looks % 64 != 0) return false;  // the timer and the word are read now and then only
        const unsigned long long now = cusync::time_ns();
        if (began == 0) began = now;
        if (now - began > progress.limit_ns) cusync::store_relaxed(progress.gave_up, 1);
        return cusync::load_relaxed(progress.gave_up) != 0;
    }
};

// A barrier of the grid in two halves, so that what needs nobody's stores is done between them. All threads of all blocks
// call both, for the `passed`-th time (from 1), and all blocks must be resident.
__device__ __forceinline__ void arrive_at_grid_barrier(const Progress& progress) {
    __syncthreads();  // the whole block has stored; the release covers what this barrier has shown its thread
    if (threadIdx.x == 0) cusync::add_release(progress.arrived, 1);
}

// What any thread stored before it arrived, all see behind this. Returns false, to all threads of the block alike, where
// the wait was given up.
__device__ __forceinline__ bool wait_at_grid_barrier(const Progress& progress, unsigned passed) {
    bool is_late = false;
    if (threadIdx.x == 0) {
        const unsigned awaited = passed * gridDim.x;
        Patience patience(progress);
        // Acquire at each look: a fence behind the last one would wait once more for the L2.
        while (!is_late && cusync::load_acquire(progress.arrived) < awaited) is_late = patience.is_over();
    }
    return !__syncthreads_or(is_late);
}

__device__ __forceinline__ bool grid_barrier(const Progress& progress, unsigned passed) {
    arrive_at_grid_barrier(progress);
    return wait_at_grid_barrier(progress, passed);
}

// Sixteen bytes as four words, each of which is read whole. Relaxed: it orders nothing else.
__device__ __forceinline__ uint4 load_words(const void* from) {
    uint4 words;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(from)
                 : "memory");
    return words;
}

// Words that nobody has written hold `empty`, which no value is. A word that holds something else is the value itself,
// so that no fence and no flag is needed: it orders nothing, and nothing else is read on its strength.
__device__ __forceinline__ bool has_empty(uint4 words, unsigned empty) {
    return words.x == empty || words.y == empty || words.z == empty || words.w == empty;
}

// Until the words are there; `is_late` is set where they did not come in time.
__device__ __forceinline__ uint4 await_words(const void* from, unsigned empty, const Progress& progress, bool& is_late) {
    uint4 words = load_words(from);
    Patience patience(progress);
    while (!is_late && has_empty(words, empty)) {
        is_late = patience.is_over();
        words = load_words(from);
    }
    return words;
}

__device__ __forceinline__ unsigned await_word(const unsigned* from, unsigned empty, const Progress& progress, bool& is_late) {
    unsigned word = cusync::load_relaxed(from);
    Patience patience(progress);
    while (!is_late && word == empty) {
        is_late = patience.is_over();
        word = cusync::load_relaxed(from);
    }
    return word;
}
