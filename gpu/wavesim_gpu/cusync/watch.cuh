// Waiting with a time limit. A waiter that gives up writes down what it saw, raises a flag for all the others, and goes
// on, so that the grid drains, nothing traps, and the host can say who waited for what. Whoever is told so poisons what
// it was to compute: NaN instead of sums of what nobody has written. NaN spreads by itself to all that reads it.
#pragma once

#include <cusync/clock.cuh>

namespace cusync {

constexpr int max_stages = 16;
constexpr int max_waiters = 64;

constexpr int partial_sums = -1;  // in place of a counter's number: the sums of a tile's other splits

// One waiter that gave up. `counter` below the number of stages means "the start of that stage".
struct WaiterRecord {
    int stage, x, y, z, counter, sm, block, reserved;
    unsigned seen, awaited;
};

// Lives outside the memory that every run resets: a time-out must outlast the replay it came from. Runs that share one
// are aborted together; runs that may overlap, or must not meet, have their own.
struct ErrorBuffer {
    unsigned aborted;               // 1 once any wait ran out of time
    unsigned waiter_count;          // may exceed max_waiters; the first max_waiters are kept
    unsigned issued[max_stages];    // blocks started, per stage, when the first wait gave up
    WaiterRecord waiters[max_waiters];
    unsigned ended;                 // number of the last library call that ended over this buffer
};
static_assert(sizeof(ErrorBuffer) == 2636, "layout.py packs it without gaps");

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

    // Spins until read() has reached `awaited` and returns true; false when the run is, or gets, aborted: then the caller
    // poisons what it computes. Relaxed polls: the caller fences once, after success, instead of once per poll. The time
    // that is limited is that in which read() stands still: while it moves, those who post are at work. `counter`: what
    // read() reads.
    template <class Read>
    __device__ __forceinline__ bool spin_until(Read&& read, unsigned awaited, int counter, Identity who) const {
        if (load_relaxed(&errors->aborted) != 0) return false;
        unsigned long long began = time_ns();
        for (unsigned before = 0;;) {
            const unsigned seen = read();
            if (seen >= awaited) return true;
            const unsigned long long now = time_ns();
            if (seen != before) before = seen, began = now;
            const bool is_expired = now - began > limit_ns;
            if (is_expired) abort();
            if (is_expired || load_relaxed(&errors->aborted) != 0) {
                report(who, counter, seen, awaited);
                return false;
            }
            __nanosleep(20);
        }
    }

    // The same for a counter.
    __device__ __forceinline__ bool spin_here(int counter, unsigned awaited, Identity who) const {
        return spin_until([&] { return load_relaxed(counters + counter); }, awaited, counter, who);
    }

    // Out of line, which keeps its registers out of the caller's main loop.
    __device__ __noinline__ bool spin(int counter, unsigned awaited, Identity who) const {
        return spin_here(counter, awaited, who);
    }
};

}  // namespace cusync
