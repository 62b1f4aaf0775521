// The sum of a tile whose k-blocks are split over several blocks: evenly by split-K, by Stream-K as the blocks' shares
// happen to fall.
#pragma once

#include <kernels/gemm/sm80/tensor_core.cuh>
#include <kernels/gemm/sm90/shared_memory.cuh>

// An MMA thread's part of an output tile, in registers.
template <class S>
using Sums = float[S::frags_m][S::tile_n / 2];

// By instructions that the compiler does not see through: it would write the rest of the tile twice, with NaN and without.
template <class S>
__device__ __forceinline__ void poison(Sums<S>& sums) {
#pragma unroll
    for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
        for (int j = 0; j < S::tile_n / 2; ++j) asm volatile("mov.b32 %0, 0x7fffffff;" : "+f"(sums[i][j]));
}

// All MMA threads of the block.
template <class S>
__device__ __forceinline__ void mma_barrier() {
    asm volatile("bar.sync 1, %0;" ::"n"(S::mma_warps * 32) : "memory");
}

template <class S, int COUNT>
__device__ __forceinline__ void add_partials(float (&total)[COUNT], const float4* from, int splits, int stride) {
#pragma unroll 1
    for (; splits > 0; --splits, from += stride) {
#pragma unroll
        for (int i = 0; i < COUNT / 4; ++i) {
            const float4 part = from[i * S::mma_warps * 32];
            total[4 * i] += part.x, total[4 * i + 1] += part.y, total[4 * i + 2] += part.z, total[4 * i + 3] += part.w;
        }
    }
}

// Loads in flight while splits are added up: a divisor of the groups, as large as the registers allow.
constexpr int batch_of(int groups, int most) { return groups % most == 0 ? most : batch_of(groups, most - 1); }

// Turns this split's sum into that of all splits: those before it, itself, those after it. A batch of loads is in flight.
template <class S>
__device__ __forceinline__ void add_splits(Sums<S>& sums, const float4* all, int own, int splits, int stride) {
    constexpr int groups = S::tile_n / 8, batch = batch_of(groups, S::warpgroups * S::frags_m * groups <= 48 ? 8 : 4);
    each<S::frags_m * groups / batch>([&](auto index) {
        constexpr int first = index.value * batch;
        float total[4 * batch];
#pragma unroll
        for (int i = 0; i < 4 * batch; ++i) total[i] = 0.0f;
        float* const sum = sums[first / groups] + first % groups * 4;
        const float4* from = all + first * S::mma_warps * 32;
        add_partials<S>(total, from, own, stride);
#pragma unroll
        for (int i = 0; i < 4 * batch; ++i) total[i] += sum[i];
        add_partials<S>(total, from + (own + 1) * stride, splits - own - 1, stride);
#pragma unroll
        for (int i = 0; i < 4 * batch; ++i) sum[i] = total[i];
    });
}

// Leaves this split's sums in global memory for the block whose split comes last.
template <class S>
__device__ __forceinline__ void store_partials(const Sums<S>& sums, float4* to, unsigned* ticket) {
    constexpr int groups = S::tile_n / 8;
#pragma unroll
    for (int q = 0; q < S::frags_m * groups; ++q) {
        const float* sum = sums[q / groups] + q % groups * 4;
        to[q * S::mma_warps * 32] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    // Barrier before the release: the one thread's release publishes all MMA threads' sums.
    mma_barrier<S>();
    if constexpr (cusync::mutant != cusync::Mutant::no_post) {
        if (threadIdx.x == 128) cusync::add_release(ticket, 1u << 16);
    }
}

// One thread: waits until the other splits have stored their sums. False when the run is, or gets, aborted.
__device__ __forceinline__ bool wait_for_partials(const cusync::SyncParams& sync, unsigned* ticket, const WorkTile& work) {
    const cusync::Watch watch = cusync::watch_of(sync);
    const cusync::Identity who{sync.stage, work.tile.x, work.tile.y, work.split};
    const bool are_there = watch.spin_until([&] { return cusync::load_relaxed(ticket) >> 16; },
                                            static_cast<unsigned>(work.splits - 1), cusync::partial_sums, who);
    cusync::acquire_fence();  // after relaxed polls: orders the loads of the other splits' sums behind their stores
    return are_there;
}

// By one thread of the block as its split begins: how many of the tile's splits have begun before. Asked for so early, the
// answer is there when the split ends. Relaxed: what splits store, the ticket's upper half publishes.
__device__ __forceinline__ int count_split(const GemmSm90Params& p, const WorkTile& work) {
    return static_cast<int>(cusync::fetch_add_relaxed(p.tickets + work.ticket, 1) & 0xffff);
}

// Of a tile's splits all but the one that comes last store their sums; the last adds these to its own, in the order of
// the splits, so that the result does not depend on which was last. Returns whether this block now has the whole sum.
// The last waits only for splits that have come already, so wherever the others run there is no deadlock. Where it waits
// in vain all the same, the sum is NaN.
// `came_before`: of a short form, what count_split returned; the last to begin then is the one that adds.
template <class Form, class S>
__device__ __forceinline__ bool reduce_splits(const GemmSm90Params& p, const cusync::SyncParams& sync,
                                              const Shared<S>& shared, const WorkTile& work, Sums<S>& sums,
                                              int came_before) {
    constexpr int quads = S::frags_m * S::tile_n / 8, threads = S::mma_warps * 32;
    const int thread = static_cast<int>(threadIdx.x) - 128;
    unsigned* const ticket = p.tickets + work.ticket;  // splits that came, and above bit 16 those that stored their sums
    float4* const all =
        reinterpret_cast<float4*>(p.partials) + static_cast<long long>(work.sums) * quads * threads + thread;
    if constexpr (Form::is_short) {
        if (thread == 0) shared.control().arrived_before = came_before;
    } else {
        if (thread == 0) shared.control().arrived_before = cusync::fetch_add_acq_rel(ticket, 1) & 0xffff;
    }
    mma_barrier<S>();
    if (shared.control().arrived_before != work.splits - 1) {
        store_partials<S>(sums, all + work.split * quads * threads, ticket);
        return false;
    }
    if (thread == 0) {
        const bool are_there = wait_for_partials(sync, ticket, work);
        // Zero for the next launch, once all splits have stored their sums: those that this block has given up on still
        // add to the ticket.
        const unsigned all_came = work.splits | (work.splits - 1) << 16;
        if constexpr (S::is_stream_k || Form::is_short) cusync::add_relaxed(ticket, 0u - all_came);
        shared.control().are_splits_there = are_there;
    }
    // After the acquire: all MMA threads may read the other splits' sums.
    mma_barrier<S>();
    if (shared.control().are_splits_there) {
        add_splits<S>(sums, all, work.split, work.splits, quads * threads);
    } else {
        poison<S>(sums);
    }
    return true;
}
