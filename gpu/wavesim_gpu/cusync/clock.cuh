// The three registers that say when and where a thread runs.
#pragma once

namespace cusync {

// Nanoseconds, one clock for the whole GPU; it moves in steps (32 ns on an H200).
__device__ __forceinline__ unsigned long long time_ns() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

// Cycles of this SM's own clock.
__device__ __forceinline__ unsigned long long cycles() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
    return value;
}

__device__ __forceinline__ unsigned sm_id() {
    unsigned value;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(value));
    return value;
}

// Lets `duration` nanoseconds pass.
__device__ __forceinline__ void pause_ns(unsigned long long duration) {
    const unsigned long long began = time_ns();
    while (time_ns() - began < duration) __nanosleep(100);
}

}  // namespace cusync
