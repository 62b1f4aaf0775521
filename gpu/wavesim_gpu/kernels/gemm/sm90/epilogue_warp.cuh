// The epilogue warps, one per MMA warpgroup: store its outputs by TMA, and post a tile when all of it is in memory. Where
// there is a residual they hand over each buffer with the part of it that belongs to the outputs that go there.
#pragma once

#include <kernels/gemm/sm90/shared_memory.cuh>

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
    static constexpr int pieces = pieces_of<S, Part::activation>();  // of a fragment's outputs

    template <class Part>
    __device__ __forceinline__ void store(const Part& part, WorkTile& work, int line) {
        constexpr int all = S::frags_m * pieces<Part>, at_once = pieces_at_once<S, Part::activation>();
        const cusync::Tile tile = work.tile;
        const bool is_last_column = tile.x == part.sync.generated.columns - 1;
        if constexpr (Part::Form::has_residual) load_first_residuals(part, work);
        for (int i = 0; i < all; ++i) {
            mbarrier::wait(shared_.epilogue_full(group_, buffer_.slot), buffer_.parity);
            const int slot = buffer_.slot;
            buffer_.advance();
            if (!work.has_outputs[group_]) {
                release(part, tile, slot, all);
                break;
            }
            if constexpr (Part::Form::has_residual) load_second_residual(part, work, i);
            if (i == 0) part.stage.before_stores(tile, group_ == 0);
            store_piece<Part>(part.p, tile, is_last_column, i % pieces<Part>, row_of<Part>(tile, i),
                              shared_.epilogue + (group_ * S::epilogue_buffers + slot) * S::panel_bytes);
            if (is_reading_) {
                tma::wait_read<1>();
                release(part, tile, slot ^ 1, i - 1 + S::epilogue_buffers);
            }
            // Deferred pieces must find all buffers free: a warp that waited for a buffer in the next tile's main loop
            // would hold up the warpgroup's other warps, which it waits for itself.
            is_reading_ = S::epilogue_buffers == 2 && i != at_once - 1;
            if (!is_reading_) {
                tma::wait_read<0>();
                release(part, tile, slot, i + S::epilogue_buffers);
            }
        }
        finish(part, work, line);
    }

    // The first row of a tile's i-th piece.
    template <class Part>
    __device__ __forceinline__ int row_of(const cusync::Tile& tile, int i) const {
        return tile.y * S::tile_m + (group_ * S::frags_m + i / pieces<Part>) * 64;
    }

    // TMA has read the buffer: it is free. With a residual it is handed over with that of the piece that goes there next;
    // after the tile's last ones that is the next tile's.
    template <class Part>
    __device__ __forceinline__ void release(const Part& part, const cusync::Tile& tile, int slot, int next_piece) const {
        if constexpr (!Part::Form::has_residual) {
            mbarrier::arrive(shared_.epilogue_empty(group_, slot));
        } else if (next_piece < S::frags_m * pieces<Part>) {
            load_residual(part, tile, slot, next_piece);
        }
    }

    template <class Part>
    __device__ __forceinline__ void load_residual(const Part& part, const cusync::Tile& tile, int slot, int piece) const {
        const unsigned empty = shared_.epilogue_empty(group_, slot);
        const int column = tile.x * columns_of<S, Part::activation>() + piece % pieces<Part> * 64;
        mbarrier::arrive_and_expect_tx(empty, S::panel_bytes);
        tma::load(shared_.epilogue + (group_ * S::epilogue_buffers + slot) * S::panel_bytes, part.p.residual,
                  tma::Corner{column, row_of<Part>(tile, piece)}, empty);
    }

    // Fills the buffers as soon as the tile waits for nothing more: what wrote the residual came before what it waits
    // for. Whether there will be outputs is known beforehand only where nothing is split; else just one buffer is used.
    template <class Part>
    __device__ __forceinline__ void load_first_residuals(const Part& part, const WorkTile& work) {
        mbarrier::wait(shared_.inputs_there(inputs_.slot), inputs_.parity);
        inputs_.advance();
        tma::fence_proxy_global();  // after the producer warp's acquire, which the barrier handed on
        load_residual(part, work.tile, buffer_.slot, 0);
        if (fills_both<Part>(work)) load_residual(part, work.tile, buffer_.slot ^ 1, 1);
    }
    template <class Part>
    __device__ __forceinline__ void load_second_residual(const Part& part, const WorkTile& work, int piece) const {
        if (S::epilogue_buffers == 2 && piece == 0 && !fills_both<Part>(work)) release(part, work.tile, buffer_.slot, 1);
    }
    template <class Part>
    static __device__ __forceinline__ bool fills_both(const WorkTile& work) {
        return S::epilogue_buffers == 2 && S::frags_m * pieces<Part> > 1 && work.splits == 1 && work.is_whole;
    }

    // Stores 64 columns, or the tile's last ones if there are fewer: those after them belong to the next tile.
    template <class Part>
    static __device__ __forceinline__ void store_piece(const typename Part::Form::Params& p, const cusync::Tile& tile,
                                                       bool is_last_column, int piece, int row, unsigned from) {
        constexpr int columns = columns_of<S, Part::activation>();
        const int column = tile.x * columns + piece * 64;
        if constexpr (Part::Form::has_cache) {
            if (column >= p.k_column) return store_new_rows(p, column, row, from);
        }
        if (columns % 64 != 0 && piece == columns / 64 && !is_last_column) {
            tma::store(p.c_tiles, tma::TileCorner{piece * 64, tile.x, row}, from);
        } else {
            tma::store(p.c, tma::Corner{column, row}, from);
        }
    }

    // Stores 64 rows of K or V into the cache of the sequence that they belong to; what lies past its new rows TMA leaves
    // out. The host sees to it that no 64 rows are of two sequences.
    static __device__ __forceinline__ void store_new_rows(const LayerGemmParams& p, int column, int row, unsigned from) {
        static_assert(S::tile_n % 64 == 0, "a piece is of K or of V");
        const int sequence = row / p.cache_rows;
        row -= sequence * p.cache_rows;
        if (column < p.v_column) {
            tma::store(p.k_cache, tma::SequenceCorner{column - p.k_column, row, sequence}, from);
        } else {
            tma::store(p.v_cache, tma::SequenceCorner{column - p.v_column, row, sequence}, from);
        }
    }

    // The last epilogue warp to finish a tile posts it.
    template <class Part>
    __device__ __forceinline__ void finish(const Part& part, WorkTile& work, int line) {
        const bool is_whole = work.has_outputs[group_];
        if (is_whole) {
            tma::wait_stored();
            if (is_reading_) release(part, work.tile, buffer_.slot ^ 1, S::frags_m * pieces<Part>);
            is_reading_ = false;
        }
        if (count_stored(&work.stored) < S::warpgroups - 1) return;
        if constexpr (cusync::mutant != cusync::Mutant::early_post) {
            if (is_whole) part.stage.post(work.tile);
        }
        // A tile that Stream-K split is recorded once, by the block that stores it.
        if (work.tile.linear < 0 || (S::is_stream_k && !is_whole)) return;
        part.stage.record_end(work.tile, line);
    }

    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<S::epilogue_buffers> buffer_;
    bool is_reading_ = false;  // whether TMA may still read the buffer before
    mbarrier::Place<work_tile_slots> inputs_;
};
