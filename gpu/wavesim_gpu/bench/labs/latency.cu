// Loads in flight: each warp issues LOADS independent loads of 16 bytes per lane, needs them all, and begins again.

__device__ __forceinline__ unsigned load_streaming(const uint4* from) {
    unsigned x, y, z, w;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "l"(from));
    return x | y | z | w;  // all words are used: of a load whose words are not, the assembler makes a narrower one
}

// `data`: zeros. Of a round each warp reads LOADS pieces of 32 uint4; the next round is `step` uint4 further on. The
// next address is made of what was loaded, so that no load of the next round can be issued before this one's are there.
template <int LOADS>
__global__ void __launch_bounds__(128) load_loop(const uint4* data, unsigned step, int rounds, unsigned* sink) {
    const unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    unsigned at = warp * LOADS * 32 + threadIdx.x % 32;
    unsigned found = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        unsigned value[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i) value[i] = load_streaming(data + at + i * 32);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) found |= value[i];
        at += step + found;
    }
    if (found) *sink = found;
}
