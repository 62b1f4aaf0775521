// A barrier among GPUs before a one-shot all-reduce: each stores into every peer's flags and polls its own. Without
// release and acquire of the system's scope the data may lag behind, or the poll never end.
extern "C" __global__ void all_reduce(const float* in, float* mine, const float* peer, unsigned* peer_flag, unsigned* own_flag,
                                      float* out, unsigned epoch) {
    unsigned at = threadIdx.x;
    mine[at] = in[at];
    __syncthreads();
    if (threadIdx.x == 0) {
#if BUG
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(peer_flag), "r"(epoch) : "memory");
        unsigned seen;
        do {
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(own_flag) : "memory");
        } while (seen != epoch);
#else
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(peer_flag), "r"(epoch) : "memory");
        unsigned seen;
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(own_flag) : "memory");
        } while (seen != epoch);
#endif
    }
    __syncthreads();
    out[at] = mine[at] + peer[at];
}
