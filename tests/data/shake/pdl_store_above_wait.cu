// The dependent kernel clears what the kernel before still reads.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    launch_dependents();
    out[INDEX] = data[INDEX] + 2 * input[INDEX] + 1;
}
ENTRY second(ARGUMENTS) {
    RIGHT(wait_for_grid();)
    data[INDEX] = 1000;
    WRONG(wait_for_grid();)
}
