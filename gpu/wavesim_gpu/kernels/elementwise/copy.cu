// out = in, 16 KB a block: the kernel with the least to do between a wait and a post, to measure what these cost.
// A consumer's block copies what the producer's block of the same number has written.

#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/stage.cuh>

struct CopyParams {
    const uint4* in;
    uint4* out;
};

constexpr int bytes_per_block = 16 << 10, threads_per_sm = 2048;
constexpr int most_in_flight = 4;  // loads of a thread: with more registers an SM would not hold all its threads

// A batch's loads are in flight before its first store.
template <int THREADS>
__global__ void __launch_bounds__(THREADS, threads_per_sm / THREADS)
copy(const __grid_constant__ cusync::StageParams<generated::stage> sync, const __grid_constant__ CopyParams p) {
    constexpr int rounds = bytes_per_block / 16 / THREADS, batch = rounds < most_in_flight ? rounds : most_in_flight;
    cusync::launch_dependents();
    cusync::Stage<generated::stage> stage(sync);
    stage.begin();
    const int block = static_cast<int>(blockIdx.x);  // one row of tiles, in their order: no division
    const cusync::Tile tile = {block, 0, 0, block, block};
    const long long first = static_cast<long long>(block) * (bytes_per_block / 16) + threadIdx.x;
    // Without semaphores the whole kernel before has to end; with them the one block does.
    if constexpr (generated::stage::input_count == 0) cusync::wait_for_previous_grid();
    const bool is_there = stage.wait(0, tile.x, tile.y);
#pragma unroll
    for (int begin = 0; begin < rounds; begin += batch) {
        uint4 values[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) values[i] = p.in[first + (begin + i) * THREADS];
        if (begin == 0) {
            // No other block waits for it.
            if (sync.sync.counter_count == 0) stage.reset_semaphore(0, tile.x, tile.y, is_there);
            stage.before_stores(tile, cusync::is_leader());
        }
        if (!is_there) {
#pragma unroll
            for (int i = 0; i < batch; ++i) values[i] = make_uint4(~0u, ~0u, ~0u, ~0u);  // NaN in any type
        }
#pragma unroll
        for (int i = 0; i < batch; ++i) p.out[first + (begin + i) * THREADS] = values[i];
    }
    stage.finish(tile);
}
