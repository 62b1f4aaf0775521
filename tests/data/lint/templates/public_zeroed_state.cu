// Initial states are zeroed in shared memory by ordinary stores and written out by TMA, with a block barrier but no
// proxy fence between.
extern "C" __global__ void store_state(const float* in, float* state, unsigned has_input) {
    __shared__ alignas(128) float buffer[512];
    for (unsigned i = threadIdx.x; i < 512; i += 128) buffer[i] = has_input ? in[blockIdx.x * 512 + i] : 0.0f;
#if !BUG
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048;"
                     ::"l"(state + blockIdx.x * 512), "r"(static_cast<unsigned>(__cvta_generic_to_shared(buffer))) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
