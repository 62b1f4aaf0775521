// Blocks that do nothing but stay on their SM: which SM they were given, from when to when.

#include <cusync/clock.cuh>

struct Stay {
    unsigned long long start_ns, end_ns;
    unsigned sm, unused;
};

__device__ __forceinline__ void stay(Stay* stays, unsigned long long for_ns) {
    if (threadIdx.x != 0) return;
    const unsigned long long began = cusync::time_ns();
    while (cusync::time_ns() - began < for_ns) __nanosleep(200);
    stays[blockIdx.x] = Stay{began, cusync::time_ns(), cusync::sm_id(), 0};
}

// Two kernels, so that each can prefer a shared-memory carve-out of its own.
extern "C" __global__ void stay_first(Stay* stays, unsigned long long for_ns) { stay(stays, for_ns); }
extern "C" __global__ void stay_second(Stay* stays, unsigned long long for_ns) { stay(stays, for_ns); }
