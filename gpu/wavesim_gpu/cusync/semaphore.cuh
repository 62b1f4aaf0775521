// The loads, stores and atomics that semaphores are made of: the same text that generated headers carry.
#pragma once

#include <cusync/mutant.cuh>

namespace cusync {

#include <wavesim/codegen/semaphore.cuh>

// Posts: adds one with release semantics. A semaphore that nobody else posts is stored to, which is cheaper.
__device__ __forceinline__ void post(unsigned* counter, bool is_only_poster) {
    if constexpr (mutant == Mutant::no_post) return;
    if constexpr (mutant == Mutant::no_fence) {
        add_relaxed(counter, 1);
    } else if (is_only_poster) {
        store_release(counter, 1);
    } else {
        add_release(counter, 1);
    }
}

}  // namespace cusync
