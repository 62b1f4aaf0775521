// Rows of a matrix, a warp each: the warp's first lane posts for its row and waits for it, with the warp's own
// barrier instead of the block's. Row semaphores count the column tiles.
#include "forms.cuh"

extern "C" __global__ void produce_rows(const float4* in, float4* rows, unsigned* ready, unsigned width) {
    unsigned row = blockIdx.y * 4 + threadIdx.y;
    unsigned at = row * width + blockIdx.x * 32 + threadIdx.x;
    float4 value = in[at];
    value.x *= 2.0f;
    value.y += 1.0f;
#if POST_BEFORE_STORES
    if (threadIdx.x == 0) post(&ready[row], 1);
#endif
    rows[at] = value;
#if !NO_BARRIER_BEFORE_POST
    __syncwarp();
#endif
#if !POST_BEFORE_STORES
    if (threadIdx.x == 0) post(&ready[row], 1);
#endif
}

extern "C" __global__ void normalise_rows(const float4* rows, float4* out, unsigned* ready, unsigned width) {
    unsigned row = blockIdx.x * 4 + threadIdx.y;
    if (threadIdx.x == 0) wait_at_least(&ready[row], width / 32);
#if !NO_BARRIER_AFTER_WAIT
    __syncwarp();
#endif
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned column = threadIdx.x; column < width; column += 32) {
#if NON_COHERENT_LOAD
        float4 value = __ldg(&rows[row * width + column]);
#else
        float4 value = rows[row * width + column];
#endif
        sum += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    float scale = rsqrtf(sum / (4 * width) + 1e-5f);
#pragma unroll 1
    for (unsigned column = threadIdx.x; column < width; column += 32) {
        float4 value = rows[row * width + column];
        out[row * width + column] = make_float4(value.x * scale, value.y * scale, value.z * scale, value.w * scale);
    }
}
