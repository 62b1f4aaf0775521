// Two kernels by programmatic dependent launch: the second begins before the first has ended and waits for its memory.
#if WIDTH_float4
using Value = float4;
__device__ __forceinline__ Value work(Value v) { return make_float4(v.x * 2, v.y * 2, v.z * 2, v.w * 2); }
__device__ __forceinline__ Value sum(Value a, Value b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
#else
using Value = float;
__device__ __forceinline__ Value work(Value v) { return v * 2; }
__device__ __forceinline__ Value sum(Value a, Value b) { return a + b; }
#endif

#define GRID_WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
#define GRID_TRIGGER asm volatile("griddepcontrol.launch_dependents;" ::: "memory")

extern "C" __global__ void first(const Value* in, Value* middle) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
#if CHAIN_wait_in_both
    GRID_WAIT;
#endif
#if TRIGGER_early
    GRID_TRIGGER;
#endif
    middle[at] = work(in[at]);
#if TRIGGER_late
    GRID_TRIGGER;
#endif
}

extern "C" __global__ void second(const Value* middle, const Value* weights, Value* out) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
#if PRELOAD_weights
    Value weight = weights[at];
#endif
#if LOAD_ABOVE_WAIT
    Value early = middle[at];
#elif PREFETCH_ABOVE_WAIT
    __shared__ Value tile[256];
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x]));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(&middle[at]), "n"(sizeof(Value)) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
#if !NO_WAIT
    GRID_WAIT;
#endif
#if !PRELOAD_weights
    Value weight = weights[at];
#endif
#if LOAD_ABOVE_WAIT
    out[at] = sum(early, weight);
#elif PREFETCH_ABOVE_WAIT
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[at] = sum(tile[threadIdx.x], weight);
#elif NON_COHERENT_LOAD
    out[at] = sum(__ldg(&middle[at]), weight);
#else
    out[at] = sum(middle[at], weight);
#endif
}
