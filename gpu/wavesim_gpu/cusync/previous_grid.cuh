// How a kernel under semaphores ends after the kernel before it, of which its blocks have waited for tiles only.
#pragma once

#include <cusync/dependent_launch.cuh>

namespace cusync {

// By the leader of a block at its end. What follows this grid must find that the one before has ended too. One block
// sees to that, the one issued last: blocks that all stayed would keep their places on the SMs from the blocks that come
// after them, whose tiles may long be ready.
__device__ __forceinline__ void end_after_previous_grid() {
    const dim3 last(gridDim.x - 1, gridDim.y - 1, gridDim.z - 1);
    if (blockIdx.x == last.x && blockIdx.y == last.y && blockIdx.z == last.z) wait_for_previous_grid();
}

}  // namespace cusync
