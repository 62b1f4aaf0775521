// What the warps of a block share, in shared memory: the ring of operands, the staging slots of outputs, and the
// barriers and notes by which the warps hand them to each other.
//
//   | stage 0: A, B | stage 1: A, B | ... | staging slots of warpgroup 0 | of warpgroup 1 | ... | Control |
#pragma once

#include <cusync/lane_stage.cuh>
#include <kernels/sm90/mbarrier.cuh>
#include <kernels/sm90/shape.cuh>

// Positions that one block of a cluster may have drawn and the other not yet read: the first is ahead of the second by
// the ring at most, by one tile that it takes early, and by the position past a stage's end that sends it to the next.
constexpr int letters = 8;

constexpr int notes = 2;  // tiles that a block may have begun and not finished

// What a block does for one stage of the pipeline: it computes tiles of one product.
template <class Generated_, Activation ACTIVATION_>
struct Part {
    using Generated = Generated_;
    using Stage = cusync::LaneStage<Generated, notes>;
    static constexpr Activation activation = ACTIVATION_;

    __device__ __forceinline__ Part(const cusync::StageParams<Generated>& sync, const GemmSm90Params& p)
        : sync(sync), p(p), stage(sync) {}

    const cusync::StageParams<Generated>& sync;
    const GemmSm90Params& p;
    const Stage stage;
};

// A tile, broadcast by the loading warp to the math and storing warps.
struct TileNote {
    cusync::Tile tile;  // its position is negative after the last one
    int first, last;    // its K chunks, or a slice of them
    int slice, slices;
    int ticket, sums;   // where its slices meet, and where the first of them leaves its sum
    int stored;         // warpgroups whose part of the tile is complete
    int is_whole;       // whether it may be stored: not where it lies outside
    int stage;          // of the pipeline
    int has_outputs[3]; // whether a warpgroup hands over outputs: not of a slice that comes before the last
};

// What lies after the ring and the staging slots.
template <class S>
struct Control {
    static_assert(S::cluster == 1 || S::stages < letters - 1);

    unsigned long long full[S::stages], empty[S::stages];
    unsigned long long noted[notes], read[notes];
    unsigned long long staged[S::warpgroups][S::staged], drained[S::warpgroups][S::staged];
    unsigned long long mailed[letters];
    TileNote note[notes];
    int mail[letters];
    int came_before;
};

template <class S>
struct Shared {
    unsigned char* base;
    unsigned ring, staging;

    __device__ __forceinline__ explicit Shared(unsigned char* bytes) : base(bytes) {
        ring = static_cast<unsigned>(__cvta_generic_to_shared(bytes));
        staging = ring + S::ring_bytes;
    }
    __device__ __forceinline__ Control<S>& control() const {
        return *reinterpret_cast<Control<S>*>(base + S::ring_bytes + S::staging_bytes);
    }
    template <class T>
    static __device__ __forceinline__ unsigned address(const T& of) {
        return static_cast<unsigned>(__cvta_generic_to_shared(&of));
    }
    __device__ __forceinline__ unsigned full(int slot) const { return address(control().full[slot]); }
    __device__ __forceinline__ unsigned empty(int slot) const { return address(control().empty[slot]); }
    __device__ __forceinline__ unsigned noted(int slot) const { return address(control().noted[slot]); }
    __device__ __forceinline__ unsigned read(int slot) const { return address(control().read[slot]); }
    __device__ __forceinline__ unsigned staged(int group, int slot) const { return address(control().staged[group][slot]); }
    __device__ __forceinline__ unsigned drained(int group, int slot) const { return address(control().drained[group][slot]); }

    __device__ __forceinline__ unsigned mailed(int slot) const { return address(control().mailed[slot]); }

    // One thread of the block, before any other use.
    __device__ void init() const {
        for (int i = 0; i < S::stages; ++i) {
            mbarrier::init(full(i), 1);
            mbarrier::init(empty(i), S::math_warps * S::cluster);
        }
        for (int i = 0; i < notes; ++i) {
            mbarrier::init(noted(i), 1);
            mbarrier::init(read(i), S::math_warps + S::warpgroups);
            control().note[i].stored = 0;
        }
        for (int group = 0; group < S::warpgroups; ++group) {
            for (int i = 0; i < S::staged; ++i) {
                mbarrier::init(staged(group, i), 4);
                mbarrier::init(drained(group, i), 1);
            }
        }
        for (int i = 0; i < letters; ++i) mbarrier::init(mailed(i), 1);
        mbarrier::publish_inits();
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

// Reads the loading warp's notes, one warp at a time. Calls body(note, slot) for each tile, wait(barrier, parity) before.
template <class S, class Wait, class Body>
__device__ __forceinline__ void for_each_tile(const Shared<S>& shared, Wait&& wait, Body&& body) {
    mbarrier::Place<notes> place;
    for (;; place.advance()) {
        wait(shared.noted(place.slot), place.parity);
        TileNote& note = shared.control().note[place.slot];
        if (note.tile.position < 0) return;
        body(note, place.slot);
        __syncwarp();
        if ((threadIdx.x & 31) == 0) mbarrier::arrive(shared.read(place.slot));
    }
}

// Calls body(part) with the part that the note's tile belongs to.
template <class Body, class First, class... Others>
__device__ __forceinline__ void with_part(const TileNote& note, Body&& body, const First& first, const Others&... others) {
    if constexpr (sizeof...(others) == 0) {
        body(first);
    } else if (note.stage == first.sync.sync.stage) {
        body(first);
    } else {
        with_part(note, body, others...);
    }
}
