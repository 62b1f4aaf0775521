// TMA (Tensor Memory Accelerator): one thread names a box of a matrix, it is moved between global and shared memory, swizzles
// it on the way, fills what lies outside with zeros, and on the way back leaves out what lies outside.
#pragma once

// The host encodes it (cuTensorMapEncodeTiled); only TMA reads it. A __grid_constant__ parameter.
struct __align__(64) TensorMap {
    unsigned char opaque[128];
};

namespace tma {

__device__ __forceinline__ void prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// One lane of a converged warp, always the same. The compiler knows that it is one: it puts no loop around the instructions
// whose operands are the warp's, as it does after a comparison of thread numbers.
__device__ __forceinline__ bool is_elected() {
    unsigned is_me;
    asm volatile("{ .reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p; }" : "=r"(is_me));
    return is_me != 0;
}

// Where a box begins: in a matrix, or in one whose columns are numbered by tile and within the tile.
struct Corner {
    int column, row;
};
struct TileCorner {
    int column, tile, row;
};
struct SequenceCorner {
    int column, row, sequence;
};
// Of a convolution: of its weights, and of its pixels, where the corner is that of the first tap and the tap is apart.
struct WeightCorner {
    int channel, tap, filter;
};
struct PixelCorner {
    int channel, column, row, image;
};

// The box, global to shared; the bytes count at `barrier`.
__device__ __forceinline__ void load(unsigned to, const TensorMap& map, Corner at, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void load(unsigned to, const TensorMap& map, WeightCorner at, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
        "l"(&map), "r"(at.channel), "r"(at.tap), "r"(at.filter), "r"(barrier)
        : "memory");
}

// Of an im2col map: so many pixels as its box has, one after the other as outputs follow each other, past the ends of
// rows and images, each moved by the tap. What lies in the padding or past the last image is zero, and counts too.
__device__ __forceinline__ void load_pixels(
    unsigned to, const TensorMap& map, PixelCorner at, int tap_column, int tap_row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
        "[%6], {%7, %8};" ::"r"(to),
        "l"(&map), "r"(at.channel), "r"(at.column), "r"(at.row), "r"(at.image), "r"(barrier),
        "h"(static_cast<unsigned short>(tap_column)), "h"(static_cast<unsigned short>(tap_row))
        : "memory");
}

// All panels of a tile's columns, from row `row` on.
__device__ __forceinline__ void load_panels(unsigned to, const TensorMap& map, int tile, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, 0, %3}], [%4];" ::"r"(
            to),
        "l"(&map), "r"(row), "r"(tile), "r"(barrier)
        : "memory");
}

// The same into every block of the cluster whose bit is set, at the same place and counted at the same barrier of each.
__device__ __forceinline__ void load_multicast(
    unsigned to, const TensorMap& map, Corner at, unsigned barrier, unsigned short blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
        "%3}], [%4], %5;" ::"r"(to),
        "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier), "h"(blocks)
        : "memory");
}

// Shared to global; a bulk group of its own.
__device__ __forceinline__ void store(const TensorMap& map, Corner at, unsigned from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(at.column),
                 "r"(at.row), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void store(const TensorMap& map, TileCorner at, unsigned from) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
                 "r"(at.column), "r"(at.tile), "r"(at.row), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void store(const TensorMap& map, SequenceCorner at, unsigned from) {
    store(map, TileCorner{at.column, at.row, at.sequence}, from);
}

// Until TMA has read all but the last PENDING groups of this thread: their shared memory may be overwritten.
// It says nothing about the global writes.
template <int PENDING>
__device__ __forceinline__ void wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Until every store of this thread is written and visible to it: only then may it be posted.
__device__ __forceinline__ void wait_stored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Each thread that wrote shared memory by ordinary stores, before the barrier after which TMA reads it.
__device__ __forceinline__ void fence_proxy_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// This thread's ordinary loads and stores before, its TMA operations after.
__device__ __forceinline__ void fence_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }

// After an acquire: what ordinary stores or another kernel's TMA wrote may now be loaded by this thread's TMA.
__device__ __forceinline__ void fence_proxy_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

}  // namespace tma
