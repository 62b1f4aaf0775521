// A block writes to a peer GPU, raises its flag there, and waits for its own.
#include "fresh.cuh"
K void peer_slots(float* theirs, u32* their_flag, u32* my_flag, const float* mine, float* inbox, float* out, u32 epoch) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    theirs[i] = mine[i];
    __syncthreads();
    if (threadIdx.x == 0) {
#if GPU_SCOPE
        rel(their_flag + blockIdx.x, epoch);
#elif RAISE_red
        asm volatile("red.release.sys.global.max.u32 [%0], %1;" ::"l"(their_flag + blockIdx.x), "r"(epoch) : "memory");
#else
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(their_flag + blockIdx.x), "r"(epoch) : "memory");
#endif
#if POLLED_AT_GPU_SCOPE
        while (acq(my_flag + blockIdx.x) < epoch) {}
#else
        while (acq_sys(my_flag + blockIdx.x) < epoch) {}
#endif
    }
#if !OPEN_END
    __syncthreads();
#endif
    out[i] = inbox[i];
}
