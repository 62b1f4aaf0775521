// Which attention weights are dropped: a function of seed, head, query and key alone, so that every tiling, order and
// kernel drops the same ones. dropout.py is the same in NumPy.
#pragma once

// Philox-4x32-10: four random words for a counter and a key. Source: Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011.
__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned high_x = __umulhi(0xD2511F53u, counter.x), low_x = 0xD2511F53u * counter.x;
        const unsigned high_z = __umulhi(0xCD9E8D57u, counter.z), low_z = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high_z ^ counter.y ^ key.x, low_z, high_x ^ counter.w ^ key.y, low_x);
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return counter;
}

// 16 bytes of a kernel's parameters; dropout.py fills it.
struct Dropout {
    unsigned seed_low, seed_high;
    unsigned threshold;  // a weight whose word is below it is dropped: ceil(p 2^32)
    float scale;         // of the weights kept: 1 / (1 - p). A kernel multiplies its output with it.

    // The words of keys 4 quad ... 4 quad + 3. `head` counts over all sequences: sequence * heads + head. `row` counts
    // the queries of the sequence, keys count with the cached ones.
    __device__ __forceinline__ uint4 words(int quad, int row, int head) const {
        const uint4 counter = make_uint4(static_cast<unsigned>(quad), static_cast<unsigned>(row),
                                         static_cast<unsigned>(head), 0u);
        return philox(counter, make_uint2(seed_low, seed_high));
    }

    // Drops weights of an accumulator of 16 queries and 8 keys, as mma.sync and wgmma lay it out: lane l has keys
    // key + 2 (l % 4) and the next of rows row + l / 4 (0, 1) and row + l / 4 + 8 (2, 3). key is a multiple of 8. Two
    // neighbouring lanes share four keys of two rows: each computes the words of one row, and they exchange halves. All
    // lanes of the warp call it. Call it after the row's sum is taken, which is over all weights.
    __device__ __forceinline__ void drop(float& low_0, float& low_1, float& high_0, float& high_1, int key, int row,
                                         int head) const {
        const int lane = static_cast<int>(threadIdx.x & 31);
        const bool is_odd = lane & 1;
        const uint4 own = words(key / 4 + (lane & 3) / 2, row + lane / 4 + (is_odd ? 8 : 0), head);
        const unsigned got_0 = __shfl_xor_sync(0xffffffffu, is_odd ? own.x : own.z, 1);
        const unsigned got_1 = __shfl_xor_sync(0xffffffffu, is_odd ? own.y : own.w, 1);
        const unsigned kept_0 = is_odd ? own.z : own.x, kept_1 = is_odd ? own.w : own.y;
        if ((is_odd ? got_0 : kept_0) < threshold) low_0 = 0.0f;
        if ((is_odd ? got_1 : kept_1) < threshold) low_1 = 0.0f;
        if ((is_odd ? kept_0 : got_0) < threshold) high_0 = 0.0f;
        if ((is_odd ? kept_1 : got_1) < threshold) high_1 = 0.0f;
    }
};
static_assert(sizeof(Dropout) == 16, "dropout.py packs 16 bytes");
