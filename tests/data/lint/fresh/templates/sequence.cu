// A sequence lock: readers repeat where the number has changed or is odd.
#include "fresh.cuh"
K void seq_write(u32* seq, float* data, float v) {
    u32 s = rlx(seq);
    put(seq, s + 1);
#if !WRITER_UNFENCED
    __threadfence();
#endif
#if DATA_relaxed
    for (int i = 0; i < 4; ++i) put((u32*)data + i, __float_as_uint(v + i));
#else
    for (int i = 0; i < 4; ++i) ((volatile float*)data)[i] = v + i;
#endif
#if WRITER_UNFENCED
    put(seq, s + 2);
#else
    rel(seq, s + 2);
#endif
}
K void seq_read(u32* seq, float* data, float* out) {
    float v[4];
    u32 before, after;
    do {
#if READER_UNFENCED
        before = rlx(seq);
#else
        while ((before = acq(seq)) & 1) {}
#endif
#if DATA_relaxed
        for (int i = 0; i < 4; ++i) v[i] = __uint_as_float(rlx((u32*)data + i));
#else
        for (int i = 0; i < 4; ++i) v[i] = ((volatile float*)data)[i];
#endif
#if !READER_UNFENCED && !NO_FENCE_BEFORE_SECOND_LOOK
        __threadfence();
#endif
#if NO_SECOND_LOOK
        after = before;
#else
        after = rlx(seq);
#endif
    } while (before != after);
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = v[i];
}
