// The wait is compiled for sm_90 and later; the last tile is read in a tail.
#include "fresh.cuh"
K void guarded_wait(const float4* in, float4* out, int tiles) {
    int t = threadIdx.x;
#if LOAD_FIRST_TILE
    float4 next = in[blockIdx.x * 256 + t];
#endif
#if !COMPILED_OUT
    grid_wait();
#endif
#if !LOAD_FIRST_TILE
    float4 next = in[blockIdx.x * 256 + t];
#endif
    for (int k = blockIdx.x; k < tiles; k += gridDim.x) {
        float4 now = next;
        if (k + gridDim.x < tiles) next = in[(k + gridDim.x) * 256 + t];
        now.x += now.y; now.z += now.w;
        out[k * 256 + t] = now;
    }
#if GO_last
    grid_go();
#endif
}
