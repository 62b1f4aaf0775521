// A wait for a peer's signal by compare-and-swap, as a tile language's distributed dialect had it: acquire, but of one
// GPU's scope.
#if BUG
#define WAIT_SCOPE ".gpu"
#else
#define WAIT_SCOPE ".sys"
#endif

extern "C" __global__ void consume_from_peer(const float* symmetric, float* out, unsigned* signals) {
    if (threadIdx.x < 32) {
        unsigned seen;
        do {
            asm volatile("atom.cas.acquire" WAIT_SCOPE ".global.b32 %0, [%1], 1, 0;"
                         : "=r"(seen) : "l"(&signals[blockIdx.x * 32 + threadIdx.x]) : "memory");
        } while (seen != 1);
    }
    __syncthreads();
    float sum = 0.0f;
    for (unsigned rank = 0; rank < 8; rank++) sum += symmetric[rank * 4096 + blockIdx.x * 128 + threadIdx.x];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
