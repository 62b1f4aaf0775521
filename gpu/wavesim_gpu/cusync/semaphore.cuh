// Semaphores in global memory: a counter that producers add to and consumers wait for. Picture a
// turnstile count on a wall: posting turns it by one, waiting reads it until it shows enough, and
// reading takes nothing away. Every wait has a time limit: a waiter that gives up writes down what
// it saw, raises a flag for all the others, and goes on as if it had been let through, so that the
// grid drains, nothing traps, and the host can tell the story.
#pragma once

#include <cusync/clock.cuh>
#include <cusync/mutant.cuh>

namespace cusync {

constexpr int max_stages = 16;
constexpr int max_waiters = 64;

// One waiter that gave up. `counter` below the number of stages means "the start of that stage".
struct WaiterRecord {
    int stage, x, y, z, counter, sm, block, reserved;
    unsigned seen, awaited;
};

// Lives outside the memory that every run resets: a time-out must outlast the replay it came from.
struct ErrorBuffer {
    unsigned aborted;               // 1 once any wait ran out of time
    unsigned waiter_count;          // may exceed max_waiters; the first max_waiters are kept
    unsigned issued[max_stages];    // blocks started, per stage, when the first wait gave up
    WaiterRecord waiters[max_waiters];
};

// Relaxed: says only what the counter held. Whoever goes on to read the producer's data fences after it.
__device__ __forceinline__ unsigned load_relaxed(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// Acquire: where it reads the awaited value, the producer's data may be read. Dearer than a relaxed load, cheaper than
// that and a fence: for one look, not for spinning, as each one drops the L1's lines.
__device__ __forceinline__ unsigned load_acquire(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// Relaxed: for the next run, which comes after all of this one.
__device__ __forceinline__ void store_relaxed(unsigned* counter, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// Acquire, GPU scope: pairs with post(). After a relaxed load that saw the awaited value it orders
// every later read of this thread, and through the next block barrier of the whole block, behind the
// producer's stores. It also drops stale L1 lines, so plain loads of producer data are right too.
__device__ __forceinline__ void acquire_fence() {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// Release, GPU scope: every store that this thread has made, or has been shown by the block barrier
// just before, is visible to whoever acquires the new value. Without the barrier only this thread's
// own stores would be published. A semaphore that nobody else posts is stored to, which is cheaper than adding.
__device__ __forceinline__ void post(unsigned* counter, bool is_only_poster) {
    if constexpr (mutant == Mutant::no_post) return;
    if constexpr (mutant == Mutant::no_fence) {
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    } else if (is_only_poster) {
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(counter) : "memory");
    } else {
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    }
}

// Acquire and release, GPU scope, in one: publishes this slice's partial sums to the last slice, and
// shows the last slice all the others'. Returns how many came before.
__device__ __forceinline__ unsigned take_ticket(unsigned* counter) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

// Relaxed: hands out positions and tells wait-kernels that a block has started. No data rides on it.
__device__ __forceinline__ unsigned take_position(unsigned* counter) {
    unsigned before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

// Relaxed too: the same where nobody needs the position.
__device__ __forceinline__ void count_start(unsigned* counter) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

// Who is waiting, for the error buffer.
struct Identity {
    int stage, x, y, z;
};

// What a spinning thread needs to give up in good order.
struct Watch {
    ErrorBuffer* errors;
    const unsigned* counters;  // first of all, every stage's count of started blocks
    unsigned long long limit_ns;
    int stage_count;

    __device__ void report(Identity who, int counter, unsigned seen, unsigned awaited) const {
        unsigned index = atomicAdd(&errors->waiter_count, 1u);
        if (index >= max_waiters) return;
        errors->waiters[index] = {who.stage, who.x,  who.y, who.z,   counter, static_cast<int>(sm_id()),
                                  static_cast<int>(blockIdx.x), 0, seen, awaited};
    }

    // The first to give up also notes how far every stage had come: that names the starved ones.
    __device__ void abort() const {
        if (atomicExch(&errors->aborted, 1u) != 0) return;
        for (int s = 0; s < stage_count; ++s) errors->issued[s] = load_relaxed(counters + s);
    }

    // Spins until the counter has reached `awaited` and returns true; false when the run is, or gets, aborted.
    // Relaxed polls: the caller fences once, after success, instead of once per poll.
    __device__ __forceinline__ bool spin_here(int counter, unsigned awaited, Identity who) const {
        if (load_relaxed(&errors->aborted) != 0) return false;
        const unsigned long long began = time_ns();
        for (;;) {
            unsigned seen = load_relaxed(counters + counter);
            if (seen >= awaited) return true;
            bool is_expired = time_ns() - began > limit_ns;
            if (is_expired) abort();
            if (is_expired || load_relaxed(&errors->aborted) != 0) {
                report(who, counter, seen, awaited);
                return false;
            }
            __nanosleep(20);
        }
    }

    // Out of line, which keeps its registers out of the caller's main loop.
    __device__ __noinline__ bool spin(int counter, unsigned awaited, Identity who) const {
        return spin_here(counter, awaited, who);
    }
};

}  // namespace cusync
