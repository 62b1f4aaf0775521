// What the warps of a block share: Q, a circular buffer of K blocks and one of V blocks, the outputs on their way to
// memory, and the barriers and work tiles by which the warps hand them to each other.
//
//   | Q | K 0 | K 1 | ... | V 0 | V 1 | ... | outputs of warpgroup 0 | of warpgroup 1 | ... | Control |
#pragma once

#include <cusync/tile_stage.cuh>
#include <kernels/attention/sm90/tile.cuh>
#include <kernels/attention/sm90/head_tma.cuh>
#include <kernels/gemm/sm90/mbarrier.cuh>

constexpr int work_tile_slots = 2;  // tiles that a block may have begun and not finished

constexpr int control_bytes = 1024;  // room for Control; attention_sm90.py adds the same to what a block asks for

// How the warps use a cusync::Stage: single threads call it, for tiles of which two are under way.
struct WorkTiles {
    static constexpr int record_lines = work_tile_slots;
    static constexpr bool spins_in_line = true;
    static constexpr bool tiles_may_lie_outside = false;
};

// Query rows of one head, published by the producer warp to the MMA and epilogue warps.
struct WorkTile {
    cusync::Tile tile;  // its position is negative after the last one
    int sequence, row;  // its first query row within the sequence
    int kv_blocks;      // of tile_keys keys, that it reads
    int stored;         // warpgroups whose rows are complete
};

// What lies after the buffers.
template <class S>
struct Control {
    unsigned long long q_full, q_empty;
    unsigned long long k_full[S::pipeline_depth], k_empty[S::pipeline_depth];
    unsigned long long v_full[S::pipeline_depth], v_empty[S::pipeline_depth];
    unsigned long long out_full[S::warpgroups], out_empty[S::warpgroups];
    unsigned long long tile_full[work_tile_slots], tile_empty[work_tile_slots];
    WorkTile work_tiles[work_tile_slots];
    int is_aborted;  // 1 once a wait of this block was aborted: later outputs are to be NaN
};

template <class S>
struct Shared {
    unsigned char* base;
    unsigned q, k, v, out;

    __device__ __forceinline__ explicit Shared(unsigned char* bytes) : base(bytes) {
        static_assert(sizeof(Control<S>) <= control_bytes, "the host asks for control_bytes after the buffers");
        q = static_cast<unsigned>(__cvta_generic_to_shared(bytes));
        k = q + S::q_bytes, v = k + S::pipeline_depth * S::kv_bytes, out = v + S::pipeline_depth * S::kv_bytes;
    }
    __device__ __forceinline__ Control<S>& control() const {
        return *reinterpret_cast<Control<S>*>(base + (out - q) + S::out_bytes);
    }
    static __device__ __forceinline__ unsigned address(const unsigned long long& barrier) {
        return static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    }
    __device__ __forceinline__ unsigned q_full() const { return address(control().q_full); }
    __device__ __forceinline__ unsigned q_empty() const { return address(control().q_empty); }
    __device__ __forceinline__ unsigned k_full(int slot) const { return address(control().k_full[slot]); }
    __device__ __forceinline__ unsigned k_empty(int slot) const { return address(control().k_empty[slot]); }
    __device__ __forceinline__ unsigned v_full(int slot) const { return address(control().v_full[slot]); }
    __device__ __forceinline__ unsigned v_empty(int slot) const { return address(control().v_empty[slot]); }
    __device__ __forceinline__ unsigned out_full(int group) const { return address(control().out_full[group]); }
    __device__ __forceinline__ unsigned out_empty(int group) const { return address(control().out_empty[group]); }
    __device__ __forceinline__ unsigned tile_full(int slot) const { return address(control().tile_full[slot]); }
    __device__ __forceinline__ unsigned tile_empty(int slot) const { return address(control().tile_empty[slot]); }

    // Where a warpgroup's 64 rows of outputs lie on their way to memory, panel by panel.
    __device__ __forceinline__ unsigned out_of(int group) const { return out + group * (S::out_bytes / S::warpgroups); }

    // One thread of the block, before any other use.
    __device__ void init() const {
        mbarrier::init(q_full(), 1);
        mbarrier::init(q_empty(), S::mma_warps);
        for (int i = 0; i < S::pipeline_depth; ++i) {
            mbarrier::init(k_full(i), 1);
            mbarrier::init(v_full(i), 1);
            mbarrier::init(k_empty(i), S::mma_warps);
            mbarrier::init(v_empty(i), S::mma_warps);
        }
        for (int group = 0; group < S::warpgroups; ++group) {
            mbarrier::init(out_full(group), 4);
            mbarrier::init(out_empty(group), 1);
        }
        for (int i = 0; i < work_tile_slots; ++i) {
            mbarrier::init(tile_full(i), 1);
            mbarrier::init(tile_empty(i), 32 * (S::mma_warps + S::warpgroups));
            control().work_tiles[i].stored = 0;
        }
        control().is_aborted = 0;
        mbarrier::fence_init();
    }
};

// Reads the work tiles that the producer warp publishes; called by one warp. Calls body(work, slot) for each tile.
template <class S, class Body>
__device__ __forceinline__ void for_each_tile(const Shared<S>& shared, Body&& body) {
    mbarrier::Place<work_tile_slots> place;
    for (;; place.advance()) {
        mbarrier::wait(shared.tile_full(place.slot), place.parity);
        WorkTile& work = shared.control().work_tiles[place.slot];
        if (work.tile.position < 0) return;
        body(work, place.slot);
        // Every lane, once a tile: one arrival after __syncwarp() would do, but racecheck does not follow that.
        mbarrier::arrive(shared.tile_empty(place.slot));
        __syncwarp();
    }
}
