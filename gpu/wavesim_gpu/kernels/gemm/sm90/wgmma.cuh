// Asynchronous matrix multiply-adds of a warpgroup (four warps): D (64, N) += A (64, 16) x B (16, N), both operands read
// from shared memory by the tensor cores themselves, D in registers. sm_90a only.
//
// A is K-major: rows of 64 halves (128 bytes). B is N-major: panels of 64 columns, each K rows of 128 bytes; or K-major
// as A, a row for each column. All in the 128-byte swizzle that TMA writes: within 1024 bytes, 16-byte k_block c of row r
// lies at k_block c ^ r.
//
// Thread t of the warpgroup holds of D, for each group j of 8 columns, the rows 16 * (t / 32) + (t % 32) / 4 (elements
// 4j, 4j + 1) and that plus 8 (4j + 2, 4j + 3), columns 8j + 2 * (t % 4) and the next.
#pragma once

namespace wgmma {

// Where an operand lies, as the tensor cores read it; adding bytes / 16 moves it.
using Descriptor = unsigned long long;

constexpr Descriptor swizzle_128 = 1ull << 62;

__host__ __device__ constexpr Descriptor leading(unsigned bytes) { return static_cast<Descriptor>(bytes >> 4) << 16; }

// `stride` is from one group of 8 rows (A: of m, B: of k, or of n) to the next; `leading` from one panel of an N-major B to
// the next, and nothing where the operand is K-major.
__device__ __forceinline__ Descriptor describe(unsigned address, unsigned leading, unsigned stride) {
    return swizzle_128 | static_cast<Descriptor>(stride >> 4) << 32 | wgmma::leading(leading) | ((address & 0x3ffff) >> 4);
}

// Before the first multiply-add of a batch: orders it behind this thread's earlier use of D's registers.
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Not an instruction: keeps the compiler from moving uses of D across it. The compiler does not know that the registers
// change until the wait; without this it may copy or read them while multiply-adds are in flight.
template <int FRAGMENTS, int COUNT>
__device__ __forceinline__ void fence_accumulators(float (&d)[FRAGMENTS][COUNT]) {
#pragma unroll
    for (int i = 0; i < FRAGMENTS; ++i)
#pragma unroll
        for (int j = 0; j < COUNT; ++j) asm volatile("" : "+f"(d[i][j])::"memory");
}

__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most PENDING committed batches are unfinished.
template <int PENDING>
__device__ __forceinline__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// multiply_add(d, a, b, is_adding): D = A x B, or D += A x B. One specialisation per N and element type. B_MAJOR is 1 for
// an N-major B, 0 for a K-major one.
template <int N, bool IS_BF16>
struct MultiplyAdd;

// clang-format off
#define WGMMA_F8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
// Of N columns, N / 2 of D's registers: as operands, and by their numbers in the instruction.
#define WGMMA_D16 WGMMA_F8(0)
#define WGMMA_D32 WGMMA_D16, WGMMA_F8(8)
#define WGMMA_D48 WGMMA_D32, WGMMA_F8(16)
#define WGMMA_D64 WGMMA_D48, WGMMA_F8(24)
#define WGMMA_D80 WGMMA_D64, WGMMA_F8(32)
#define WGMMA_D96 WGMMA_D80, WGMMA_F8(40)
#define WGMMA_D112 WGMMA_D96, WGMMA_F8(48)
#define WGMMA_D128 WGMMA_D112, WGMMA_F8(56)
#define WGMMA_D144 WGMMA_D128, WGMMA_F8(64)
#define WGMMA_D160 WGMMA_D144, WGMMA_F8(72)
#define WGMMA_D176 WGMMA_D160, WGMMA_F8(80)
#define WGMMA_D192 WGMMA_D176, WGMMA_F8(88)
#define WGMMA_D208 WGMMA_D192, WGMMA_F8(96)
#define WGMMA_D224 WGMMA_D208, WGMMA_F8(104)
#define WGMMA_D240 WGMMA_D224, WGMMA_F8(112)
#define WGMMA_D256 WGMMA_D240, WGMMA_F8(120)
#define WGMMA_R16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_R32 WGMMA_R16 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_R48 WGMMA_R32 ", " "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_R64 WGMMA_R48 ", " "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_R80 WGMMA_R64 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_R96 WGMMA_R80 ", " "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_R112 WGMMA_R96 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_R128 WGMMA_R112 ", " "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_R144 WGMMA_R128 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_R160 WGMMA_R144 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_R176 WGMMA_R160 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_R192 WGMMA_R176 ", " "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_R208 WGMMA_R192 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_R224 WGMMA_R208 ", " "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_R240 WGMMA_R224 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_R256 WGMMA_R240 ", " "%120, %121, %122, %123, %124, %125, %126, %127"
// A, B, ADD and MAJOR are the operand numbers after D's N / 2.
#define WGMMA_DEFINE(N, BF16, TYPE, A, B, ADD, MAJOR)                                                                     \
    template <>                                                                                                    \
    struct MultiplyAdd<N, BF16> {                                                                                  \
        template <int B_MAJOR>                                                                                     \
        static __device__ __forceinline__ void run(float (&d)[N / 2], Descriptor a, Descriptor b, int is_adding) { \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                                            \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                           \
                         " {" WGMMA_R##N "}, " A ", " B ", p, 1, 1, 0, " MAJOR "; }"                               \
                         : WGMMA_D##N : "l"(a), "l"(b), "r"(is_adding), "n"(B_MAJOR));                             \
        }                                                                                                          \
    };
#define WGMMA_DEFINE_BOTH(N, A, B, ADD, MAJOR)         \
    WGMMA_DEFINE(N, false, "f16", A, B, ADD, MAJOR)    \
    WGMMA_DEFINE(N, true, "bf16", A, B, ADD, MAJOR)

WGMMA_DEFINE_BOTH(64, "%32", "%33", "%34", "%35")
WGMMA_DEFINE_BOTH(128, "%64", "%65", "%66", "%67")
WGMMA_DEFINE_BOTH(176, "%88", "%89", "%90", "%91")
WGMMA_DEFINE_BOTH(192, "%96", "%97", "%98", "%99")
WGMMA_DEFINE_BOTH(208, "%104", "%105", "%106", "%107")
WGMMA_DEFINE_BOTH(224, "%112", "%113", "%114", "%115")
WGMMA_DEFINE_BOTH(240, "%120", "%121", "%122", "%123")
WGMMA_DEFINE_BOTH(256, "%128", "%129", "%130", "%131")

#undef WGMMA_DEFINE_BOTH
#undef WGMMA_DEFINE
// clang-format on

// D's registers belong to the tensor cores from begin to wait.
template <bool IS_BF16, bool IS_B_K_MAJOR, int HALF_N>
__device__ __forceinline__ void multiply_add(float (&d)[HALF_N], Descriptor a, Descriptor b, bool is_adding) {
    MultiplyAdd<2 * HALF_N, IS_BF16>::template run<IS_B_K_MAJOR ? 0 : 1>(d, a, b, is_adding);
}

}  // namespace wgmma
