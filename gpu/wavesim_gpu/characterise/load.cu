// Blocks that compute, or spin beside ones that compute: how fast each gets on, and at which clock.

#include <cusync/clock.cuh>
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include <kernels/gemm/sm90/wgmma.cuh>
#endif

constexpr unsigned most_polls = 1u << 24;  // seconds: nobody waits for ever
constexpr int operand_bytes = 48 * 1024;  // of dynamic shared memory: A, two of 64 x 64 halves, and B, 256 x 64

struct Progress {
    unsigned long long start_ns, ns, cycles, steps;  // steps: of all warps
    unsigned sm, unused[3];
};

// Halves between 0.25 and 2 of either sign: tensor cores draw less power on zeros.
__device__ __forceinline__ unsigned random_halves(unsigned seed) {
    seed = (seed + 1) * 2654435761u;
    seed ^= seed >> 15, seed *= 2246822519u, seed ^= seed >> 13;
    return (seed & 0x8fff8fffu) | 0x30003000u;
}

// Multiply-adds of one warp by mma.sync, in `CHAINS` chains that do not depend on each other.
template <int CHAINS>
struct WarpTensor {
    unsigned a[4], b[2];
    float sums[CHAINS][4];
    __device__ __forceinline__ WarpTensor() {
        for (int i = 0; i < 4; ++i) a[i] = random_halves(threadIdx.x * 8 + i);
        for (int i = 0; i < 2; ++i) b[i] = random_halves(threadIdx.x * 8 + 4 + i);
        for (int c = 0; c < CHAINS; ++c)
            for (int i = 0; i < 4; ++i) sums[c][i] = 0;
    }
    __device__ __forceinline__ void step() {
#pragma unroll
        for (int repeat = 0; repeat < 16 / CHAINS; ++repeat)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c)
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                    "{%0, %1, %2, %3};"
                    : "+f"(sums[c][0]), "+f"(sums[c][1]), "+f"(sums[c][2]), "+f"(sums[c][3])
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    __device__ __forceinline__ float result() const {
        float sum = 0;
        for (int c = 0; c < CHAINS; ++c)
            for (int i = 0; i < 4; ++i) sum += sums[c][i];
        return sum;
    }
};

// The same as a GEMM whose warps meet at a barrier after every k-block: while they do, the tensor cores are idle.
struct BarrierTensor : WarpTensor<4> {
    __device__ __forceinline__ void step() {
        WarpTensor<4>::step();
        __syncthreads();
    }
};

struct WarpFma {
    float sums[8];
    __device__ __forceinline__ WarpFma() {
        for (int i = 0; i < 8; ++i) sums[i] = threadIdx.x + i;
    }
    __device__ __forceinline__ void step() {
#pragma unroll
        for (int repeat = 0; repeat < 8; ++repeat)
#pragma unroll
            for (int i = 0; i < 8; ++i) asm volatile("fma.rn.f32 %0, %0, 0f3F7FBE77, 0f3F000000;" : "+f"(sums[i]));
    }
    __device__ __forceinline__ float result() const {
        float sum = 0;
        for (int i = 0; i < 8; ++i) sum += sums[i];
        return sum;
    }
};

// A chain of loads from the L2, each at the place that the one before it names.
struct WarpChase {
    const unsigned* next;
    unsigned at;
    __device__ __forceinline__ explicit WarpChase(const unsigned* links) : next(links), at(threadIdx.x % 32) {}
    __device__ __forceinline__ void step() {
        for (int i = 0; i < 4; ++i) at = __ldcg(next + at);
    }
    __device__ __forceinline__ float result() const { return at; }
};

// Steps until `window` cycles have passed. Every warp counts its own; where steps meet at a barrier, all leave together.
template <bool IS_TOGETHER = false, class Work>
__device__ __forceinline__ void run_window(Work& work, unsigned long long window, Progress* progress, float* sink) {
    __shared__ unsigned long long total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    const unsigned long long began_ns = cusync::time_ns(), began = cusync::clock_cycles();
    unsigned long long steps = 0, now;
    do {
        for (int i = 0; i < 8; ++i) work.step();
        steps += 8;
        now = cusync::clock_cycles();
    } while (IS_TOGETHER ? !__syncthreads_or(threadIdx.x == 0 && now - began >= window) : now - began < window);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, steps);
    const unsigned long long ns = cusync::time_ns() - began_ns;
    __syncthreads();
    if (work.result() == 1.2345f) *sink = 1;
    if (threadIdx.x == 0) progress[blockIdx.x] = Progress{began_ns, ns, now - began, total, cusync::sm_id(), {0, 0, 0}};
}

// Tensor cores kept busy by one block's warps, or half busy by chains of one.
extern "C" __global__ void tensor_work(unsigned long long window, const unsigned*, Progress* progress, float* sink) {
    WarpTensor<4> work;
    run_window(work, window, progress, sink);
}
extern "C" __global__ void light_tensor_work(unsigned long long window, const unsigned*, Progress* progress, float* sink) {
    WarpTensor<1> work;
    run_window(work, window, progress, sink);
}
extern "C" __global__ void barrier_tensor_work(unsigned long long window, const unsigned*, Progress* progress, float* sink) {
    BarrierTensor work;
    run_window<true>(work, window, progress, sink);
}
extern "C" __global__ void fma_work(unsigned long long window, const unsigned*, Progress* progress, float* sink) {
    WarpFma work;
    run_window(work, window, progress, sink);
}
extern "C" __global__ void latency_work(unsigned long long window, const unsigned* links, Progress* progress, float* sink) {
    WarpChase work(links);
    run_window(work, window, progress, sink);
}

// A block that waits until the counter is 1: `pollers` threads poll, the others stand at the barrier.
extern "C" __global__ void spin(const unsigned* counter, int pollers, int is_sleeping, unsigned* polls) {
    unsigned count = 0;
    if (threadIdx.x < pollers) {
        while (cusync::load_relaxed(counter) == 0 && count < most_polls) {
            if (is_sleeping) __nanosleep(100);
            ++count;
        }
        cusync::acquire_fence();
        if (threadIdx.x == 0) polls[blockIdx.x] = count;
    }
    __syncthreads();
}

struct PhaseParams {
    ulonglong2* stamps;  // per block and quarter of a phase: cycles and nanoseconds at its end
    unsigned* sms;       // per block
    float* sink;
    unsigned long long phase_ns;
    int phases, busy;  // blocks that compute in odd phases; in even ones all do
    int is_steady;     // `busy` blocks compute in all phases
};

// Tensor work in phases of equal length, one block per SM: even phases on all SMs, odd ones on `busy` of them.
extern "C" __global__ void phases(const __grid_constant__ PhaseParams p) {
    extern __shared__ __align__(1024) unsigned operands[];
    for (int i = threadIdx.x; i < operand_bytes / 4; i += blockDim.x) operands[i] = random_halves(i + blockIdx.x);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.async;" ::: "memory");
    float sums[1][128] = {};
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(operands));
    const wgmma::Descriptor a = wgmma::describe(base + threadIdx.x / 128 * 8192, 0, 1024);
    const wgmma::Descriptor b = wgmma::describe(base + 16384, 0, 1024);
#else
    WarpTensor<4> work;
#endif
    __syncthreads();
    const unsigned long long began = cusync::time_ns();
    if (threadIdx.x == 0) p.sms[blockIdx.x] = cusync::sm_id();
    for (int quarter = 0; quarter < 4 * p.phases; ++quarter) {
        const unsigned long long until = (quarter + 1) * p.phase_ns / 4;
        const bool is_busy = blockIdx.x < p.busy || (!p.is_steady && quarter / 4 % 2 == 0);
        if (is_busy) {
            bool is_over;
            do {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
                wgmma::fence_accumulators(sums);
                wgmma::fence();
#pragma unroll
                for (int i = 0; i < 16; ++i)
                    wgmma::multiply_add<false, true>(sums[0], a + i % 4 * 2, b + i % 4 * 2, true);
                wgmma::commit();
                wgmma::wait<0>();
                wgmma::fence_accumulators(sums);
#else
                for (int i = 0; i < 16; ++i) work.step();
#endif
                // A block's warps leave together: the barrier hands out one thread's look at the clock.
                is_over = __syncthreads_or(threadIdx.x == 0 && cusync::time_ns() - began >= until);
            } while (!is_over);
        } else {
            while (cusync::time_ns() - began < until) __nanosleep(500);
        }
        __syncthreads();
        if (threadIdx.x == 0)
            p.stamps[static_cast<size_t>(blockIdx.x) * 4 * p.phases + quarter] =
                make_ulonglong2(cusync::clock_cycles(), cusync::time_ns());
    }
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    float sum = 0;
    for (int i = 0; i < 128; ++i) sum += sums[0][i];
    if (sum == 1.2345f) *p.sink = sum;
#else
    if (work.result() == 1.2345f) *p.sink = 1;
#endif
}
