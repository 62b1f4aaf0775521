// One bulk load for the whole life of the block: its phase is awaited once, with parity 0.
extern "C" __global__ void __launch_bounds__(256) one_load(const float* table, const int* index, float* out) {
    __shared__ alignas(16) float kept[1024];
    __shared__ unsigned long long bar;
    unsigned b = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(kept));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], 4096; }" ::"r"(b) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(to),
                     "l"(table), "r"(b) : "memory");
    }
    int at = index[blockIdx.x * 256 + threadIdx.x] & 1023;
    __syncthreads();
    asm volatile(
        "{\n.reg .pred p;\nAGAIN_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra AGAIN_%=;\n}" ::"r"(b)
        : "memory");
    out[blockIdx.x * 256 + threadIdx.x] = kept[at];
}
