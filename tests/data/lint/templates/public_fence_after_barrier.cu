// A quantising kernel stages its tile in shared memory and writes it by TMA. The proxy fence stands after the block
// barrier, where it orders the one thread's own writes only; every thread that wrote must fence before the barrier.
extern "C" __global__ void quantise(const float* in, signed char* out) {
    __shared__ alignas(128) signed char tile[1024];
    for (unsigned i = 0; i < 4; i++) {
        unsigned at = i * 256 + threadIdx.x;
        tile[at] = static_cast<signed char>(in[blockIdx.x * 1024 + at] * 127.0f);
    }
#if BUG
    __syncthreads();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;"
                     ::"l"(out + blockIdx.x * 1024), "r"(static_cast<unsigned>(__cvta_generic_to_shared(tile))) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
