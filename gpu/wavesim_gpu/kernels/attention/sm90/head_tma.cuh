// TMA of rows of one head: all its panels of 64 columns in one box.
#pragma once

#include <kernels/gemm/sm90/tma.cuh>

namespace tma {

// Where a box begins: panel, row of the sequence, sequence.
struct HeadCorner {
    int panel, row, sequence;
};

// The box, global to shared; the bytes count at `barrier`.
__device__ __forceinline__ void load_head(unsigned to, const TensorMap& map, HeadCorner at, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, %3, %4}], [%5];" ::"r"(
            to),
        "l"(&map), "r"(at.row), "r"(at.panel), "r"(at.sequence), "r"(barrier)
        : "memory");
}

// Shared to global; a bulk group of its own.
__device__ __forceinline__ void store_head(const TensorMap& map, HeadCorner at, unsigned from) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {0, %1, %2, %3}], [%4];" ::"l"(&map),
                 "r"(at.row), "r"(at.panel), "r"(at.sequence), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

}  // namespace tma
