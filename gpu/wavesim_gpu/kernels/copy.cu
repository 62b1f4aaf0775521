// out = in, 16 KB a block: the kernel with the least to do between a wait and a post, to measure what these cost.
// A consumer's block copies what the producer's block of the same number has written.

#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/stage.cuh>

struct CopyParams {
    const uint4* in;
    uint4* out;
};

constexpr int bytes_per_block = 16 << 10;

// All loads are in flight before the first store.
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
copy(const __grid_constant__ cusync::StageParams<generated::stage> sync, const __grid_constant__ CopyParams p) {
    constexpr int rounds = bytes_per_block / 16 / THREADS;
    cusync::let_next_start();
    cusync::Stage<generated::stage> stage(sync);
    const cusync::Tile tile = stage.begin();
    const long long first = static_cast<long long>(tile.linear) * (bytes_per_block / 16) + threadIdx.x;
    // Without semaphores the whole kernel before has to end; with them the one block does.
    if constexpr (generated::stage::input_count == 0) cusync::wait_for_previous();
    stage.wait(0, tile.x, tile.y);
    uint4 values[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) values[i] = p.in[first + i * THREADS];
    if (sync.sync.counter_count == 0) stage.put_back(0, tile.x, tile.y);  // no other block waits for it
    stage.before_stores(tile);
#pragma unroll
    for (int i = 0; i < rounds; ++i) p.out[first + i * THREADS] = values[i];
    stage.finish(tile);
}
