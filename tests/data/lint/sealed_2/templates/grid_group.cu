// The grid barrier of cooperative groups, twice a step.
#include <cooperative_groups.h>

extern "C" __global__ void grid_group(float* a, float* b, int steps) {
    auto grid = cooperative_groups::this_grid();
    unsigned i = grid.thread_rank(), n = grid.size();
    for (int s = 0; s < steps; s++) {
        b[i] = 0.5f * (a[i] + a[(i + 1) % n]);
        grid.sync();
        a[i] = 0.5f * (b[i] + b[(i + n - 1) % n]);
        grid.sync();
    }
}
