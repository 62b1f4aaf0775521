// The dependent kernel has no griddepcontrol.wait.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    launch_dependents();
    data[INDEX] = 2 * input[INDEX];
}
ENTRY second(ARGUMENTS) {
    RIGHT(wait_for_grid();)
    out[INDEX] = data[INDEX] + 1;
}
