// The epilogue warps, one per MMA warpgroup: store its outputs by TMA, and post a tile when all of it is in memory.
#pragma once

#include <kernels/attention/sm90/shared_memory.cuh>

template <class S>
class EpilogueWarp {
public:
    __device__ __forceinline__ EpilogueWarp(const AttentionSm90Params& p, const Shared<S>& shared, int group)
        : p_(p), shared_(shared), group_(group) {}

    template <class Stage>
    __device__ __forceinline__ void run(const Stage& stage) {
        for_each_tile(shared_, [&](WorkTile& work, int line) {
            if ((threadIdx.x & 31) == 0) store(stage, work, line);
        });
    }

private:
    template <class Stage>
    __device__ __forceinline__ void store(const Stage& stage, WorkTile& work, int line) {
        mbarrier::wait(shared_.out_full(group_), place_.parity);
        place_.advance();
        stage.before_stores(work.tile, group_ == 0);
        // Rows past the sequence's end are left out.
        const tma::HeadCorner at{work.tile.x * S::panels, work.row + 64 * group_, work.sequence};
        if (at.row < p_.length) tma::store_head(p_.out, at, shared_.out_of(group_));
        tma::wait_read<0>();
        mbarrier::arrive(shared_.out_empty(group_));
        tma::wait_stored();
        // The last warp to finish a tile posts it.
        if (count_stored(&work.stored) < S::warpgroups - 1) return;
        if constexpr (cusync::mutant != cusync::Mutant::early_post) stage.post(work.tile);
        stage.record_end(work.tile, line);
    }

    // Adds one in shared memory and returns what was there. Acquire and release, block scope: the last epilogue warp of a
    // tile posts what the others know to be complete.
    static __device__ __forceinline__ int count_stored(int* counter) {
        int before;
        asm volatile("atom.acq_rel.cta.shared::cta.add.s32 %0, [%1], 1;" : "=r"(before)
                     : "r"(static_cast<unsigned>(__cvta_generic_to_shared(counter))) : "memory");
        return before;
    }

    const AttentionSm90Params& p_;
    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<1> place_;
};
