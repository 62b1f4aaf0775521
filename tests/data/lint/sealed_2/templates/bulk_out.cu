// A tile leaves by a bulk store, and a counter says so to other blocks once it is written.
__device__ __forceinline__ unsigned smem(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void __launch_bounds__(128) bulk_out(const float4* in, float4* out, unsigned* done, int tiles) {
    __shared__ alignas(128) float4 stage[2][128];
    for (int t = 0; t < tiles; t++) {
        int which = t & 1, at = (blockIdx.x * tiles + t) * 128;
        if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        __syncthreads();
        float4 v = in[at + threadIdx.x];
        v.x += 1.0f, v.y *= v.x, v.z -= v.w;
        stage[which][threadIdx.x] = v;
#if !UNPROXIED
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048;" ::"l"(out + at),
                         "r"(smem(stage[which])) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
    if (threadIdx.x == 0) {
#if READ_ONLY_DRAIN
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#elif HALF_DRAIN
        asm volatile("cp.async.bulk.wait_group 1;" ::: "memory");
#elif !NO_DRAIN
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
        __threadfence();
        atomicAdd(done, 1);
    }
}

extern "C" __global__ void bulk_out_reader(const float4* out, float4* result, unsigned* done, unsigned blocks) {
    if (threadIdx.x == 0) {
        while (atomicAdd(done, 0) < blocks) {
        }
        __threadfence();
    }
    __syncthreads();
    result[blockIdx.x * 128 + threadIdx.x] = out[blockIdx.x * 128 + threadIdx.x];
}
