// The end of a tile: an MMA warpgroup activates and rounds its outputs in pieces of 64 columns and writes them to its
// epilogue buffers, in TMA's layout, for its epilogue warp to store. Pieces for which no buffer is free are deferred:
// they stay in registers, rounded, until the next tile's first multiply-adds are in flight.
//
//   tile 0: ## last ## | round, write pieces 0, 1 | tile 1: k0, k1 issued | write pieces 2, 3 | ...
//                                                           ######## k0 ############# k1 ########
#pragma once

#include <kernels/gemm/sm90/mma.cuh>

// Reduces the splits of a tile that has some. The block that does writes the outputs; the others publish that they
// have none.
template <class S, bool IS_BF16, Residual RESIDUAL>
template <class Part>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::finish(
    const Part& part, WorkTile& work, int came_before) {
    bool is_whole = work.is_whole;
    if (work.splits > 1 && is_whole) {
        is_whole = reduce_splits<typename Part::Form>(part.p, part.sync.sync, shared_, work, sum_, came_before);
    }
    if (!is_whole) {
        publish_no_outputs(work);
        return;
    }
    constexpr int rope_dim = Part::Form::rope_dim;
    if constexpr (rope_dim > 0) rotate_heads<typename Part::Form::Params, rope_dim>(part.p, work.tile);
    constexpr int pieces = pieces_of<S, Part::activation>(), all = S::frags_m * pieces;
    constexpr int at_once = pieces_at_once<S, Part::activation>();
    each<all>([&](auto index) {
        constexpr int i = index.value;
        if constexpr (i < at_once) {
            Piece piece;
            round_piece<typename Part::Form>(sum_[i / pieces], i % pieces, piece);
            write_piece(piece);
        } else {
            round_piece<typename Part::Form>(sum_[i / pieces], i % pieces, deferred_[i - at_once]);
        }
    });
    deferred_count_ = all - at_once;
}

// Writes the pieces that the last tile deferred, if any.
template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::flush_deferred_stores() {
    if (deferred_count_ == 0) return;
#pragma unroll
    for (int i = 0; i < S::epilogue_buffers; ++i) {
        if (i < deferred_count_) write_piece(deferred_[i]);
    }
    deferred_count_ = 0;
}

// Until the next epilogue buffer is free; where there is a residual, until that is in it.
template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::wait_for_buffer() const {
    mbarrier::wait(shared_.epilogue_empty(group_, buffer_.slot), RESIDUAL != Residual::none ? buffer_.parity : buffer_.parity ^ 1);
}

// Writes 64 columns of outputs to the next epilogue buffer, in the swizzle that TMA expects.
template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::write_piece(const Piece& piece) {
    wait_for_buffer();
    const int lane = threadIdx.x & 31, warp = (threadIdx.x / 32) & 3;
    // Lane l names row l % 16 of the left (l < 16) or right of two neighbouring 16-byte chunks.
    const unsigned row =
        shared_.epilogue + (group_ * S::epilogue_buffers + buffer_.slot) * S::panel_bytes + (warp * 16 + (lane & 15)) * 128;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned matrices = row + (((2 * i + (lane >> 4)) ^ (lane & 7)) << 4);
        if constexpr (RESIDUAL != Residual::none) {
            unsigned sums[4];
            add_matrices(matrices, piece + 4 * i, sums);
            store_matrices(matrices, sums);
        } else {
            store_matrices(matrices, piece + 4 * i);
        }
    }
    publish_buffer();
}

// Takes a buffer as if for outputs, for a tile that this block does not store.
template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::publish_no_outputs(WorkTile& work) {
    wait_for_buffer();
    if ((threadIdx.x & 127) == 0) work.has_outputs[group_] = 0;  // by a thread whose warp arrives at the buffer's barrier
    publish_buffer();
}

// Hands the buffer to the epilogue warp.
template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::publish_buffer() {
    tma::fence_proxy_shared();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) mbarrier::arrive(shared_.epilogue_full(group_, buffer_.slot));
    buffer_.advance();
}

// A piece of a fragment's sums, activated and rounded. Columns past the tile's are zeros that are never stored.
template <class S, bool IS_BF16, Residual RESIDUAL>
template <class Form>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::round_piece(
    const float (&sum)[S::tile_n / 2], int piece, Piece& rounded) {
    constexpr Activation activation = Form::activation;
    constexpr bool are_pairs = is_gated(activation) && !Form::has_halves;
    constexpr int outputs = columns_of<S, activation>() / 8;  // groups of 8
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const int group = piece * 8 + j;
        unsigned* const to = rounded + 2 * j;
        if (group >= outputs) {
            to[0] = to[1] = 0;
        } else if constexpr (are_pairs) {
            round_products<activation>(sum + group * 8, to);
        } else if constexpr (Form::has_halves) {
            const float *gate = sum + group * 4, *value = gate + outputs * 4;
            to[0] = pack<IS_BF16>(activated<activation>(gate[0]) * value[0], activated<activation>(gate[1]) * value[1]);
            to[1] = pack<IS_BF16>(activated<activation>(gate[2]) * value[2], activated<activation>(gate[3]) * value[3]);
        } else {
            const float* from = sum + group * 4;
            to[0] = pack<IS_BF16>(activated<activation>(from[0]), activated<activation>(from[1]));
            to[1] = pack<IS_BF16>(activated<activation>(from[2]), activated<activation>(from[3]));
        }
    }
}

// Makes 8 columns of two groups of sums. Of four lanes, lane l holds a pair of gate and value of either group, for
// columns l and 4 + l; it has to make columns 2l and 2l + 1.
template <class S, bool IS_BF16, Residual RESIDUAL>
template <Activation ACTIVATION>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::round_products(const float* from, unsigned* rounded) {
    const int lane = threadIdx.x & 3;
#pragma unroll
    for (int half = 0; half < 2; ++half, from += 2) {
        const float left = activated<ACTIVATION>(from[0]) * from[1], right = activated<ACTIVATION>(from[4]) * from[5];
        // An even lane makes a pair of the first group, its odd neighbour one of the second; then lanes 1 and 2 swap.
        const float other = __shfl_xor_sync(0xffffffffu, lane & 1 ? left : right, 1);
        const unsigned made = lane & 1 ? pack<IS_BF16>(other, right) : pack<IS_BF16>(left, other);
        rounded[half] = __shfl_sync(0xffffffffu, made, (lane & 1) << 1 | lane >> 1, 4);
    }
}

template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::store_matrices(unsigned to, const unsigned* r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Adds the residual that lies where these outputs go, as two separate kernels would: rounded outputs, a rounded sum.
template <class S, bool IS_BF16, Residual RESIDUAL>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::add_matrices(
    unsigned from, const unsigned* r, unsigned (&sums)[4]) {
    load_matrices(sums, from);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (IS_BF16) {
            asm("add.rn.bf16x2 %0, %0, %1;" : "+r"(sums[i]) : "r"(r[i]));
        } else {
            asm("add.rn.f16x2 %0, %0, %1;" : "+r"(sums[i]) : "r"(r[i]));
        }
        if constexpr (RESIDUAL == Residual::added_and_rectified) sums[i] = relu_pair<IS_BF16>(sums[i]);
    }
}
