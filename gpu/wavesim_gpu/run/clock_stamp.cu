// Every SM's cycles and the time, so that two stamps in a stream tell the mean clock of what ran between them.

#include <cusync/clock.cuh>

// More blocks than SMs, so that each SM gets one; the last stamp of an SM counts.
extern "C" __global__ void stamp(ulonglong2* stamps) {
    if (threadIdx.x == 0) stamps[cusync::sm_id()] = make_ulonglong2(cusync::clock_cycles(), cusync::time_ns());
}
