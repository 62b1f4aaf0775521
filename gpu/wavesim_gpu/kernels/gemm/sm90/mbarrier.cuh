// Barriers in shared memory that threads and TMA arrive at: each has a phase. A circular buffer has
// two per slot, `full` and `empty`; whoever fills waits for empty, whoever empties waits for full. Addresses are
// shared-window addresses; "remote" means the same place in another block of the cluster.
//
// A wait here has no time limit: it is for TMA, or for warps of the same cluster, and what these wait for in
// the end, semaphores and the splits of a tile, has one.
#pragma once

#ifndef MBARRIER_LIMIT_NS
#define MBARRIER_LIMIT_NS 0  // above zero, for debugging: a wait longer than this ends the kernel with an error
#endif

namespace mbarrier {

__device__ __forceinline__ void init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// After init, before any thread of the cluster or TMA uses the barriers; a cluster barrier follows.
__device__ __forceinline__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The shared-window address of the same place in block `rank` of the cluster.
__device__ __forceinline__ unsigned remote(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// A word into the same place of block `rank`.
__device__ __forceinline__ void store_remote(unsigned address, unsigned rank, int word) {
    asm volatile("st.release.cluster.shared::cluster.s32 [%0], %1;" ::"r"(remote(address, rank)), "r"(word) : "memory");
}

// The same, which counts as four bytes copied at the same barrier there.
__device__ __forceinline__ void store_remote(unsigned address, unsigned rank, int word, unsigned barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(remote(address, rank)),
                 "r"(word), "r"(remote(barrier, rank))
                 : "memory");
}

// Says nothing of what this thread wrote to memory: enough where the slot was only read.
__device__ __forceinline__ void arrive_remote(unsigned barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote(barrier, rank)) : "memory");
}

// Arrives, and has the phase end only once `bytes` have been copied as well.
__device__ __forceinline__ void arrive_and_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Whether the phase of that parity has ended; the hardware lets the thread sleep a while before it says no. Acquire:
// what those who arrived wrote, or TMA copied, may now be read.
__device__ __forceinline__ bool try_wait(unsigned barrier, unsigned parity) {
    unsigned ended;
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(ended) : "r"(barrier), "r"(parity) : "memory");
    return ended != 0;
}

// The same, asked without sleeping.
__device__ __forceinline__ bool test_wait(unsigned barrier, unsigned parity) {
    unsigned ended;
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(ended) : "r"(barrier), "r"(parity) : "memory");
    return ended != 0;
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
#if MBARRIER_LIMIT_NS > 0
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began)::"memory");
    while (!try_wait(barrier, parity)) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
        if (now - began > MBARRIER_LIMIT_NS) __trap();
    }
#else
    while (!try_wait(barrier, parity)) {}
#endif
}

// A place in a circular buffer of SLOTS, and the parity of the pass through it.
template <int SLOTS>
struct Place {
    int slot = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
    __device__ __forceinline__ void advance(int places) {
        const int passes = (slot + places) / SLOTS;
        slot += places - passes * SLOTS, parity ^= passes & 1;
    }
};

}  // namespace mbarrier
