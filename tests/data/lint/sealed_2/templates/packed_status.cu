// Look-back whose status and value share 64 bits: one access has both, so nothing needs to be ordered.
__device__ unsigned long long word_at(const unsigned long long* p) {
    unsigned long long v;
#if BLOCK_WORD
    asm volatile("ld.relaxed.cta.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
#elif WORD_atomic
    v = atomicAdd(const_cast<unsigned long long*>(p), 0ull);
#elif WORD_volatile
    v = *reinterpret_cast<const volatile unsigned long long*>(p);
#else
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
#endif
    return v;
}

__device__ void put_word(unsigned long long* p, unsigned status, float value) {
    unsigned long long v = static_cast<unsigned long long>(status) << 32 | __float_as_uint(value);
#if WORD_atomic
    atomicExch(p, v);
#elif WORD_volatile
    *reinterpret_cast<volatile unsigned long long*>(p) = v;
#else
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
#endif
}

extern "C" __global__ void packed_status(const float* in, float* out, unsigned long long* words) {
    unsigned tile = blockIdx.x, lane = threadIdx.x;
    float mine = in[tile * 32 + lane], sum = mine;
    for (int step = 1; step < 32; step *= 2) {
        float other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    float total = __shfl_sync(~0u, sum, 31), before = 0;
    if (lane == 0) {
        put_word(words + tile, tile == 0 ? 2 : 1, total);
        for (int look = static_cast<int>(tile) - 1; look >= 0;) {
            unsigned long long word = word_at(words + look);
            unsigned status = word >> 32;
            if (status == 0) continue;
            before += __uint_as_float(static_cast<unsigned>(word));
            if (status == 2) break;
            look--;
        }
        if (tile != 0) put_word(words + tile, 2, before + total);
    }
    out[tile * 32 + lane] = sum + __shfl_sync(~0u, before, 0);
}
