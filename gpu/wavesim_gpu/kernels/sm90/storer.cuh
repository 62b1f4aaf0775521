// The storing warps, one per math warpgroup: have the copy engine take staged outputs to global memory, and post a tile
// when all of it is there.
#pragma once

#include <kernels/sm90/shared.cuh>

// Adds one in shared memory; returns what was there. Passes on, between the storing warps, that stores are complete.
__device__ __forceinline__ int count_stored(int* counter) {
    int before;
    asm volatile("atom.acq_rel.cta.shared::cta.add.s32 %0, [%1], 1;" : "=r"(before)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(counter))) : "memory");
    return before;
}

template <class S, int PIECES>
class Storer {
public:
    __device__ __forceinline__ Storer(const Stage& stage, const GemmSm90Params& p, const Shared<S>& shared, int group)
        : stage_(stage), p_(p), shared_(shared), group_(group) {}

    __device__ __forceinline__ void run() {
        for_each_tile<S>(shared_, [&](TileNote& note, int line) {
            if ((threadIdx.x & 31) == 0) store(note, line);
        });
    }

private:
    __device__ __forceinline__ void store(TileNote& note, int line) {
        const cusync::Tile tile = note.tile;
        for (int i = 0; i < S::frags_m * PIECES; ++i) {
            mbarrier::wait(shared_.staged(group_, staged_.slot), staged_.parity);
            const int slot = staged_.slot;
            staged_.advance();
            if (!note.is_whole) {
                mbarrier::arrive(shared_.drained(group_, slot));
                break;
            }
            if (i == 0) before_stores(tile);
            const int fragment = group_ * S::frags_m + i / PIECES;
            tma::store(p_.c, (tile.x * PIECES + i % PIECES) * 64, tile.y * S::tile_m + fragment * 64,
                       shared_.staging + (group_ * S::staged + slot) * S::panel_bytes);
            // All but the newest have been read: their slots are free.
            tma::wait_read<S::staged - 1>();
            if (i >= S::staged - 1) mbarrier::arrive(shared_.drained(group_, staged_.slot));
        }
        finish(note, line);
    }

    // The last storing warp to finish a tile posts it.
    __device__ __forceinline__ void finish(TileNote& note, int line) {
        const bool is_whole = note.is_whole;
        if (is_whole) {
            tma::wait_stored();
            if constexpr (S::staged == 2) mbarrier::arrive(shared_.drained(group_, staged_.slot ^ 1));
        }
        if (count_stored(&note.stored) < S::warpgroups - 1) return;
        if constexpr (cusync::mutant != cusync::Mutant::early_post) {
            if (is_whole) stage_.post(note.tile);
        }
        // A tile that Stream-K has cut up is recorded once, by the block that stores it.
        if (note.tile.linear < 0 || (S::is_stream_k && !is_whole)) return;
        stage_.recorder().finish(stage_.records(), note.tile.position, note.tile.linear, note.tile.z, line);
    }

    __device__ __forceinline__ void before_stores(const cusync::Tile& tile) const {
        if constexpr (cusync::mutant == cusync::Mutant::early_post) {
            if (group_ == 0) stage_.post(tile);
        }
        stage_.delay(tile);
    }

    const Stage& stage_;
    const GemmSm90Params& p_;
    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<S::staged> staged_;
};
