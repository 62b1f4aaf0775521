// One primitive again and again, in one thread of each block, between two looks at the clocks: what it costs by itself.
//
//   block   | clock | wait wait wait ... wait | clock |      each one begins when the one before it has its answer

#include <cusync/recorder.cuh>
#include <cusync/semaphore.cuh>

enum Primitive { empty_loop, wait_ready, wait_ready_by_fence, post_alone, post_shared, post_stored, fetch, retire, record };

struct PrimitiveParams {
    unsigned* counters;              // the first is everybody's; block i's own comes 128 * (1 + i) bytes later, and reads 1
    cusync::TileRecord* records;     // one per block
    unsigned long long* durations;   // per block: nanoseconds, cycles
    int operations;
};

// A value that is always 0, which the compiler cannot know: the next use waits for this one's answer.
__device__ __forceinline__ unsigned nothing(unsigned value) { return value >> 31; }

template <int PRIMITIVE>
__device__ __forceinline__ unsigned use(unsigned* shared, unsigned* own, const PrimitiveParams& p) {
    const cusync::TileRecorder<1> recorder;
    if constexpr (PRIMITIVE == wait_ready) return cusync::load_acquire(own) == 0;
    if constexpr (PRIMITIVE == wait_ready_by_fence) {
        const bool is_missing = cusync::load_relaxed(own) == 0;
        cusync::acquire_fence();  // as after a warp's try_wait at many semaphores
        return is_missing;
    }
    if constexpr (PRIMITIVE == post_alone) cusync::post(own, true);
    if constexpr (PRIMITIVE == post_shared) cusync::post(shared, false);
    if constexpr (PRIMITIVE == post_stored) {
        p.durations[2 * blockIdx.x] = 0;  // something to publish: the fence has to wait for it
        cusync::post(own, true);
    }
    if constexpr (PRIMITIVE == fetch) return nothing(cusync::fetch_add_relaxed(shared, 1));
    if constexpr (PRIMITIVE == retire) return nothing(cusync::fetch_add_acq_rel(shared, 1));
    if constexpr (PRIMITIVE == record) {
        recorder.begin();
        recorder.end(p.records + blockIdx.x, 0, blockIdx.x, 0, 0);
    }
    return 0;
}

template <int PRIMITIVE>
__global__ void primitive(const __grid_constant__ PrimitiveParams p) {
    if (threadIdx.x != 0) return;
    unsigned* own = p.counters + 32 * (1 + blockIdx.x);
    unsigned* shared = p.counters;
    const unsigned long long began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
#pragma unroll 1
    for (int i = 0; i < p.operations; ++i) {
        const unsigned step = use<PRIMITIVE>(shared, own, p);
        own += step, shared += step;
        asm volatile("" : "+l"(own), "+l"(shared));  // keeps the empty loop
    }
    const unsigned long long cycles = cusync::clock_cycles() - began_cycles, ns = cusync::time_ns() - began_ns;
    p.durations[2 * blockIdx.x] = ns;
    p.durations[2 * blockIdx.x + 1] = cycles;
}
