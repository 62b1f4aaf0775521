// What the warps of a block share, in shared memory: the pipeline of operands, the epilogue buffers, and the barriers
// and work tiles by which the warps hand them to each other.
//
//   | slot 0: A, B | slot 1: A, B | ... | epilogue buffers of warpgroup 0 | of warpgroup 1 | ... | Control |
#pragma once

#include <cusync/tile_stage.cuh>
#include <kernels/gemm/sm90/mbarrier.cuh>
#include <kernels/gemm/sm90/tile_config.cuh>

// The tile-index mailbox: work indices that the first block of a cluster may have fetched and the second not yet read.
// The first is ahead by the pipeline's depth at most, by one tile that it fetches early, and by the index past a stage's
// end that sends it to the next stage.
constexpr int mailbox_slots = 8;

constexpr int work_tile_slots = 2;  // tiles that a block may have begun and not finished

constexpr int control_bytes = 1024;  // room for Control; gemm_sm90.py adds the same to what a block asks for

// How the warps use a cusync::Stage: single threads call it, for tiles of which two are under way.
struct WorkTiles {
    static constexpr int record_lines = work_tile_slots;
    static constexpr bool spins_in_line = true;
    static constexpr bool tiles_may_lie_outside = true;
};

// Tiles of a row of a product share a list of waits; those of a convolution have one each.
template <class Generated, bool WAITS_BY_TILE>
struct StageOf {
    using type = cusync::Stage<Generated, WorkTiles>;
};
template <class Generated>
struct StageOf<Generated, true> {
    using type = cusync::TileStage<Generated, WorkTiles>;
};

// What a block does for one stage of the pipeline: it computes tiles of one product.
template <class Generated_, class Form_>
struct Part {
    using Generated = Generated_;
    using Form = Form_;
    using Stage = typename StageOf<Generated, Form::waits_by_tile>::type;
    static constexpr Activation activation = Form::activation;

    __device__ __forceinline__ Part(const cusync::StageParams<Generated>& sync, const typename Form::Params& p)
        : sync(sync), p(p), stage(sync) {}

    const cusync::StageParams<Generated>& sync;
    const typename Form::Params& p;
    const Stage stage;
};

// A tile or a split of one, published by the producer warp to the MMA and epilogue warps.
struct WorkTile {
    cusync::Tile tile;  // its position is negative after the last one
    int first, last;    // its k-blocks, or its split's
    int split, splits;
    int ticket, sums;   // the counter of its splits, and the place of its first split's partial sums
    int stored;         // warpgroups whose part of the tile is complete
    int is_whole;       // 0 for a tile that lies outside of the output: computed, never stored
    int stage;          // of the pipeline
    int has_outputs[3]; // whether a warpgroup writes outputs: not for a split that another block's reduces
};

// What lies after the pipeline and the epilogue buffers.
template <class S>
struct Control {
    static_assert(S::cluster == 1 || S::pipeline_depth < mailbox_slots - 1);

    unsigned long long full[S::pipeline_depth], empty[S::pipeline_depth];
    unsigned long long tile_full[work_tile_slots], tile_empty[work_tile_slots];
    unsigned long long epilogue_full[S::warpgroups][S::epilogue_buffers], epilogue_empty[S::warpgroups][S::epilogue_buffers];
    unsigned long long mailbox_full[mailbox_slots];
    WorkTile work_tiles[work_tile_slots];
    int mailbox[mailbox_slots];
    int arrived_before;     // splits of the tile that came before this block's
    int are_splits_there;   // 0 when waiting for them was aborted
    int is_aborted;         // 1 once a wait of this block, or of its cluster, was aborted: later sums are to be NaN
    unsigned long long inputs_there[work_tile_slots];  // where there is a residual: a tile waits for nothing more
};

template <class S>
struct Shared {
    unsigned char* base;
    unsigned ring, epilogue;

    __device__ __forceinline__ explicit Shared(unsigned char* bytes) : base(bytes) {
        static_assert(sizeof(Control<S>) <= control_bytes, "the host asks for control_bytes after the buffers");
        ring = static_cast<unsigned>(__cvta_generic_to_shared(bytes));
        epilogue = ring + S::ring_bytes;
    }
    __device__ __forceinline__ Control<S>& control() const {
        return *reinterpret_cast<Control<S>*>(base + S::ring_bytes + S::epilogue_bytes);
    }
    template <class T>
    static __device__ __forceinline__ unsigned address(const T& of) {
        return static_cast<unsigned>(__cvta_generic_to_shared(&of));
    }
    __device__ __forceinline__ unsigned full(int slot) const { return address(control().full[slot]); }
    __device__ __forceinline__ unsigned empty(int slot) const { return address(control().empty[slot]); }
    __device__ __forceinline__ unsigned tile_full(int slot) const { return address(control().tile_full[slot]); }
    __device__ __forceinline__ unsigned tile_empty(int slot) const { return address(control().tile_empty[slot]); }
    __device__ __forceinline__ unsigned epilogue_full(int group, int slot) const { return address(control().epilogue_full[group][slot]); }
    __device__ __forceinline__ unsigned epilogue_empty(int group, int slot) const { return address(control().epilogue_empty[group][slot]); }

    __device__ __forceinline__ unsigned mailbox_full(int slot) const { return address(control().mailbox_full[slot]); }

    __device__ __forceinline__ unsigned inputs_there(int slot) const { return address(control().inputs_there[slot]); }

    // One thread of the block, before any other use.
    template <bool HAS_RESIDUAL>
    __device__ void init() const {
        for (int i = 0; i < S::pipeline_depth; ++i) {
            mbarrier::init(full(i), 1);
            mbarrier::init(empty(i), S::mma_warps * S::cluster);
        }
        for (int i = 0; i < work_tile_slots; ++i) {
            mbarrier::init(tile_full(i), 1);
            mbarrier::init(tile_empty(i), S::mma_warps + S::warpgroups);
            control().work_tiles[i].stored = 0;
        }
        for (int group = 0; group < S::warpgroups; ++group) {
            for (int i = 0; i < S::epilogue_buffers; ++i) {
                mbarrier::init(epilogue_full(group, i), 4);
                mbarrier::init(epilogue_empty(group, i), 1);
            }
        }
        for (int i = 0; i < mailbox_slots; ++i) mbarrier::init(mailbox_full(i), 1);
        if constexpr (HAS_RESIDUAL) {
            for (int i = 0; i < work_tile_slots; ++i) mbarrier::init(inputs_there(i), 1);
        }
        control().is_aborted = 0;
        mbarrier::fence_init();
    }
};

template <class S>
__device__ __forceinline__ int block_rank() {
    if constexpr (S::cluster == 1) return 0;
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of the cluster; of the block where a cluster is one block.
template <class S>
__device__ __forceinline__ void cluster_barrier() {
    if constexpr (S::cluster == 1) {
        __syncthreads();
    } else {
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
}

// Reads the work tiles that the producer warp publishes; called by one warp. Calls wait(barrier, parity) and then
// body(work, slot) for each tile.
template <class S, class Wait, class Body>
__device__ __forceinline__ void for_each_tile(const Shared<S>& shared, Wait&& wait, Body&& body) {
    mbarrier::Place<work_tile_slots> place;
    for (;; place.advance()) {
        wait(shared.tile_full(place.slot), place.parity);
        WorkTile& work = shared.control().work_tiles[place.slot];
        if (work.tile.position < 0) return;
        body(work, place.slot);
        __syncwarp();
        if ((threadIdx.x & 31) == 0) mbarrier::arrive(shared.tile_empty(place.slot));
    }
}

// Calls body(part) with the part that the work tile belongs to.
template <class Body, class First, class... Others>
__device__ __forceinline__ void with_part(const WorkTile& work, Body&& body, const First& first, const Others&... others) {
    if constexpr (sizeof...(others) == 0) {
        body(first);
    } else if (work.stage == first.sync.sync.stage) {
        body(first);
    } else {
        with_part(work, body, others...);
    }
}
