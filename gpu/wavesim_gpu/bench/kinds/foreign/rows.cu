// out (m, n) = softmax over every row of c (m, n), fp16: what often stands behind a product. A block has ROWS rows, a warp
// a row at a time. It reads the row once for maximum and sum, in step with the product's tiles, and once more to write.

#include <bench/kinds/foreign/flags.cuh>
#include <record/wavesim_recorder.cuh>

using half_bits = unsigned short;

__device__ __forceinline__ float single(half_bits bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ half_bits to_half(float value) {
    half_bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// n is a multiple of the producer's tile_n, and that of 64; WARPS warps, of which each has ROWS / WARPS rows.
template <int ROWS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS)
    softmax(const half_bits* c, half_bits* out, int m, int n, int tile_n, int stage, const __grid_constant__ Flags flags,
            void* recording) {
    constexpr int rows = ROWS / WARPS;
    constexpr float log2_e = 1.4426950408889634f;
    const int lane = threadIdx.x % 32, top = blockIdx.x * ROWS + threadIdx.x / 32 * rows;
    begin_kernel(flags);
    wavesim::Recorder recorder(recording);
    recorder.begin();
    float most[rows], sum[rows];
    for (int i = 0; i < rows; ++i) most[i] = -1e30f, sum[i] = 0.0f;
    for (int x = 0; x < n / tile_n; ++x) {
        if (flags.waits != nullptr && (x == 0 || flags.wait_columns > 1)) {
            if (threadIdx.x == 0) {
                recorder.begin_wait();
                poll_rows(flags, x, blockIdx.x * ROWS, min(static_cast<int>(blockIdx.x + 1) * ROWS, m));
                recorder.end_wait();
            }
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < rows; ++i) {
            if (top + i >= m) continue;
            const half_bits* const from = c + static_cast<long long>(top + i) * n + x * tile_n;
            for (int at = 2 * lane; at < tile_n; at += 64) {
                const unsigned both = *reinterpret_cast<const unsigned*>(from + at);
                const float low = single(both & 0xffff) * log2_e, high = single(both >> 16) * log2_e;
                const float now = fmaxf(most[i], fmaxf(low, high));
                sum[i] = sum[i] * exp2f(most[i] - now) + exp2f(low - now) + exp2f(high - now);
                most[i] = now;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        for (int far = 16; far > 0; far /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, most[i], far);
            const float part = __shfl_xor_sync(0xffffffffu, sum[i], far);
            const float now = fmaxf(most[i], other);
            sum[i] = sum[i] * exp2f(most[i] - now) + part * exp2f(other - now);
            most[i] = now;
        }
        if (top + i >= m) continue;
        const long long row = static_cast<long long>(top + i) * n;
        const float scale = 1.0f / sum[i];
        for (int at = 2 * lane; at < n; at += 64) {
            const unsigned both = *reinterpret_cast<const unsigned*>(c + row + at);
            const float low = exp2f(single(both & 0xffff) * log2_e - most[i]) * scale;
            const float high = exp2f(single(both >> 16) * log2_e - most[i]) * scale;
            *reinterpret_cast<unsigned*>(out + row + at) = to_half(low) | static_cast<unsigned>(to_half(high)) << 16;
        }
    }
    __syncthreads();
    recorder.end(stage, 0, blockIdx.x);
    post(flags, 0, blockIdx.x);
    end_kernel(flags);
}

// One thread on the consumer's stream, ahead of it: ends when the producer's first block has started, so that the
// consumer's blocks are issued behind the producer's.
extern "C" __global__ void hold(const __grid_constant__ Flags flags) { poll(flags, flags.started, 1u); }
