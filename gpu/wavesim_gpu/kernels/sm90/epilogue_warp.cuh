// The epilogue warps, one per MMA warpgroup: store its outputs by TMA, and post a tile when all of it is in memory.
#pragma once

#include <kernels/sm90/shared_memory.cuh>

// Adds one in shared memory and returns what was there. Acquire and release, block scope: the last epilogue warp of a
// tile posts what the others know to be complete.
__device__ __forceinline__ int count_stored(int* counter) {
    int before;
    asm volatile("atom.acq_rel.cta.shared::cta.add.s32 %0, [%1], 1;" : "=r"(before)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(counter))) : "memory");
    return before;
}

template <class S>
class EpilogueWarp {
public:
    __device__ __forceinline__ EpilogueWarp(const Shared<S>& shared, int group) : shared_(shared), group_(group) {}

    template <class... Parts>
    __device__ __forceinline__ void run(const Parts&... parts) {
        for_each_tile<S>(shared_, mbarrier::wait, [&](WorkTile& work, int line) {
            if ((threadIdx.x & 31) != 0) return;
            with_part(work, [&](const auto& part) { store(part, work, line); }, parts...);
        });
    }

private:
    template <class Part>
    __device__ __forceinline__ void store(const Part& part, WorkTile& work, int line) {
        constexpr int pieces = pieces_of<S, Part::activation>(), at_once = pieces_at_once<S, Part::activation>();
        const cusync::Tile tile = work.tile;
        const bool is_last_column = tile.x == part.sync.generated.columns - 1;
        for (int i = 0; i < S::frags_m * pieces; ++i) {
            mbarrier::wait(shared_.epilogue_full(group_, buffer_.slot), buffer_.parity);
            const int slot = buffer_.slot;
            buffer_.advance();
            if (!work.has_outputs[group_]) {
                mbarrier::arrive(shared_.epilogue_empty(group_, slot));
                break;
            }
            if (i == 0) part.stage.before_stores(tile, group_ == 0);
            const int fragment = group_ * S::frags_m + i / pieces;
            store_piece<Part::activation>(part.p, tile, is_last_column, i % pieces, tile.y * S::tile_m + fragment * 64,
                                          shared_.epilogue + (group_ * S::epilogue_buffers + slot) * S::panel_bytes);
            if (is_reading_) {
                tma::wait_read<1>();
                mbarrier::arrive(shared_.epilogue_empty(group_, slot ^ 1));
            }
            // Deferred pieces must find all buffers free: a warp that waited for a buffer in the next tile's main loop
            // would hold up the warpgroup's other warps, which it waits for itself.
            is_reading_ = S::epilogue_buffers == 2 && i != at_once - 1;
            if (!is_reading_) {
                tma::wait_read<0>();
                mbarrier::arrive(shared_.epilogue_empty(group_, slot));
            }
        }
        finish(part.stage, work, line);
    }

    // Stores 64 columns, or the tile's last ones if there are fewer: those after them belong to the next tile.
    template <Activation ACTIVATION>
    static __device__ __forceinline__ void store_piece(
        const GemmSm90Params& p, const cusync::Tile& tile, bool is_last_column, int piece, int row, unsigned from) {
        constexpr int columns = columns_of<S, ACTIVATION>();
        if (columns % 64 != 0 && piece == columns / 64 && !is_last_column) {
            tma::store(p.c_tiles, tma::TileCorner{piece * 64, tile.x, row}, from);
        } else {
            tma::store(p.c, tma::Corner{tile.x * columns + piece * 64, row}, from);
        }
    }

    // The last epilogue warp to finish a tile posts it.
    template <class Stage>
    __device__ __forceinline__ void finish(const Stage& stage, WorkTile& work, int line) {
        const bool is_whole = work.has_outputs[group_];
        if (is_whole) {
            tma::wait_stored();
            if (is_reading_) mbarrier::arrive(shared_.epilogue_empty(group_, buffer_.slot ^ 1));
            is_reading_ = false;
        }
        if (count_stored(&work.stored) < S::warpgroups - 1) return;
        if constexpr (cusync::mutant != cusync::Mutant::early_post) {
            if (is_whole) stage.post(work.tile);
        }
        // A tile that Stream-K split is recorded once, by the block that stores it.
        if (work.tile.linear < 0 || (S::is_stream_k && !is_whole)) return;
        stage.record_end(work.tile, line);
    }

    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<S::epilogue_buffers> buffer_;
    bool is_reading_ = false;  // whether TMA may still read the buffer before
};
