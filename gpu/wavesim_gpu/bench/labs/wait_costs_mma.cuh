// Loads, barriers and tensor-core steps of wait_costs.cu, each one line of PTX or a few.
constexpr int A_STRIDE = 40, B_STRIDE = 136;  // halves per row, padded against bank conflicts
constexpr int A_BYTES = 128 * A_STRIDE * 2, B_BYTES = 32 * B_STRIDE * 2;
using u64 = unsigned long long;

__device__ __forceinline__ u64 global_ns() { u64 t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
__device__ __forceinline__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ int acquire(const int* p) {
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void load_async(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to)), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void commit_loads() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void wait_loads() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
__device__ __forceinline__ void load_block(char* to, const char* a, const char* b) {
    for (int i = threadIdx.x * 16; i < A_BYTES + B_BYTES; i += 256 * 16) {
        const char* from = i < A_BYTES ? a + i : b + i - A_BYTES;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to + i)), "l"(from) : "memory");
    }
}

__device__ __forceinline__ void init_barrier(u64* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// What others stored before the acquire is seen by the copies after it, which go through the async proxy.
__device__ __forceinline__ void fence_proxy() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ __forceinline__ void expect_bytes(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive_barrier(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
__device__ __forceinline__ void wait_barrier(u64* bar, int parity) {
    asm volatile(
        "{\n.reg .pred p;\nLOOP:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra LOOP;\n}" ::"r"(smem(bar)),
        "r"(parity)
        : "memory");
}
__device__ __forceinline__ void copy_bulk(void* to, const void* from, int bytes, u64* bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(to)),
        "l"(from), "r"(bytes), "r"(smem(bar))
        : "memory");
}

// One k-block of a tile of 128 x 128 by eight warps: 64 x 32 each, sums in registers.
__device__ __forceinline__ void multiply(const char* block, float (&sums)[4][4][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / 4 * 64, column = warp % 4 * 32;
    for (int k = 0; k < 32; k += 16) {
        unsigned a[4][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                         : "r"(smem(block + ((row + 16 * i + lane % 16) * A_STRIDE + k + lane / 16 * 8) * 2)));
#pragma unroll
        for (int j = 0; j < 2; ++j)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j][2]), "=r"(b[j][3])
                         : "r"(smem(block + A_BYTES + ((k + lane % 16) * B_STRIDE + column + 16 * j + lane / 16 * 8) * 2)));
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                             : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
    }
}

// Every block its own 64 KB, each thread's sums one after the other.
__device__ __forceinline__ void store(float* out, const float (&sums)[4][4][4]) {
    float4* to = (float4*)out + ((size_t)blockIdx.x * 256 + threadIdx.x) * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) to[i * 4 + j] = *(const float4*)sums[i][j];
}
