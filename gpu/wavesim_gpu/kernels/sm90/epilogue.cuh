// The end of a tile: a math warpgroup activates, rounds and puts its outputs into the staging slots, laid out as the copy
// engine expects them, and hands these over to its storing warp.
#pragma once

#include <kernels/sm90/math.cuh>

// Sums up the slices of a tile that has some; whoever does hands over the outputs.
template <class S, bool IS_BF16>
template <class Part>
__device__ __forceinline__ void MathGroup<S, IS_BF16>::finish(const Part& part, TileNote& note) {
    if (note.slices > 1 && note.is_whole && !reduce_slices(part.p, shared_, note, sum_)) note.is_whole = 0;
    if (!note.is_whole) {
        hand_over_nothing();
        return;
    }
#pragma unroll
    for (int f = 0; f < S::frags_m; ++f) {
#pragma unroll
        for (int piece = 0; piece < pieces_of<S, Part::activation>(); ++piece) stage<Part::activation>(sum_[f], piece);
    }
}

// In place of the outputs of a tile that is not stored.
template <class S, bool IS_BF16>
__device__ __forceinline__ void MathGroup<S, IS_BF16>::hand_over_nothing() {
    mbarrier::wait(shared_.drained(group_, staged_.slot), staged_.parity ^ 1);
    hand_over();
}

// Rounds 64 columns of outputs and puts them where the copy engine will fetch them, swizzled as it expects.
template <class S, bool IS_BF16>
template <Activation ACTIVATION>
__device__ __forceinline__ void MathGroup<S, IS_BF16>::stage(const float (&sum)[S::tile_n / 2], int piece) {
    mbarrier::wait(shared_.drained(group_, staged_.slot), staged_.parity ^ 1);
    const int lane = threadIdx.x & 31, warp = (threadIdx.x / 32) & 3;
    const unsigned slot = shared_.staging + (group_ * S::staged + staged_.slot) * S::panel_bytes;
    if constexpr (ACTIVATION == Activation::swiglu) {
        stage_products(sum, piece, slot + (warp * 16 + lane / 4) * 128, lane);
    } else {
        // Lane l names row l % 16 of the left (l < 16) or right of two neighbouring 16-byte chunks.
        const unsigned row = slot + (warp * 16 + (lane & 15)) * 128;
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            const float* from = sum + (piece * 8 + j) * 4;
            unsigned packed[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) packed[i] = pack<IS_BF16>(activated<ACTIVATION>(from[2 * i]), activated<ACTIVATION>(from[2 * i + 1]));
            store_matrices(row + (((j + (lane >> 4)) ^ (lane & 7)) << 4), packed);
        }
    }
    hand_over();
}

// Columns come in pairs of gate and value, which one thread holds; two threads' results make one 4-byte store.
template <class S, bool IS_BF16>
__device__ __forceinline__ void MathGroup<S, IS_BF16>::stage_products(
    const float (&sum)[S::tile_n / 2], int piece, unsigned row, int lane) {
#pragma unroll
    for (int j = 0; j < 16; j += 2) {
        const float* from = sum + (piece * 16 + j) * 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float left = swiglu(from[half * 2], from[half * 2 + 1]);
            const float right = swiglu(from[4 + half * 2], from[4 + half * 2 + 1]);
            // An even lane makes the pair of group j, its odd neighbour that of group j + 1.
            const float other = __shfl_xor_sync(0xffffffffu, lane & 1 ? left : right, 1);
            const unsigned packed = lane & 1 ? pack<IS_BF16>(other, right) : pack<IS_BF16>(left, other);
            const int column = (j + (lane & 1)) * 4 + (lane & 2);
            const unsigned to = row + half * 8 * 128 + (((column >> 3) ^ ((lane >> 2) & 7)) << 4) + (column & 7) * 2;
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(packed) : "memory");
        }
    }
}

template <class S, bool IS_BF16>
template <Activation ACTIVATION>
__device__ __forceinline__ float MathGroup<S, IS_BF16>::activated(float x) {
    return ACTIVATION == Activation::gelu ? gelu(x) : x;
}

template <class S, bool IS_BF16>
__device__ __forceinline__ float MathGroup<S, IS_BF16>::swiglu(float gate, float value) {
    return __fdividef(gate, 1.0f + __expf(-gate)) * value;
}

template <class S, bool IS_BF16>
__device__ __forceinline__ void MathGroup<S, IS_BF16>::store_matrices(unsigned to, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

// The slot is the storing warp's.
template <class S, bool IS_BF16>
__device__ __forceinline__ void MathGroup<S, IS_BF16>::hand_over() {
    tma::publish_shared();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) mbarrier::arrive(shared_.staged(group_, staged_.slot));
    staged_.advance();
}
