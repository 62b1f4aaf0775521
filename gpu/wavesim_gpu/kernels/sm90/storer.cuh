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

template <class S>
class Storer {
public:
    __device__ __forceinline__ Storer(const Shared<S>& shared, int group) : shared_(shared), group_(group) {}

    template <class... Parts>
    __device__ __forceinline__ void run(const Parts&... parts) {
        for_each_tile<S>(shared_, mbarrier::wait, [&](TileNote& note, int line) {
            if ((threadIdx.x & 31) != 0) return;
            with_part(note, [&](const auto& part) { store(part, note, line); }, parts...);
        });
    }

private:
    template <class Part>
    __device__ __forceinline__ void store(const Part& part, TileNote& note, int line) {
        constexpr int pieces = pieces_of<S, Part::activation>(), at_once = pieces_at_once<S, Part::activation>();
        const cusync::Tile tile = note.tile;
        const bool is_last_column = tile.x == part.sync.generated.columns - 1;
        for (int i = 0; i < S::frags_m * pieces; ++i) {
            mbarrier::wait(shared_.staged(group_, staged_.slot), staged_.parity);
            const int slot = staged_.slot;
            staged_.advance();
            if (!note.has_outputs[group_]) {
                mbarrier::arrive(shared_.drained(group_, slot));
                break;
            }
            if (i == 0) before_stores(part.stage, tile);
            const int fragment = group_ * S::frags_m + i / pieces;
            store_piece<Part::activation>(part.p, tile, is_last_column, i % pieces, tile.y * S::tile_m + fragment * 64,
                                          shared_.staging + (group_ * S::staged + slot) * S::panel_bytes);
            if (is_reading_) {
                tma::wait_read<1>();
                mbarrier::arrive(shared_.drained(group_, slot ^ 1));
            }
            // Pieces that come in the next tile find all slots free: a warp must not wait there for one that another warp
            // has yet to fill, as the other may wait for it, in wgmma.
            is_reading_ = S::staged == 2 && i != at_once - 1;
            if (!is_reading_) {
                tma::wait_read<0>();
                mbarrier::arrive(shared_.drained(group_, slot));
            }
        }
        finish(part.stage, note, line);
    }

    // 64 columns, or what is left of the tile's: those that follow are the next tile's.
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

    // The last storing warp to finish a tile posts it.
    template <class Stage>
    __device__ __forceinline__ void finish(const Stage& stage, TileNote& note, int line) {
        const bool is_whole = note.has_outputs[group_];
        if (is_whole) {
            tma::wait_stored();
            if (is_reading_) mbarrier::arrive(shared_.drained(group_, staged_.slot ^ 1));
            is_reading_ = false;
        }
        if (count_stored(&note.stored) < S::warpgroups - 1) return;
        if constexpr (cusync::mutant != cusync::Mutant::early_post) {
            if (is_whole) stage.post(note.tile);
        }
        // A tile that Stream-K has cut up is recorded once, by the block that stores it.
        if (note.tile.linear < 0 || (S::is_stream_k && !is_whole)) return;
        stage.recorder().finish(stage.records(), note.tile.position, note.tile.linear, note.tile.z, line);
    }

    template <class Stage>
    __device__ __forceinline__ void before_stores(const Stage& stage, const cusync::Tile& tile) const {
        if constexpr (cusync::mutant == cusync::Mutant::early_post) {
            if (group_ == 0) stage.post(tile);
        }
        stage.delay(tile);
    }

    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<S::staged> staged_;
    bool is_reading_ = false;  // whether the copy engine may still read the slot before
};
