// Softmax over the keys as they come, block by block, for the two rows that a thread holds a part of: the largest score
// so far, and the sum of 2^(score - largest). A row lies in the registers of four neighbouring lanes.
#pragma once

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Over the four lanes that share a row.
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Scores are s[4j + 2r + e]: group j of 8 columns, row r of the two, column 2 * (lane % 4) + e of the group.
class OnlineSoftmax {
public:
    // s = 2^(scale * (s - the row's largest)), and the sums with it. Sets `rescale`, what earlier blocks' sums and outputs
    // must be multiplied by. Block 0 holds a key that every row sees, so that no row's largest score is minus infinity.
    template <bool IS_FIRST, int COUNT>
    __device__ __forceinline__ void update(float (&s)[COUNT], float scale, float (&rescale)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float largest = IS_FIRST ? s[2 * row] : max_[row], other = s[2 * row + 1];
#pragma unroll
            for (int i = 2 * row; i < COUNT; i += 4) largest = fmaxf(largest, s[i]), other = fmaxf(other, s[i + 1]);
            largest = quad_max(fmaxf(largest, other));
            rescale[row] = IS_FIRST ? 1.0f : exp2_approx((max_[row] - largest) * scale);
            max_[row] = largest;
            const float offset = largest * scale;
            float sum = IS_FIRST ? 0.0f : sum_[row] * rescale[row], other_sum = 0.0f;
#pragma unroll
            for (int i = 2 * row; i < COUNT; i += 4) {
                s[i] = exp2_approx(fmaf(s[i], scale, -offset)), s[i + 1] = exp2_approx(fmaf(s[i + 1], scale, -offset));
                sum += s[i], other_sum += s[i + 1];
            }
            sum_[row] = sum + other_sum;
        }
    }

    // One over the sum of a whole row.
    __device__ __forceinline__ float inverse_sum(int row) const { return __fdividef(1.0f, quad_sum(sum_[row])); }

private:
    float max_[2], sum_[2];  // the sum: of this lane's columns
};
