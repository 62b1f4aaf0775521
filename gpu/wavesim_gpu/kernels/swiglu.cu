// SwiGLU by itself, after a product whose library cannot fuse it: gate, value, gate, value, ... to Swish(gate) * value.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class Pair>
__device__ __forceinline__ float2 widened(Pair pair);
template <>
__device__ __forceinline__ float2 widened(__half2 pair) { return __half22float2(pair); }
template <>
__device__ __forceinline__ float2 widened(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }

__device__ __forceinline__ __half2 narrowed(float a, float b, __half2) { return __floats2half2_rn(a, b); }
__device__ __forceinline__ __nv_bfloat162 narrowed(float a, float b, __nv_bfloat162) {
    return __floats2bfloat162_rn(a, b);
}

template <class Pair>
__device__ __forceinline__ void swiglu(const Pair* in, Pair* out, long long quads) {
    const long long quad = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (quad >= quads) return;
    const uint4 raw = reinterpret_cast<const uint4*>(in)[quad];
    const Pair* pairs = reinterpret_cast<const Pair*>(&raw);
    float results[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 both = widened(pairs[i]);
        results[i] = both.x / (1.0f + __expf(-both.x)) * both.y;
    }
    Pair made[2] = {narrowed(results[0], results[1], Pair{}), narrowed(results[2], results[3], Pair{})};
    reinterpret_cast<uint2*>(out)[quad] = *reinterpret_cast<const uint2*>(made);
}

extern "C" __global__ void swiglu_fp16(const __half2* in, __half2* out, long long quads) {
    swiglu(in, out, quads);
}
extern "C" __global__ void swiglu_bf16(const __nv_bfloat162* in, __nv_bfloat162* out, long long quads) {
    swiglu(in, out, quads);
}
