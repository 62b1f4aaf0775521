// Tiles of a tensor map in, tiles of another out, two buffers: each waits for its phase, and stores by proxy fence.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ __forceinline__ unsigned smem(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void fetch(const TensorMap* map, float* to, unsigned long long* bar, int x, int y) {
#if BYTES_FORGOTTEN
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(smem(bar)) : "memory");
#else
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], 4096; }" ::"r"(smem(bar)) : "memory");
#endif
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            smem(to)), "l"(map), "r"(x), "r"(y), "r"(smem(bar)) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    tensor_tiles(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap into, int tiles) {
    __shared__ alignas(128) float in[2][1024], out[1024];
    __shared__ unsigned long long bars[2];
    if (threadIdx.x == 0) {
        for (int b = 0; b < 2; b++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(bars + b)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
        fetch(&from, in[0], bars, 0, blockIdx.x * 32);
    }
    __syncthreads();
    for (int t = 0; t < tiles; t++) {
        int b = t & 1;
        if (threadIdx.x == 0 && t + 1 < tiles) fetch(&from, in[b ^ 1], bars + (b ^ 1), (t + 1) * 32, blockIdx.x * 32);
        unsigned done;
        do {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(smem(bars + b)), "r"((t >> 1) & 1) : "memory");
        } while (done == 0);
        for (int i = threadIdx.x; i < 1024; i += 128) out[i] = in[b][i] * 0.125f;
#if !GENERIC_ONLY
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&into),
                         "r"(t * 32), "r"(blockIdx.x * 32), "r"(smem(out)) : "memory");
            asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
}
