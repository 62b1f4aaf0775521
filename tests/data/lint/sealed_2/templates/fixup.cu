// Stream-K's fixup: a helper block leaves its part of a tile in the workspace, the owner adds the parts up.
struct alignas(16) Workspace {
    float4* parts;   // [helpers][128]
    int* arrived;    // [helpers]
};

__device__ __forceinline__ int peek(const int* p) {
    int v;
#if STALE_PEEK
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
#elif NEAR_PEEK
    asm volatile("ld.acquire.cta.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
#else
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
#endif
    return v;
}

__device__ void leave_part(Workspace w, int helper, float4 mine) {
#if FLAG_FIRST
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(w.arrived + helper, 1);
    }
    w.parts[helper * 128 + threadIdx.x] = mine;
#else
    w.parts[helper * 128 + threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x != 0) return;
#if LATE_FENCE
    atomicExch(w.arrived + helper, 1);
    __threadfence();
#elif UNFENCED
    atomicExch(w.arrived + helper, 1);
#else
    __threadfence();
    atomicExch(w.arrived + helper, 1);
#endif
#endif
}

__device__ float4 take_part(Workspace w, int helper) {
    if (threadIdx.x == 0) {
        while (peek(w.arrived + helper) == 0) __nanosleep(40);
    }
#if !EAGER_OWNER
    __syncthreads();
#endif
    return w.parts[helper * 128 + threadIdx.x];
}

extern "C" __global__ void fixup(Workspace w, const float4* a, float4* c, int iterations, int helpers) {
    float4 acc = make_float4(0, 0, 0, 0);
    const float4* row = a + blockIdx.x * iterations * 128 + threadIdx.x;
    for (int i = 0; i < iterations; i++) {
        float4 x = row[i * 128];
        acc.x += x.x * x.y;
        acc.y += x.y * x.z;
        acc.z += x.z * x.w;
        acc.w += x.w * x.x;
    }
    if (blockIdx.x != 0) {
        leave_part(w, blockIdx.x - 1, acc);
        return;
    }
    for (int h = 0; h < helpers; h++) {
        float4 p = take_part(w, h);
        acc.x += p.x, acc.y += p.y, acc.z += p.z, acc.w += p.w;
    }
    c[threadIdx.x] = acc;
}
