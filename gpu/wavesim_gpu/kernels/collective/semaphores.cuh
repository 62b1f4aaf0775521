// Semaphores between GPUs: words in the memory of the one that waits, stored to over NVLink by the one that posts. A word
// has one poster, who stores the number of the call (its epoch); who waits needs that number or a later one. So nothing
// is ever reset: a replayed graph counts on, and no post of one call can be taken for one of another.
//
//   rank 0: TMA stores of a tile ---> | staging of rank 1 |       TMA has completed them, then st.release.sys
//           epoch 7 ----------------> | arrived[0][tile]  | <--- rank 1 polls its own memory: ld.relaxed.sys, ld.acquire.sys
//
// System scope throughout: gpu scope orders nothing between threads of two GPUs.
#pragma once

#include <cusync/clock.cuh>
#include <cusync/mutant.cuh>

namespace peers {

constexpr int max_ranks = 8;
constexpr int max_waiters = 64;

// Relaxed: says only what the word held. Whoever goes on to read a peer's data loads once more with acquire.
__device__ __forceinline__ unsigned load_relaxed(const unsigned* word) {
    unsigned value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

// Acquire, system scope: where it reads the awaited epoch, what another GPU stored before its post may be read.
__device__ __forceinline__ unsigned load_acquire(const unsigned* word) {
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

// Release, system scope: every store that this thread has made, or has been shown by a barrier just before, is visible
// to whoever acquires the new value, on whatever GPU.
__device__ __forceinline__ void store_release(unsigned* word, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// Relaxed: no data rides on it.
__device__ __forceinline__ void store_relaxed(unsigned* word, unsigned value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// What a wait was for: tiles (or rows) of a source that are to arrive, outputs that others finish, others that end. `alone`:
// nobody waited; two calls over the same words ran at the same time.
enum class Fact { arrived = 0, finished = 1, done = 2, sent = 3, alone = 4 };

// One wait that gave up. `unit`: which of the fact's words.
struct Waiter {
    int fact, source, unit, sm;
    unsigned seen, awaited;
};

// Of one rank, in its own memory. Whoever gives up writes who waited for what, and tells all ranks: none waits then.
struct Errors {
    unsigned aborted;  // 0, or 1 + the rank that gave up
    unsigned waiter_count;
    Waiter waiters[max_waiters];
    unsigned* told;  // a word in the host's memory that is set with the first record; null: nobody looks there
    unsigned begun;  // blocks of this call, where it has one kernel
};
static_assert(sizeof(Errors) == 1560, "layout.py packs 1560 bytes");

// What each rank sees of one rank's memory.
struct RankMemory {
    unsigned* done;  // by source: its latest call that has ended
    Errors* errors;
};

// What every kernel of a call gets of its rank.
struct PeerParams {
    RankMemory ranks[max_ranks];
    unsigned* calls;  // own: how many calls have ended, and how many blocks of this one have retired
    unsigned long long limit_ns;
    int rank, rank_count;
    int block_count;  // of all kernels of the call
    int parity_mask;  // 1: what is sent in even and in odd calls has places of its own; 0: the same place

    __device__ __forceinline__ Errors* errors() const { return ranks[rank].errors; }
};
static_assert(sizeof(PeerParams) == 160, "layout.py packs 160 bytes");

// The number of the call that this kernel belongs to. Its last block to retire counts it, and not before.
__device__ __forceinline__ unsigned epoch_of(const PeerParams& p) { return cusync::load_relaxed(p.calls) + 1; }

// Which of the places for what is sent a call has.
__device__ __forceinline__ unsigned parity_of(const PeerParams& p, unsigned epoch) {
    return epoch & static_cast<unsigned>(p.parity_mask);
}

// Also once the number has passed 2^32.
__device__ __forceinline__ bool has_reached(unsigned seen, unsigned epoch) { return static_cast<int>(seen - epoch) >= 0; }

// Posts to another rank, or to one's own.
__device__ __forceinline__ void post(unsigned* word, unsigned epoch) {
    if constexpr (cusync::mutant == cusync::Mutant::no_post) return;
    if constexpr (cusync::mutant == cusync::Mutant::no_fence) {
        store_relaxed(word, epoch);
    } else {
        store_release(word, epoch);
    }
}

// Who waits for what, for the record of a wait that gives up.
struct Awaited {
    Fact fact;
    int source, unit;
};

__device__ __forceinline__ void report(const PeerParams& p, const Awaited& what, unsigned seen, unsigned epoch) {
    const unsigned index = atomicAdd(&p.errors()->waiter_count, 1u);
    if (index >= max_waiters) return;
    p.errors()->waiters[index] = {static_cast<int>(what.fact), what.source, what.unit, static_cast<int>(cusync::sm_id()), seen, epoch};
    // Release: the host reads the record once it has seen the word.
    if (p.errors()->told != nullptr) store_release(p.errors()->told, 1u);
}

__device__ __forceinline__ void abort_all(const PeerParams& p) {
#pragma unroll 1
    for (int r = 0; r < p.rank_count; ++r) store_relaxed(&p.ranks[r].errors->aborted, 1u + static_cast<unsigned>(p.rank));
}

// Spins until the word has reached the epoch; false once its time is over, or another wait's is, on whatever rank.
// Relaxed polls: the caller acquires afterwards.
__device__ __forceinline__ bool spin(const PeerParams& p, const unsigned* word, unsigned epoch, const Awaited& what) {
    if (load_relaxed(&p.errors()->aborted) != 0) return false;
    const unsigned long long began = cusync::time_ns();
    for (;;) {
        const unsigned seen = load_relaxed(word);
        if (has_reached(seen, epoch)) return true;
        const bool is_expired = cusync::time_ns() - began > p.limit_ns;
        if (is_expired) abort_all(p);
        if (is_expired || load_relaxed(&p.errors()->aborted) != 0) {
            report(p, what, seen, epoch);
            return false;
        }
        __nanosleep(20);
    }
}

// One thread. Until the word has reached the epoch: this thread's later loads see what was stored before the post.
__device__ __forceinline__ bool wait_for(const PeerParams& p, const unsigned* word, unsigned epoch, const Awaited& what) {
    if constexpr (cusync::mutant == cusync::Mutant::no_wait) return true;
    // Acquire: where the first look sees the epoch, it is all that a wait costs.
    if (has_reached(load_acquire(word), epoch)) return true;
    const bool is_there = spin(p, word, epoch, what);
    load_acquire(word);  // spinning was relaxed
    return is_there;
}

// By one thread of a block of a call that has one kernel, before its work. Relaxed: only the call's last block looks.
__device__ __forceinline__ void enter_block(const PeerParams& p) { cusync::add_relaxed(&p.errors()->begun, 1); }

// By the call's last block. Blocks of another call have begun before all of this one's had ended: both took one number.
__device__ __forceinline__ void require_alone(const PeerParams& p, unsigned epoch) {
    const unsigned begun = cusync::load_relaxed(&p.errors()->begun), all = static_cast<unsigned>(p.block_count);
    cusync::store_relaxed(&p.errors()->begun, 0);
    if (begun <= all) return;
    abort_all(p);
    report(p, {Fact::alone, p.rank, 0}, begun, epoch);
}

// By the leader of a block, behind the barrier that ends its work. The last block of the call counts it, and tells all
// ranks that this one will read no more of what they sent. Acquire and release: that comes after all blocks' reads.
template <bool HAS_ENTERED = false>  // by `enter_block`
__device__ __forceinline__ void retire_block(const PeerParams& p, unsigned epoch) {
    if (cusync::fetch_add_acq_rel(p.calls + 1, 1) != static_cast<unsigned>(p.block_count - 1)) return;
    if constexpr (HAS_ENTERED) require_alone(p, epoch);
    cusync::store_relaxed(p.calls + 1, 0);
    cusync::store_relaxed(p.calls, epoch);
#pragma unroll 1
    for (int r = 0; r < p.rank_count; ++r) post(p.ranks[r].done + p.rank, epoch);
}

}  // namespace peers
