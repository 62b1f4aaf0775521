// Waits of a decode step. Each has a time limit: the first thread that runs out of patience writes down what it waited for,
// all others see that and go on without waiting, so that the kernel ends and the context stays usable.
#pragma once

#include <generated.cuh>
#include <cusync/clock.cuh>
#include <kernels/gemm/sm90/mbarrier.cuh>

extern __shared__ __align__(128) unsigned char memory[];

enum Waiting { waits_for_words = 1, waits_for_slot = 2, waits_for_weights = 3, waits_for_sums = 4, cache_is_full = 5 };
enum Role { computes = 0, produces = 1, finishes = 2 };

// What the first waiter that gave up saw. The host reads it; report.py has the same fields.
struct Report {
    unsigned gave_up;  // 0, or a `Waiting`
    int block, role, layer, stage, index;
    unsigned seen, awaited;
};
static_assert(sizeof(Report) == 32, "report.py reads eight words");

// In shared memory: where each role is, for the report.
struct Watch {
    Report* report;
    unsigned long long limit_ns;
    const unsigned long long* words;
    int layer[3], stage[3];
};
static_assert(sizeof(Watch) <= 64, "shape.py leaves so much room");

__device__ __forceinline__ Watch& watch() { return *reinterpret_cast<Watch*>(memory + shape::watch_at); }
__device__ __forceinline__ void note_position(Role role, int layer, int stage) {
    watch().layer[role] = layer, watch().stage[role] = stage;
}

__device__ __noinline__ void give_up(Waiting what, int index, unsigned seen, unsigned awaited) {
    Report* report = watch().report;
    if (atomicCAS(&report->gave_up, 0u, static_cast<unsigned>(what)) != 0) return;
    const int warp = threadIdx.x / 32, role = warp < shape::math_warps ? computes : warp == shape::math_warps ? produces : finishes;
    report->block = blockIdx.x, report->role = role, report->index = index, report->seen = seen, report->awaited = awaited;
    report->layer = watch().layer[role], report->stage = watch().stage[role];
}

constexpr unsigned long long is_over = ~0ull;

// The slow side of a wait, out of line: since when it has lasted, or `is_over` once somebody gives up.
__device__ __noinline__ unsigned long long look_at_clock(
    unsigned long long began, Waiting what, int index, unsigned seen, unsigned awaited) {
    const unsigned long long now = cusync::time_ns();
    if (began == 0) began = now;
    if (now - began > watch().limit_ns) give_up(what, index, seen, awaited);
    return cusync::load_relaxed(&watch().report->gave_up) != 0 ? is_over : began;
}

// One thread's patience for one wait, asked after a look that saw nothing. The clock is read now and then only.
struct Patience {
    unsigned looks = 0;
    unsigned long long began = 0;

    __device__ __forceinline__ bool has_ended(Waiting what, int index, unsigned seen, unsigned awaited) {
        if (++looks % 256 == 0) began = look_at_clock(began, what, index, seen, awaited);
        return began == is_over;
    }
};

// In builds with delays a warp comes late to one wait in eight, by chance and by up to seven times the delay.
__device__ __forceinline__ void come_late() {
    if constexpr (cusync::delay_ns > 0) {
        const unsigned chance = (static_cast<unsigned>(clock64()) + 977u * blockIdx.x + 131u * (threadIdx.x / 32)) * 2654435761u >> 24;
        if (chance % 8 == 0) cusync::pause_ns(cusync::delay_ns * (chance / 8 % 8));
    }
}

__device__ __noinline__ bool await_phase_longer(unsigned barrier, unsigned parity, Waiting what, int index) {
    Patience patience;
    while (!mbarrier::try_wait(barrier, parity))
        if (patience.has_ended(what, index, parity ^ 1, parity)) return false;
    return true;
}

// Until the barrier's phase of that parity has ended. False once the step is given up.
__device__ __forceinline__ bool await_phase(unsigned barrier, unsigned parity, Waiting what, int index) {
    come_late();
    return mbarrier::try_wait(barrier, parity) || await_phase_longer(barrier, parity, what, index);
}
