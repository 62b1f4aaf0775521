// What the programs share. Each is right as it is; with -DFAULT it lacks one fence, wait or barrier.
// input, data and out have n elements, flags 4,096 words, which are zero at the beginning.
#define ENTRY extern "C" __global__ void
#define ARGUMENTS const float *input, float *data, float *out, unsigned *flags, int n
#define INDEX (int(blockIdx.x * blockDim.x + threadIdx.x))
#ifdef FAULT
#define RIGHT(statement)
#define WRONG(statement) statement
#else
#define RIGHT(statement) statement
#define WRONG(statement)
#endif
const int POLLS = 1 << 18;  // after which a wait gives up, so that no program hangs

__device__ void spin_volatile(unsigned *flag, unsigned value) {
    for (int i = 0; i < POLLS && *(volatile unsigned *)flag < value; ++i) {
    }
}

__device__ void spin_acquire(unsigned *flag, unsigned value) {
    unsigned seen = 0;
    for (int i = 0; i < POLLS && seen < value; ++i)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
}

__device__ void post_relaxed(unsigned *flag, unsigned value) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ void post_release(unsigned *flag, unsigned value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ void wait_for_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
