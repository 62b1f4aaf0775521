// fp16 and int8 as the tensor cores take them: four bytes are two or four values, and the same bytes of a row go to the
// same registers, so that the kernel counts bytes and knows no type.
#pragma once

struct Fp16 {
    using Sum = float;
    static constexpr int bytes = 2;
    static constexpr unsigned empty = 0xffffffffu;  // two NaN that no conversion gives

    // Four words of A (16 rows) and two of B (8 columns): 16 values of K.
    __device__ static __forceinline__ void mma(Sum (&d)[4], uint4 a, unsigned b0, unsigned b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
    }
    // One value in the low bits, to be shifted beside its neighbours.
    __device__ static __forceinline__ unsigned stored(float value) {
        unsigned short half;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
        return half;
    }
    __device__ static __forceinline__ float loaded(unsigned word, int index) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(word >> (16 * index))));
        return value;
    }
    __device__ static __forceinline__ unsigned bits(Sum sum) { return __float_as_uint(sum); }
    static constexpr float one = 1.0f;  // what is stored for 1.0
};

struct Int8 {
    using Sum = int;
    static constexpr int bytes = 1;
    static constexpr unsigned empty = 0x80808080u;  // -128, four times: values end at -127

    // Four words of A (16 rows) and two of B (8 columns): 32 values of K.
    __device__ static __forceinline__ void mma(Sum (&d)[4], uint4 a, unsigned b0, unsigned b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
    }
    __device__ static __forceinline__ unsigned stored(float value) {
        return static_cast<unsigned>(__float2int_rn(fminf(fmaxf(value, -127.0f), 127.0f))) & 0xffu;
    }
    __device__ static __forceinline__ float loaded(unsigned word, int index) {
        return static_cast<float>(static_cast<signed char>(word >> (8 * index)));
    }
    __device__ static __forceinline__ unsigned bits(Sum sum) { return static_cast<unsigned>(sum); }
    static constexpr float one = 127.0f;
};
