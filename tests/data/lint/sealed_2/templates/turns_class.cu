// A semaphore class as GEMM libraries have it: fetch the state, wait for a turn by a vote of the block, hand it on.
class Turns {
    int* lock_;
    bool waits_;
    int state_;

public:
    __device__ Turns(int* lock, int thread) : lock_(lock), waits_(thread == 0), state_(-1) {}
    __device__ void fetch() {
        if (waits_) {
#if WEAK_FETCH
            asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(state_) : "l"(lock_) : "memory");
#else
            asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(state_) : "l"(lock_) : "memory");
#endif
        }
    }
    __device__ void wait(int status) {
#if ASKED_ONCE
        if (__syncthreads_and(waits_ ? state_ != status : 1)) fetch();
        __syncthreads();
#else
        while (__syncthreads_and(waits_ ? state_ != status : 1)) fetch();
        __syncthreads();
#endif
    }
    __device__ void release(int status) {
#if !HASTY_RELEASE
        __syncthreads();
#endif
        if (waits_) {
#if WEAK_RELEASE
            asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(lock_), "r"(status) : "memory");
#else
            asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(lock_), "r"(status) : "memory");
#endif
        }
    }
};

extern "C" __global__ void turns_class(const float* a, float* c, int* locks, int depth) {
    int at = blockIdx.x * 256 + threadIdx.x;
    float acc = 0;
    for (int k = blockIdx.z * depth; k < (blockIdx.z + 1) * depth; k++) acc += a[k * gridDim.x * 256 + at];
    Turns turns(locks + blockIdx.x, threadIdx.x);
    turns.fetch();
    turns.wait(blockIdx.z);
    if (blockIdx.z > 0) acc += c[at];
    c[at] = acc;
    turns.release(blockIdx.z + 1 == gridDim.z ? 0 : blockIdx.z + 1);
}
