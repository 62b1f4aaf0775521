// SwiGLU by itself, after a product whose library cannot fuse it: gate, value, gate, value, ... to Swish(gate) * value.

#include <kernels/sm80/tensor_core.cuh>

// Half of a word of two 16-bit floats, as float.
template <bool IS_BF16>
__device__ __forceinline__ float widened(unsigned pair, bool is_high) {
    if constexpr (IS_BF16) return __uint_as_float(is_high ? pair & 0xffff0000u : pair << 16);
    float value;
    asm("{ .reg .b16 half; cvt.u16.u32 half, %1; cvt.f32.f16 %0, half; }" : "=f"(value) : "r"(is_high ? pair >> 16 : pair));
    return value;
}

// in (quads, 4) words of gate and value, out (quads, 2) words of two outputs; a thread for each quad.
template <bool IS_BF16>
__device__ __forceinline__ void swiglu(const uint4* in, uint2* out, long long quads) {
    const long long quad = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (quad >= quads) return;
    const uint4 raw = in[quad];
    const unsigned pairs[4] = {raw.x, raw.y, raw.z, raw.w};
    float results[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float gate = widened<IS_BF16>(pairs[i], false), value = widened<IS_BF16>(pairs[i], true);
        results[i] = gate / (1.0f + __expf(-gate)) * value;
    }
    out[quad] = make_uint2(pack<IS_BF16>(results[0], results[1]), pack<IS_BF16>(results[2], results[3]));
}

extern "C" __global__ void swiglu_fp16(const uint4* in, uint2* out, long long quads) { swiglu<false>(in, out, quads); }
extern "C" __global__ void swiglu_bf16(const uint4* in, uint2* out, long long quads) { swiglu<true>(in, out, quads); }
