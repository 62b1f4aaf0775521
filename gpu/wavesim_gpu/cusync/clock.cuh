// The registers that say when and where a thread runs, and a pause.
#pragma once

#include <cusync/semaphore.cuh>
#include <record/wavesim_recorder.cuh>

namespace cusync {

using wavesim::clock_cycles;
using wavesim::sm_id;

// Lets `duration` nanoseconds pass.
__device__ __forceinline__ void pause_ns(unsigned long long duration) {
    const unsigned long long began = time_ns();
    while (time_ns() - began < duration) __nanosleep(100);
}

}  // namespace cusync
