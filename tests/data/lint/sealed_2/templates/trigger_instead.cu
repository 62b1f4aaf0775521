// The trigger comes after stores and fence; what makes them seen is the dependent's wait, and nothing else.
extern "C" __global__ void first_half(const int* in, int* out) {
    out[blockIdx.x * 128 + threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x] + 7;
    __threadfence();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void second_half(const int* out, int* sums) {
#if !FENCE_INSTEAD_OF_WAIT
    asm volatile("griddepcontrol.wait;" ::: "memory");
#else
    __threadfence();
#endif
    int v = out[blockIdx.x * 128 + threadIdx.x];
    v = __reduce_add_sync(~0u, v);
    if ((threadIdx.x & 31) == 0) atomicAdd(sums + blockIdx.x, v);
}
