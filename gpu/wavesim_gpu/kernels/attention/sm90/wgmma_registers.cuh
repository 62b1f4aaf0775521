// Multiply-adds whose A is in registers: D (64, N) += A (64, 16) x B (16, N), B N-major in shared memory. Thread t of the
// warpgroup holds of A the rows 16 * (t / 32) + (t % 32) / 4 and that plus 8, as D's: a pair of columns 2 * (t % 4) of
// either row, then the same of the next 8 columns. So a group of 16 columns of one product's D, rounded to pairs, is the
// next one's A.
#pragma once

#include <kernels/gemm/sm90/wgmma.cuh>

namespace wgmma {

template <int N, bool IS_BF16>
struct RegisterMultiplyAdd;

// clang-format off
// A's four registers, B and ADD are the operand numbers after D's N / 2.
#define WGMMA_DEFINE(N, BF16, TYPE, A, B, ADD)                                                                     \
    template <>                                                                                                    \
    struct RegisterMultiplyAdd<N, BF16> {                                                                          \
        static __device__ __forceinline__ void run(float (&d)[N / 2], const unsigned* a, Descriptor b, int is_adding) { \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                                            \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                           \
                         " {" WGMMA_R##N "}, {" A "}, " B ", p, 1, 1, 1; }"                                        \
                         : WGMMA_D##N : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(is_adding));       \
        }                                                                                                          \
    };
#define WGMMA_DEFINE_BOTH(N, A, B, ADD)         \
    WGMMA_DEFINE(N, false, "f16", A, B, ADD)    \
    WGMMA_DEFINE(N, true, "bf16", A, B, ADD)

WGMMA_DEFINE_BOTH(64, "%32, %33, %34, %35", "%36", "%37")
WGMMA_DEFINE_BOTH(128, "%64, %65, %66, %67", "%68", "%69")

#undef WGMMA_DEFINE_BOTH
#undef WGMMA_DEFINE
// clang-format on

}  // namespace wgmma
