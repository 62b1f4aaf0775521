// The instructions that a tensor-core kernel is made of, one function each, and a compile-time loop.
#pragma once

template <int VALUE>
struct Constant {
    static constexpr int value = VALUE;
};

// body(Constant<0>), ..., body(Constant<COUNT - 1>): a loop whose index is a constant in each turn.
template <int COUNT, int INDEX = 0, class Body>
__device__ __forceinline__ void each(Body&& body) {
    if constexpr (INDEX < COUNT) {
        body(Constant<INDEX>{});
        each<COUNT, INDEX + 1>(body);
    }
}

// 16 bytes, global to shared, past the L1; only the first `size` are read, the rest become zero.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int size) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most PENDING of this thread's committed groups are unfinished.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

// c (16, 8) += a (16, 16) x b (16, 8).
template <bool IS_BF16>
__device__ __forceinline__ void multiply_accumulate(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (IS_BF16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
}

// What outputs are where their inputs have never come.
__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7fffffff); }

// Two floats, rounded to nearest even, low one in the low half.
template <bool IS_BF16>
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned packed;
    if constexpr (IS_BF16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    }
    return packed;
}

// The tanh form: x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 x^3). One special-function instruction, good to
// 2^-11, as fp16 outputs are; an exponential and a division are two, and show in the epilogue.
__device__ __forceinline__ float gelu(float x) {
    const float u = 0.7978845608028654f * (x + 0.044715f * x * x * x), half = 0.5f * x;
    float tanh;
    asm("tanh.approx.f32 %0, %1;" : "=f"(tanh) : "f"(u));
    return fmaf(half, tanh, half);
}
