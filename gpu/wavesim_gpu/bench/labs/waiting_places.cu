// Where a semaphore can live, and what a wait and a post cost there: global memory (the L2), or shared memory of a block
// of the cluster.
//
//   ping-pong     block A:  post ------> wait        between two blocks, `rounds` times there and back; half of a round is
//                 block B:       wait -> post        one way: the post, its path, and on average half a look
//
// Shared memory is another block's only while that block lives and only within its cluster. Every kernel here that
// touches it ends behind a barrier of the cluster.

#include <cusync/clock.cuh>
#include <kernels/gemm/sm90/mbarrier.cuh>

constexpr int words_apart = 64;  // between two words of global memory, so that they share no line

enum Way { global_flag, remote_store, remote_look, remote_add, remote_arrive, async_store, cluster_barrier };

__device__ __forceinline__ unsigned rank_in_cluster() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Arrival releases, the wait acquires: what any thread of the cluster did before it, all see behind it.
__device__ __forceinline__ void sync_cluster() {
    __syncwarp();  // one thread may have been on its own until here
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Acquire, cluster scope, of a word in the block's own shared memory, or in another block's: behind it the poster's
// earlier stores may be read.
__device__ __forceinline__ unsigned load_acquire_own(unsigned address) {
    unsigned value;
    asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

__device__ __forceinline__ unsigned load_acquire_remote(unsigned address) {
    unsigned value;
    asm volatile("ld.acquire.cluster.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

// Relaxed: no data rides on it.
__device__ __forceinline__ unsigned load_relaxed_own(unsigned address) {
    unsigned value;
    asm volatile("ld.relaxed.cluster.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

__device__ __forceinline__ unsigned load_relaxed_remote(unsigned address) {
    unsigned value;
    asm volatile("ld.relaxed.cluster.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

// Release, cluster scope: what this thread stored before, to global memory too, is visible to who acquires the word.
__device__ __forceinline__ void store_release_shared(unsigned address, unsigned value) {
    asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// The same, for a semaphore with several posters.
__device__ __forceinline__ void add_release_shared(unsigned address, unsigned value) {
    asm volatile("red.release.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Release, cluster scope. PTX's default scope is the block, which who waits is not in.
__device__ __forceinline__ void arrive_release_remote(unsigned barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Acquire, cluster scope, for the same reason.
__device__ __forceinline__ void wait_acquire_cluster(unsigned barrier, unsigned parity) {
    unsigned ended;
    do {
        asm volatile(
            "{ .reg .pred p;\n"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p; }"
            : "=r"(ended) : "r"(barrier), "r"(parity) : "memory");
    } while (ended == 0);
}

// A block's semaphore, in each place that one can be: addresses in the shared window, and in global memory.
struct Semaphore {
    unsigned word, barrier;
    unsigned* flag;
};

// The `number`-th post, from 1, to who waits on `theirs`.
template <int WAY>
__device__ __forceinline__ void post(const Semaphore& own, const Semaphore& theirs, unsigned number) {
    if constexpr (WAY == global_flag) cusync::add_release(theirs.flag, 1);
    if constexpr (WAY == remote_store) store_release_shared(theirs.word, number);
    if constexpr (WAY == remote_look) store_release_shared(own.word, number);  // it stays here; the other looks from afar
    if constexpr (WAY == remote_add) add_release_shared(theirs.word, 1);
    if constexpr (WAY == remote_arrive) arrive_release_remote(theirs.barrier);
    // The word and the arrival in one. It publishes that word alone: nothing that this thread stored before.
    if constexpr (WAY == async_store)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(theirs.word), "r"(number),
                     "r"(theirs.barrier)
                     : "memory");
}

template <int WAY>
__device__ __forceinline__ void wait(const Semaphore& own, const Semaphore& theirs, unsigned number) {
    if constexpr (WAY == global_flag)
        while (cusync::load_acquire(own.flag) < number) {}
    if constexpr (WAY == remote_store || WAY == remote_add)
        while (load_acquire_own(own.word) < number) {}
    if constexpr (WAY == remote_look)
        while (load_acquire_remote(theirs.word) < number) {}
    if constexpr (WAY == async_store) mbarrier::arrive_and_expect_tx(own.barrier, 4);  // this phase ends with four bytes
    if constexpr (WAY == remote_arrive || WAY == async_store) wait_acquire_cluster(own.barrier, (number - 1) & 1);
}

// One cluster. Its first block and block `partner` post to each other in turns; with cluster_barrier all blocks meet.
// duration: nanoseconds and cycles of all rounds but the first, in which the other may still be on its way.
template <int WAY>
__global__ void cluster_ping_pong(unsigned* flags, unsigned partner, unsigned rounds, ulonglong2* duration) {
    __shared__ alignas(8) unsigned long long barrier;
    __shared__ unsigned word;
    const unsigned rank = rank_in_cluster(), other = rank == 0 ? partner : 0;
    const auto window = [](const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); };
    const Semaphore own{window(&word), window(&barrier), flags + rank * words_apart};
    const Semaphore theirs{mbarrier::remote(own.word, other), mbarrier::remote(own.barrier, other), flags + other * words_apart};
    if (threadIdx.x == 0) {
        word = 0;
        mbarrier::init(own.barrier, 1);
        mbarrier::fence_init();
    }
    sync_cluster();  // all semaphores are made before anybody posts
    unsigned long long began_ns = 0, began_cycles = 0;
    const bool plays = WAY == cluster_barrier || (threadIdx.x == 0 && (rank == 0 || rank == partner));
    for (unsigned i = 1; plays && i <= rounds; ++i) {
        if (i == 2) began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
        if constexpr (WAY == cluster_barrier) {
            sync_cluster(), sync_cluster();  // there and back
        } else {
            if (rank == 0) post<WAY>(own, theirs, i);
            wait<WAY>(own, theirs, i);
            if (rank != 0) post<WAY>(own, theirs, i);
        }
    }
    if (rank == 0 && threadIdx.x == 0)
        *duration = make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
    sync_cluster();  // nobody leaves while another still posts to it, or looks at it
}

// The same through global memory between the first block and block `partner` of a grid with a block per SM. sms: of all.
extern "C" __global__ void grid_ping_pong(unsigned* flags, unsigned partner, unsigned rounds, ulonglong2* duration, unsigned* sms) {
    if (threadIdx.x != 0) return;
    sms[blockIdx.x] = cusync::sm_id();
    if (blockIdx.x != 0 && blockIdx.x != partner) return;
    const bool is_first = blockIdx.x == 0;
    const Semaphore own{0, 0, flags + (is_first ? 0 : words_apart)}, theirs{0, 0, flags + (is_first ? words_apart : 0)};
    unsigned long long began_ns = 0, began_cycles = 0;
    for (unsigned i = 1; i <= rounds; ++i) {
        if (i == 2) began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
        if (is_first) post<global_flag>(own, theirs, i);
        wait<global_flag>(own, theirs, i);
        if (!is_first) post<global_flag>(own, theirs, i);
    }
    if (is_first) *duration = make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
}

// Which SM each block is on, all of them at once: launched in clusters, whose blocks share a GPC.
extern "C" __global__ void places(unsigned* sms, unsigned long long hold_ns) {
    if (threadIdx.x != 0) return;
    sms[blockIdx.x] = cusync::sm_id();
    cusync::pause_ns(hold_ns);
}

enum Looked { at_global, at_own, at_remote };

// Every block looks `looks` times at a word that stays 0, each time when the look before has its answer: the grid's one
// word, its own block's, or that of the cluster's first block.
template <int WHERE>
__global__ void look_again(const unsigned* flag, unsigned looks, ulonglong2* durations) {
    __shared__ unsigned word;
    if (threadIdx.x == 0) word = 0;
    sync_cluster();
    const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(&word));
    const unsigned there = mbarrier::remote(here, 0);
    if (threadIdx.x == 0) {
        const unsigned long long began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
#pragma unroll 1
        for (unsigned i = 0; i < looks; ++i) {
            unsigned seen = 0;
            if constexpr (WHERE == at_global) seen = cusync::load_relaxed(flag);
            if constexpr (WHERE == at_own) seen = load_relaxed_own(here);
            if constexpr (WHERE == at_remote) seen = load_relaxed_remote(there);
            if (seen != 0) break;  // the next look needs this one's answer
        }
        durations[blockIdx.x] = make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
    }
    sync_cluster();
}

enum Posted { nothing, to_global, to_remote, to_remote_unordered };

// A block's rounds: store a tile to global memory, post it, and go on when the post is out. Clusters of two; a remote
// post goes to the other block. `to_remote_unordered` publishes no tile: what the arrival costs without its release.
template <int TO>
__global__ void tile_posts(unsigned* flags, float4* tiles, int tile_quads, int rounds, int work, ulonglong2* durations) {
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    const unsigned there = mbarrier::remote(here, rank_in_cluster() ^ 1);
    if (threadIdx.x == 0) {
        mbarrier::init(here, 1);
        mbarrier::fence_init();
    }
    sync_cluster();
    float4* tile = tiles + static_cast<size_t>(blockIdx.x) * tile_quads * blockDim.x;
    float value = threadIdx.x;
    const unsigned long long began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < tile_quads; ++i)
            tile[i * blockDim.x + threadIdx.x] = make_float4(value, value, value, value);
        __syncthreads();  // the whole block has stored; a release below covers what this barrier has shown its thread
        if (threadIdx.x == 0) {
            if constexpr (TO == to_global) cusync::add_release(flags + blockIdx.x * words_apart, 1);
            if constexpr (TO == to_remote) arrive_release_remote(there);
            if constexpr (TO == to_remote_unordered)
                asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
        }
        __syncthreads();  // the next tile's work begins when the post is out
#pragma unroll 1
        for (int i = 0; i < work; ++i) value = value * 0.999f + 0.5f;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        durations[blockIdx.x] = make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
    sync_cluster();
}

// Block 0 keeps a semaphore per client in its shared memory. No client can reach it there, as a cluster is a few blocks:
// a post is a request by global memory, and who waits is answered by global memory. Block 1 + i is client i; clients 2j
// and 2j + 1 post to each other in turns.
//
//   client 2j --request--> server's thread 2j --answer--> client 2j + 1      two ways through the L2 in place of one
//
// The server's thread i looks for client i's requests.
extern "C" __global__ void served_ping_pong(unsigned* requests, unsigned* answers, unsigned rounds, ulonglong2* durations) {
    __shared__ unsigned kept[1024];
    if (blockIdx.x == 0) {
        kept[threadIdx.x] = 0;
        __syncthreads();
        const unsigned clients = gridDim.x - 1, client = threadIdx.x;
        for (unsigned served = 0; client < clients && served < rounds;) {
            // Acquire, and release below: what a client stored before its request, the one that is answered may read.
            if (cusync::load_acquire(requests + client * words_apart) == served) continue;
            ++served;
            const unsigned value = atomicAdd(kept + (client ^ 1), 1) + 1;
            cusync::store_release(answers + (client ^ 1) * words_apart, value);
        }
        return;
    }
    if (threadIdx.x != 0) return;
    const unsigned client = blockIdx.x - 1;
    unsigned long long began_ns = 0, began_cycles = 0;
    for (unsigned i = 1; i <= rounds; ++i) {
        if (i == 2) began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
        if (client % 2 == 0) cusync::store_release(requests + client * words_apart, i);
        while (cusync::load_acquire(answers + client * words_apart) < i) {}
        if (client % 2 == 1) cusync::store_release(requests + client * words_apart, i);
    }
    durations[client] = make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
}
