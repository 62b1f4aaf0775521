// The storing warp of a GEMM with all-reduce: TMA stores of the tile, a wait, a signal to the other GPU. The wait says
// only that shared memory may be reused.
extern "C" __global__ void store_and_signal(const float* in, float* tiles, unsigned* peer_flags) {
    __shared__ alignas(128) float tile[2][128];
    for (unsigned i = 0; i < 2; i++) tile[i][threadIdx.x] = in[(blockIdx.x * 2 + i) * 128 + threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < 2; i++) {
            unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(tile[i]));
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;"
                         ::"l"(tiles + (blockIdx.x * 2 + i) * 128), "r"(from) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
#if BUG
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#else
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
        asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(&peer_flags[blockIdx.x]) : "memory");
    }
}
