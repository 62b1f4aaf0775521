// One warp's part of fused attention on portable tensor cores: 16 query rows against keys and values in shared memory,
// which come 16 keys or more at a time, with the softmax computed on the way (Dao, "FlashAttention-2", 2023, section 3.1).
//
// Keys and values lie in shared memory row by row, HEAD elements each, with 16-byte chunks exchanged within a row
// (`swizzled_chunk`), so that ldmatrix's eight rows hit eight different banks.
#pragma once

#include <kernels/gemm/sm80/tensor_core.cuh>

// The greatest of no scores.
__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

// 2^x, 0 for minus infinity.
__device__ __forceinline__ float exp2_approx(float x) {
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// Byte offset of a 16-byte chunk of a row of HEAD elements; slots begin at multiples of 256 bytes.
template <int HEAD>
__device__ __forceinline__ unsigned swizzled_chunk(int row, int chunk) {
    return static_cast<unsigned>(row * HEAD * 2 + ((chunk ^ (row & 7)) << 4));
}

// Held by all lanes. A lane has rows lane / 4 and lane / 4 + 8; its first row is index 0 of max and sum, and elements 0
// and 1 of each accumulator, columns 2 (lane % 4) and the next of eight. With HALVES of 1 the last eight rows are nobody's.
template <int HEAD, bool IS_BF16, int HALVES = 2>
struct WarpRows {
    unsigned q[HEAD / 16][4];
    float out[HEAD / 8][4];
    float max[2], sum[2];  // of the scores so far; of the weights in this lane's columns

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int j = 0; j < HEAD / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) out[j][i] = 0.0f;
        max[0] = max[1] = minus_infinity();
        sum[0] = sum[1] = 0.0f;
    }

    // Queries from global memory, row `r` at rows + r * stride; rows from `count` on are zero.
    __device__ __forceinline__ void load_queries(const unsigned short* rows, long long stride, int count) {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = lane / 4 + half * 8;
            const unsigned* from = reinterpret_cast<const unsigned*>(rows + row * stride) + (lane & 3);
#pragma unroll
            for (int k = 0; k < HEAD / 16; ++k) {
                q[k][half] = half < HALVES && row < count ? from[k * 8] : 0u;
                q[k][half + 2] = half < HALVES && row < count ? from[k * 8 + 4] : 0u;
            }
        }
    }

    // scores (16, KEYS) = Q K^T, not yet scaled.
    template <int KEYS>
    __device__ __forceinline__ void score(float (&scores)[KEYS / 8][4], unsigned k_slot) const {
        const int lane = threadIdx.x & 31;
        const unsigned at = k_slot + swizzled_chunk<HEAD>((lane & 7) + (lane >> 4) * 8, (lane >> 3) & 1);
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[j][i] = 0.0f;
#pragma unroll
        for (int k = 0; k < HEAD / 16; ++k)
#pragma unroll
            for (int j = 0; j < KEYS / 16; ++j) {
                unsigned keys[4];
                load_matrices(keys, (at + j * 16 * HEAD * 2) ^ (k << 5));
                multiply_accumulate<IS_BF16>(scores[2 * j], q[k], {keys[0], keys[1]});
                multiply_accumulate<IS_BF16>(scores[2 * j + 1], q[k], {keys[2], keys[3]});
            }
    }

    // Hides keys from `end` on, of those that begin at `first`, from a lane's two rows.
    template <int KEYS>
    __device__ __forceinline__ void mask(float (&scores)[KEYS / 8][4], int first, int end_0, int end_1) const {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = first + j * 8 + (lane & 3) * 2 + (i & 1);
                if (key >= (i < 2 ? end_0 : end_1)) scores[j][i] = minus_infinity();
            }
    }

    // Scores become weights 2^(scale (score - max)), relative to the greatest score so far; what was summed before is
    // scaled down where a greater one came. `scale` is positive and includes log2 e.
    template <int KEYS>
    __device__ __forceinline__ void weigh(float (&scores)[KEYS / 8][4], float scale) {
#pragma unroll
        for (int half = 0; half < HALVES; ++half) {
            float greatest = max[half];
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
                greatest = fmaxf(greatest, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
            greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, 1));
            greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, 2));
            // Where all keys so far are hidden, weights are 2^-inf and not 2^(inf - inf).
            const float base = greatest == minus_infinity() ? 0.0f : greatest * scale;
            const float correction = exp2_approx(max[half] * scale - base);
            max[half] = greatest;
            float added = 0.0f;
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    scores[j][i] = exp2_approx(fmaf(scores[j][i], scale, -base));
                    added += scores[j][i];
                }
            sum[half] = fmaf(sum[half], correction, added);
#pragma unroll
            for (int j = 0; j < HEAD / 8; ++j) out[j][2 * half] *= correction, out[j][2 * half + 1] *= correction;
        }
    }

    // out += weights (16, KEYS) x V (KEYS, HEAD).
    template <int KEYS>
    __device__ __forceinline__ void add_values(const float (&weights)[KEYS / 8][4], unsigned v_slot) {
        const int lane = threadIdx.x & 31;
        const unsigned at = v_slot + swizzled_chunk<HEAD>(lane & 15, lane >> 4);
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            const unsigned rounded[4] = {
                pack<IS_BF16>(weights[2 * j][0], weights[2 * j][1]),
                HALVES == 1 ? 0u : pack<IS_BF16>(weights[2 * j][2], weights[2 * j][3]),
                pack<IS_BF16>(weights[2 * j + 1][0], weights[2 * j + 1][1]),
                HALVES == 1 ? 0u : pack<IS_BF16>(weights[2 * j + 1][2], weights[2 * j + 1][3])};
#pragma unroll
            for (int n = 0; n < HEAD / 16; ++n) {
                unsigned values[4];
                load_matrices_transposed(values, (at + j * 16 * HEAD * 2) ^ (n << 5));
                multiply_accumulate<IS_BF16>(out[2 * n], rounded, {values[0], values[1]});
                multiply_accumulate<IS_BF16>(out[2 * n + 1], rounded, {values[2], values[3]});
            }
        }
    }

    // The weights' sums over whole rows.
    __device__ __forceinline__ void add_up() {
#pragma unroll
        for (int half = 0; half < HALVES; ++half) {
            sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
            sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
        }
    }
};
