// What becomes of a sum, or of a gate's and a value's. All keep NaN: what comes of an aborted wait must stay visible.
#pragma once

#include <kernels/gemm/sm80/tensor_core.cuh>

enum class Activation { none, gelu, gelu_exact, relu, silu, swiglu, geglu, geglu_exact };

// Whether a gate's and a value's sum make one output.
__host__ __device__ constexpr bool is_gated(Activation activation) { return activation >= Activation::swiglu; }

// fmaxf would return the 0 beside a NaN.
__device__ __forceinline__ float relu(float x) {
    asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(x));
    return x;
}

// Of two elements that are stored in 16 bits each.
template <bool IS_BF16>
__device__ __forceinline__ unsigned relu_pair(unsigned pair) {
    if constexpr (IS_BF16) {
        asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));
    } else {
        asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));
    }
    return pair;
}

// x times the normal distribution at x, by Abramowitz and Stegun's 7.1.26 for erfc: within 4e-7 of it, and without the
// cancellation of 1 + erf(x) below zero. With erff the sums of a 128 x 256 tile no longer fit into registers.
__device__ __forceinline__ float gelu_exact(float x) {
    const float z = 0.7071067811865476f * fabsf(x);
    float t;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.3275911f, z, 1.0f)));
    float tail = fmaf(t, 0.5307027145f, -0.7265760135f);
    tail = fmaf(t, tail, 0.7107068705f), tail = fmaf(t, tail, -0.142248368f), tail = fmaf(t, tail, 0.127414796f);
    tail *= t * __expf(-z * z);
    // Of infinity the tail is 0, which times infinity would be NaN; of NaN it is NaN.
    return fmaf(-fminf(fabsf(x), 3e38f), tail, fmaxf(x, 0.0f));
}

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// Of a sum; with a gated activation, of the gate.
template <Activation ACTIVATION>
__device__ __forceinline__ float activated(float x) {
    if constexpr (ACTIVATION == Activation::gelu || ACTIVATION == Activation::geglu) return gelu(x);
    if constexpr (ACTIVATION == Activation::gelu_exact || ACTIVATION == Activation::geglu_exact) return gelu_exact(x);
    if constexpr (ACTIVATION == Activation::relu) return relu(x);
    if constexpr (ACTIVATION == Activation::silu || ACTIVATION == Activation::swiglu) return silu(x);
    return x;
}

// Two neighbouring elements of a type that is stored in 16 bits.
template <bool IS_BF16>
__device__ __forceinline__ float2 unpack(unsigned pair) {
    if constexpr (IS_BF16) return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
    float2 values;
    asm("{ .reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high; }"
        : "=f"(values.x), "=f"(values.y) : "r"(pair));
    return values;
}
