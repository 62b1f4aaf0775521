// An all-reduce or reduce-scatter of outputs that lie in each rank's own memory, in one kernel behind whatever product made
// them. A block stores its parts of them to the other ranks, posts them there, waits for theirs and adds: of two ranks the
// link carries as much as by a reduce-scatter and an all-gather, with one wait instead of two. While a part is waited for,
// the next is on its way. Sums are fp32 in the order of the ranks, rounded once. sm_80 and later; whole vectors of 8 outputs.
//
//   rank 0   block 0 | part 0 -> staging of 1, post | part 1 -> ... | wait: part 0 of 1 | add | part 2 -> ... | wait: part 1
//   rank 1   block 0 | part 0 -> staging of 0, post | part 1 -> ... | wait: part 0 of 0 | add | part 2 -> ... | wait: part 1
//
// Of more than two ranks each adds a share of many outputs and stores the sums to the others, where they are copied to the
// output: every rank sends and receives as much whatever their number. Each begins with the rank behind its own.
//
// Of two ranks whose outputs for each other the copy engine has taken there, under the product of their own half, the kernel
// begins with the posts. That place is the same in all calls: a rank's copy comes after it has waited for all that the other
// posts behind its reads of the call before.
//
// Nothing tells a rank that its staging may be written again: its places take turns, and a rank that is in call e has seen
// the other's posts of call e - 1, before which the other had ended call e - 2.

#include <cusync/dependent_launch.cuh>
#include <kernels/collective/semaphores.cuh>
#include <kernels/collective/sums.cuh>

namespace peers {

struct PushParams {
    PeerParams peers;
    uint4* given[max_ranks];        // by rank: own outputs that it adds
    uint4* there[max_ranks];        // by rank: where they go in its staging in even calls
    const uint4* here[max_ranks];   // by rank: where what it sends comes in even calls
    unsigned* posts[max_ranks];     // by rank: its words for this rank, one per part
    const unsigned* arrived[max_ranks];  // by rank: own words
    uint4* out;
    long long count;                // vectors of the sums
    long long apart;                // vectors from the place of even calls to that of odd ones
    // The same of few outputs: each word of 32 bits with its call's number beside it.
    unsigned long long* quick_there[max_ranks];
    const unsigned long long* quick_here[max_ranks];
    long long quick_apart;          // words
    // Of sums that are shared out, by rank: where own sums go and are posted, where its sums come and their words.
    uint4* sums_there[max_ranks];
    const uint4* sums_here[max_ranks];
    unsigned* finished_there[max_ranks];
    const unsigned* finished_here[max_ranks];
    int parts, reserved;
};
static_assert(sizeof(PushParams) == 904, "layout.py packs 904 bytes");

constexpr int push_threads = 512;
constexpr int push_blocks_per_sm = 2;

// A block's outputs of one part, a few vectors of each thread.
template <int VECTORS>
struct Part {
    long long first;  // of this thread
    int number;

    __device__ __forceinline__ explicit Part(int part) : number(part) {
        first = static_cast<long long>(part) * VECTORS * push_threads + threadIdx.x;
    }
    __device__ __forceinline__ long long at(int i) const { return first + i * push_threads; }
};

// To all other ranks; the leader posts it there.
template <int RANKS, int VECTORS>
__device__ __forceinline__ void push(const PushParams& p, const Part<VECTORS>& part, long long place, unsigned epoch) {
#pragma unroll 1
    for (int j = 1; j < RANKS; ++j) {
        const int r = (p.peers.rank + j) % RANKS;
        uint4 values[VECTORS];
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (part.at(i) < p.count) values[i] = p.given[r][part.at(i)];
        }
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (part.at(i) < p.count) p.there[r][place + part.at(i)] = values[i];
        }
    }
    // Block barrier: all threads' stores come before the leader's release.
    __syncthreads();
    if (!cusync::is_leader()) return;
    for (int r = 0; r < RANKS; ++r) {
        if (r != p.peers.rank) post(p.posts[r] + part.number, epoch);
    }
}

// What the others pushed, once it is there, and one's own.
template <int RANKS, bool IS_BF16, int VECTORS>
__device__ __forceinline__ bool add(const PushParams& p, const Part<VECTORS>& part, long long place, unsigned epoch) {
    bool is_there = true;
    if (cusync::is_leader()) {
        for (int r = 0; r < RANKS; ++r) {
            const Awaited what{Fact::arrived, r, part.number};
            if (r != p.peers.rank) is_there = wait_for(p.peers, p.arrived[r] + part.number, epoch, what) && is_there;
        }
    }
    // Block barrier: hands the leader's acquire, and what it found, on to all threads.
    is_there = __syncthreads_and(is_there) != 0;
    uint4 values[VECTORS][RANKS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int r = 0; r < RANKS; ++r) {
            if (part.at(i) < p.count) values[i][r] = r == p.peers.rank ? p.given[r][part.at(i)] : p.here[r][place + part.at(i)];
        }
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        if (part.at(i) < p.count) p.out[part.at(i)] = is_there ? add_ranks<RANKS, IS_BF16>(values[i]) : make_uint4(~0u, ~0u, ~0u, ~0u);
    }
    return is_there;
}

// All threads, at the end of a block. Nobody is told that the call has ended: the next one's posts say it.
__device__ __forceinline__ void end_call(const PeerParams& p, unsigned epoch) {
    __syncthreads();
    // Acquire and release: the last block counts the call behind all blocks' reads of its number.
    if (!cusync::is_leader() || cusync::fetch_add_acq_rel(p.calls + 1, 1) != static_cast<unsigned>(p.block_count - 1)) return;
    require_alone(p, epoch);
    cusync::store_relaxed(p.calls + 1, 0);
    cusync::store_relaxed(p.calls, epoch);
}

// A call's only kernel; all of its blocks are resident together with those of ranks that share the GPU.
template <int RANKS, bool IS_BF16, int VECTORS>
__global__ void __launch_bounds__(push_threads, push_blocks_per_sm) push_sums(const __grid_constant__ PushParams p) {
    // The product before it: its outputs are read here.
    cusync::wait_for_previous_grid();
    if (cusync::is_leader()) enter_block(p.peers);
    const unsigned epoch = epoch_of(p.peers);
    const long long place = parity_of(p.peers, epoch) * p.apart;
    const int step = static_cast<int>(gridDim.x);
    push<RANKS>(p, Part<VECTORS>(blockIdx.x), place, epoch);
#pragma unroll 1
    for (int number = blockIdx.x; number < p.parts; number += step) {
        if (number + step < p.parts) push<RANKS>(p, Part<VECTORS>(number + step), place, epoch);
        add<RANKS, IS_BF16>(p, Part<VECTORS>(number), place, epoch);
    }
    end_call(p.peers, epoch);
}

// Own sums of a part, which this thread has just stored, to all other ranks.
template <int RANKS>
__device__ __forceinline__ void send_sums(const PushParams& p, const Part<1>& part, unsigned epoch) {
    const long long at = part.at(0);
#pragma unroll 1
    for (int j = 1; j < RANKS; ++j) {
        if (at < p.count) p.sums_there[(p.peers.rank + j) % RANKS][at] = p.out[at];
    }
    // Block barrier: all threads' stores come before the leader's release.
    __syncthreads();
    if (!cusync::is_leader()) return;
    for (int j = 1; j < RANKS; ++j) post(p.finished_there[(p.peers.rank + j) % RANKS] + part.number, epoch);
}

// Another rank's sums of a part to the output; NaN where they never came.
__device__ __forceinline__ void take_sums(const PushParams& p, int r, const Part<1>& part, unsigned epoch) {
    bool is_there = true;
    if (cusync::is_leader()) is_there = wait_for(p.peers, p.finished_here[r] + part.number, epoch, {Fact::finished, r, part.number});
    // Block barrier: hands the leader's acquire on to all threads.
    is_there = __syncthreads_and(is_there) != 0;
    const long long at = part.at(0);
    if (at < p.count) p.given[r][at] = is_there ? p.sums_here[r][at] : make_uint4(~0u, ~0u, ~0u, ~0u);
}

// The same where each rank adds a share: `count` vectors, `given[r]` those that rank r adds. What is sent for a part comes
// before any wait for it, on all ranks.
template <int RANKS, bool IS_BF16>
__global__ void __launch_bounds__(push_threads, push_blocks_per_sm) push_shares(const __grid_constant__ PushParams p) {
    cusync::wait_for_previous_grid();
    if (cusync::is_leader()) enter_block(p.peers);
    const unsigned epoch = epoch_of(p.peers);
    const long long place = parity_of(p.peers, epoch) * p.apart;
    const int step = static_cast<int>(gridDim.x);
#pragma unroll 1
    for (int number = blockIdx.x; number < p.parts; number += step) push<RANKS>(p, Part<1>(number), place, epoch);
#pragma unroll 1
    for (int number = blockIdx.x; number < p.parts; number += step) {
        if (add<RANKS, IS_BF16>(p, Part<1>(number), place, epoch)) send_sums<RANKS>(p, Part<1>(number), epoch);
    }
    // Block barrier: a wait that gives up below reports behind all threads' sums.
    __syncthreads();
    // The same parts that the block has pushed: where they never come it writes over what no other block still reads.
#pragma unroll 1
    for (int number = blockIdx.x; number < p.parts; number += step) {
        for (int j = 1; j < RANKS; ++j) take_sums(p, (p.peers.rank + j) % RANKS, Part<1>(number), epoch);
    }
    end_call(p.peers, epoch);
}

// Of two ranks, where `here` holds what the other's copy engine has stored. A reduce-scatter posts only that it has read.
template <bool IS_BF16, bool SCATTERS>
__global__ void __launch_bounds__(push_threads, push_blocks_per_sm) push_halves(const __grid_constant__ PushParams p) {
    cusync::wait_for_previous_grid();
    if (cusync::is_leader()) enter_block(p.peers);
    const unsigned epoch = epoch_of(p.peers);
    const int step = static_cast<int>(gridDim.x), other = p.peers.rank ^ 1;
    // The copies have ended: this kernel comes behind them in the stream, and the release hands that on.
    if (cusync::is_leader()) {
        for (int number = blockIdx.x; number < p.parts; number += step) post(p.posts[other] + number, epoch);
    }
#pragma unroll 1
    for (int number = blockIdx.x; number < p.parts; number += step) {
        const bool is_there = add<2, IS_BF16>(p, Part<1>(number), 0, epoch);
        if constexpr (SCATTERS) {
            // Block barrier: all threads have read the part before the leader says so.
            __syncthreads();
            if (cusync::is_leader()) post(p.finished_there[other] + number, epoch);
        } else {
            if (is_there) send_sums<2>(p, Part<1>(number), epoch);
        }
    }
    // Block barrier: a wait that gives up below reports behind all threads' sums.
    __syncthreads();
#pragma unroll 1
    for (int number = blockIdx.x; number < p.parts; number += step) {
        if constexpr (SCATTERS) {
            if (cusync::is_leader()) wait_for(p.peers, p.finished_here[other] + number, epoch, {Fact::finished, other, number});
        } else {
            take_sums(p, other, Part<1>(number), epoch);
        }
    }
    end_call(p.peers, epoch);
}

constexpr int quick_threads = 256;
constexpr int words_of_vector = 4;

// Relaxed, 64 bits at once: whoever sees the call's number has the word beside it, so that nothing needs a fence.
__device__ __forceinline__ void store_word(unsigned long long* to, unsigned word, unsigned epoch) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(static_cast<unsigned long long>(epoch) << 32 | word) : "memory");
}

// The word beside the call's number. All ones, and is_there false, once its time is over, or another wait's is.
__device__ __forceinline__ unsigned wait_for_word(const PushParams& p, const unsigned long long* from, int source, unsigned epoch, bool& is_there) {
    const unsigned long long began = cusync::time_ns();
    for (;;) {
        unsigned long long seen;
        asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(from) : "memory");
        if (static_cast<unsigned>(seen >> 32) == epoch) return static_cast<unsigned>(seen);
        const bool is_expired = cusync::time_ns() - began > p.peers.limit_ns;
        if (is_expired) abort_all(p.peers);
        if (is_expired || load_relaxed(&p.peers.errors()->aborted) != 0) {
            report(p.peers, {Fact::arrived, source, static_cast<int>(blockIdx.x)}, static_cast<unsigned>(seen >> 32), epoch);
            is_there = false;
            return ~0u;
        }
    }
}

// Of few outputs, where a fence and a post would take longer than twice the bytes do. A vector of each thread.
template <int RANKS, bool IS_BF16>
__global__ void __launch_bounds__(quick_threads) push_few(const __grid_constant__ PushParams p) {
    cusync::wait_for_previous_grid();
    if (cusync::is_leader()) enter_block(p.peers);
    const unsigned epoch = epoch_of(p.peers);
    const long long at = static_cast<long long>(blockIdx.x) * quick_threads + threadIdx.x;
    const long long place = parity_of(p.peers, epoch) * p.quick_apart + at;
    if (at < p.count) {
        uint4 values[RANKS];
#pragma unroll
        for (int r = 0; r < RANKS; ++r) {
            values[r] = p.given[r][at];
            if (r == p.peers.rank) continue;
            const unsigned words[words_of_vector] = {values[r].x, values[r].y, values[r].z, values[r].w};
#pragma unroll
            for (int i = 0; i < words_of_vector; ++i) store_word(p.quick_there[r] + place + i * p.count, words[i], epoch);
        }
        bool is_there = true;
#pragma unroll
        for (int r = 0; r < RANKS; ++r) {
            if (r == p.peers.rank) continue;
            unsigned words[words_of_vector];
#pragma unroll
            for (int i = 0; i < words_of_vector; ++i) words[i] = wait_for_word(p, p.quick_here[r] + place + i * p.count, r, epoch, is_there);
            values[r] = make_uint4(words[0], words[1], words[2], words[3]);
        }
        p.out[at] = is_there ? add_ranks<RANKS, IS_BF16>(values) : make_uint4(~0u, ~0u, ~0u, ~0u);
    }
    end_call(p.peers, epoch);
}

}  // namespace peers

using peers::push_few;
using peers::push_halves;
using peers::push_shares;
using peers::push_sums;
