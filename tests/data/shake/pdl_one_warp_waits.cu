// One warp waits for the grid before, and no barrier holds the others back.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    launch_dependents();
    data[INDEX] = 2 * input[INDEX];
}
ENTRY second(ARGUMENTS) {
    if (threadIdx.x < 32) wait_for_grid();
    RIGHT(__syncthreads();)
    out[INDEX] = data[INDEX] + 1;
}
