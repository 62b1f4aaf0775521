// A routing kernel stores what the next one needs and lets it start; the next one takes its start for the stores' being
// visible. The trigger says nothing of memory.
extern "C" __global__ void route(const int* scores, int* offsets, int* count) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd_block(&total, scores[blockIdx.x * 128 + threadIdx.x] > 0);
    __syncthreads();
    offsets[blockIdx.x * 128 + threadIdx.x] = total;
    if (threadIdx.x == 0) count[blockIdx.x] = total;
    __syncthreads();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void permute(const int* offsets, const int* count, int* out) {
#if !BUG
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    if (static_cast<int>(threadIdx.x) < count[blockIdx.x]) out[at] = offsets[at];
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
