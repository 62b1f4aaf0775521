// A kernel with a short name.
#include "fresh.cuh"
K void r(const float* data, u32* flag, float* out) {
#if RELAXED
    while (rlx(flag) == 0) {}
#else
    while (acq(flag) == 0) {}
#endif
    out[threadIdx.x] = data[threadIdx.x];
}
