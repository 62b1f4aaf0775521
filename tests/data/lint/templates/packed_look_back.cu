// Look-back with status and value in one 64-bit word: nothing rides on the word, so relaxed accesses are right. The
// faults are words torn in two halves.
extern "C" __global__ void scan_packed(const unsigned* in, unsigned* out, unsigned long long* words) {
    __shared__ unsigned before;
    unsigned block = blockIdx.x, value = in[block * 32 + threadIdx.x];
    unsigned sum = value;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) {
        unsigned exclusive = 0;
        if (block > 0) {
            unsigned long long word;
            do {
#if LOAD_volatile
                word = *const_cast<volatile unsigned long long*>(&words[block - 1]);
#else
                asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(&words[block - 1]) : "memory");
#endif
            } while (word >> 32 == 0);
            exclusive = static_cast<unsigned>(word);
        }
        unsigned long long mine = (1ull << 32) | (exclusive + sum);
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(&words[block]), "l"(mine) : "memory");
        before = exclusive;
    }
    __syncthreads();
    out[block * 32 + threadIdx.x] = before + value;
}
