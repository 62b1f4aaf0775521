// The epilogue warps of a grouped GEMM: TMA stores the rows that a tile has, in eights where it is not full, since what
// follows them belongs to the next expert. The last of a tile's warps posts it.
#pragma once

#include <kernels/gemm/sm90/epilogue_warp.cuh>
#include <kernels/moe/grouped.cuh>

template <class S>
class GroupedStore {
public:
    __device__ __forceinline__ GroupedStore(const Shared<S>& shared, int group) : shared_(shared), group_(group) {}

    template <class... Parts>
    __device__ __forceinline__ void run(const Parts&... parts) {
        for_each_tile<S>(shared_, mbarrier::wait, [&](WorkTile& work, int) {
            if ((threadIdx.x & 31) != 0) return;
            with_part(work, [&](const auto& part) { store(part, work); }, parts...);
        });
    }

private:
    // Buffers are given back as the GEMM's epilogue warp does it: with two, one while TMA reads the other.
    template <class Part>
    __device__ __forceinline__ void store(const Part& part, WorkTile& work) {
        constexpr int pieces = pieces_of<S, Part::activation>(), all = S::frags_m * pieces;
        constexpr int at_once = pieces_at_once<S, Part::activation>();
        if constexpr (cusync::mutant == cusync::Mutant::early_post) post(part.p, work);
        if constexpr (cusync::delay_ns > 0) cusync::pause_ns(part.p.posts ? cusync::delay_ns : 0);
        for (int i = 0; i < all; ++i) {
            const int slot = buffer_.slot;
            mbarrier::wait(shared_.epilogue_full(group_, slot), buffer_.parity);
            buffer_.advance();
            store_piece<Part>(part.p, work.tile, i / pieces, i % pieces,
                              shared_.epilogue + (group_ * S::epilogue_buffers + slot) * S::panel_bytes);
            if (is_reading_) {
                tma::wait_read<1>();
                release(slot ^ 1);
            }
            is_reading_ = S::epilogue_buffers == 2 && i != at_once - 1;
            if (!is_reading_) {
                tma::wait_read<0>();
                release(slot);
            }
        }
        tma::wait_stored();
        if (is_reading_) release(buffer_.slot ^ 1);
        is_reading_ = false;
        if (count_stored(&work.stored) == S::warpgroups - 1 && cusync::mutant != cusync::Mutant::early_post) post(part.p, work);
    }

    // 64 columns of a fragment's rows: one bulk group, empty where the tile has no such rows.
    template <class Part>
    __device__ __forceinline__ void store_piece(
        const GroupedParams& p, const cusync::Tile& tile, int fragment, int piece, unsigned from) const {
        constexpr int columns = columns_of<S, Part::activation>();
        static_assert(columns % 64 == 0, "the last piece would reach into the next tile's columns");
        const int first = (group_ * S::frags_m + fragment) * 64, rows = min(64, tile.z - first);
        const int column = tile.x * columns + piece * 64;
        if (rows == 64) return tma::store(p.c, tma::Corner{column, tile.y + first}, from);
        for (int row = 0; row < rows; row += row_unit, from += row_unit * 128) store_box(p.c_rows, column, tile.y + first + row, from);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }

    static __device__ __forceinline__ void store_box(const TensorMap& map, int column, int row, unsigned from) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(column),
                     "r"(row), "r"(from)
                     : "memory");
    }

    __device__ __forceinline__ void release(int slot) const { mbarrier::arrive(shared_.epilogue_empty(group_, slot)); }

    // Release: what TMA stored for the tile, here and in the block's other epilogue warp, was there before.
    static __device__ __forceinline__ void post(const GroupedParams& p, const WorkTile& work) {
        if (p.posts) cusync::post(p.counters + first_semaphore + work.tile.linear, false);
    }

    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<S::epilogue_buffers> buffer_;
    bool is_reading_ = false;
};
