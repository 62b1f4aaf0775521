// What a library's product leaves to do: bias, activation and gate of a matrix, in place or to another.

#include <kernels/gemm/sm80/tensor_core.cuh>

enum Activation : int { NONE, RELU, GELU, GELU_EXACT, SILU };

// Addresses, 0 where there is none; strides from row to row in elements. `out` may be `value` or `gate` itself.
struct Elementwise {
    const unsigned short* gate;
    const unsigned short* value;
    unsigned short* out;
    const unsigned short* gate_bias;
    const unsigned short* value_bias;
    long long gate_stride, value_stride, out_stride, rows, columns;
    int activation;
};

// x * sigmoid(u) with one exponential: both SiLU (u = x) and the tanh form of GELU are this. The fast division is good
// to 2 ulp of a float; where the exponential overflows, its 0 is the limit.
__device__ __forceinline__ float times_sigmoid(float x, float u) { return __fdividef(x, 1.0f + __expf(-u)); }

// NaN stays NaN, in ReLU too.
template <int ACTIVATION>
__device__ __forceinline__ float activated(float x) {
    if constexpr (ACTIVATION == RELU) return x < 0.0f ? 0.0f : x;
    // x / 2 (1 + tanh(v)) = x sigmoid(2 v), v = sqrt(2 / pi) (x + 0.044715 x^3)
    if constexpr (ACTIVATION == GELU) return times_sigmoid(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
    if constexpr (ACTIVATION == GELU_EXACT) return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    if constexpr (ACTIVATION == SILU) return times_sigmoid(x, x);
    return x;
}

template <bool IS_BF16>
__device__ __forceinline__ float widened(unsigned half) {
    if constexpr (IS_BF16) return __uint_as_float(half << 16);
    float value;
    asm("{ .reg .b16 half; cvt.u16.u32 half, %1; cvt.f32.f16 %0, half; }" : "=f"(value) : "r"(half));
    return value;
}

// WIDTH neighbours, 16-bit floats, as float; eight are one load of 16 bytes.
template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void load(float (&to)[WIDTH], const unsigned short* from) {
    if constexpr (WIDTH == 8) {
        const uint4 raw = *reinterpret_cast<const uint4*>(from);
        const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) to[i] = widened<IS_BF16>(i % 2 ? words[i / 2] >> 16 : words[i / 2] & 0xffffu);
    } else {
        to[0] = widened<IS_BF16>(*from);
    }
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void store(unsigned short* to, const float (&from)[WIDTH]) {
    if constexpr (WIDTH == 8) {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = pack<IS_BF16>(from[2 * i], from[2 * i + 1]);
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
        *to = static_cast<unsigned short>(pack<IS_BF16>(from[0], 0.0f));
    }
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void load_biased(
    float (&to)[WIDTH], const unsigned short* matrix, long long stride, const unsigned short* bias, long long row,
    long long column) {
    load<IS_BF16>(to, matrix + row * stride + column);
    if (bias == nullptr) return;
    float added[WIDTH];
    load<IS_BF16>(added, bias + column);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) to[i] += added[i];
}

// All is read before anything is written, and no other thread reads what this one writes: in place is safe.
template <bool IS_BF16, int WIDTH, int ACTIVATION>
__device__ __forceinline__ void compute(const Elementwise& of, long long row, long long column) {
    float value[WIDTH];
    load_biased<IS_BF16>(value, of.value, of.value_stride, of.value_bias, row, column);
    if (of.gate == nullptr) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) value[i] = activated<ACTIVATION>(value[i]);
    } else {
        float gate[WIDTH];
        load_biased<IS_BF16>(gate, of.gate, of.gate_stride, of.gate_bias, row, column);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) value[i] *= activated<ACTIVATION>(gate[i]);
    }
    store<IS_BF16>(of.out + row * of.out_stride + column, value);
}

// A thread for WIDTH columns, blocks along x; rows along y. Columns that are left over go one by one.
template <bool IS_BF16, int WIDTH, int ACTIVATION>
__device__ __forceinline__ void compute_all(const Elementwise& of) {
    const long long first = (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) * WIDTH;
    for (long long row = blockIdx.y; row < of.rows; row += gridDim.y) {
        if (first + WIDTH <= of.columns) {
            compute<IS_BF16, WIDTH, ACTIVATION>(of, row, first);
        } else {
            for (long long column = first; column < of.columns; ++column)
                compute<IS_BF16, 1, ACTIVATION>(of, row, column);
        }
    }
}

// One branch for all that a thread does, not one for each element.
template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void elementwise(const Elementwise& of) {
    switch (of.activation) {
        case RELU: return compute_all<IS_BF16, WIDTH, RELU>(of);
        case GELU: return compute_all<IS_BF16, WIDTH, GELU>(of);
        case GELU_EXACT: return compute_all<IS_BF16, WIDTH, GELU_EXACT>(of);
        case SILU: return compute_all<IS_BF16, WIDTH, SILU>(of);
        default: return compute_all<IS_BF16, WIDTH, NONE>(of);
    }
}

#define KERNEL extern "C" __global__ void
KERNEL elementwise_fp16(const __grid_constant__ Elementwise of) { elementwise<false, 8>(of); }
KERNEL elementwise_bf16(const __grid_constant__ Elementwise of) { elementwise<true, 8>(of); }
// Of addresses or strides that are no multiple of 16 bytes.
KERNEL elementwise_fp16_unaligned(const __grid_constant__ Elementwise of) { elementwise<false, 1>(of); }
KERNEL elementwise_bf16_unaligned(const __grid_constant__ Elementwise of) { elementwise<true, 1>(of); }
