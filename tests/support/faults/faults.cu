// What the demonstration of failures needs on the device: a co-tenant that holds SMs, and a judge of results.

#include <cusync/clock.cuh>

// As many blocks as SMs are to be held, each for so long. How much of an SM a block holds its dynamic shared memory
// says: with all of it no other block fits beside it.
extern "C" __global__ void hold(unsigned long long duration_ns) { cusync::pause_ns(duration_ns); }

constexpr unsigned is_wrong = 1, has_nan = 2, is_judged = 4;

// Compares `count` elements bit by bit. In a verdict a finite element that is not the wanted one sets `is_wrong`, a NaN
// `has_nan`; `is_judged` tells a right result from one that nobody looked at.
extern "C" __global__ void judge(const unsigned short* got, const unsigned short* want, unsigned long long count,
                                 unsigned* verdict) {
    unsigned found = is_judged;
    const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const bool is_nan = (got[i] & 0x7fff) > 0x7c00;  // fp16
        if (is_nan) found |= has_nan;
        if (!is_nan && got[i] != want[i]) found |= is_wrong;
    }
    atomicOr(verdict, found);
}
