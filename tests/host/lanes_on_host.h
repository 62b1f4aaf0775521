// CUDA threads as threads of the host, each lane one of its own, so that what lanes of a warp do to each other can be a
// race too. One block at a time: shared memory is static.
#pragma once

#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

struct Dim3 {
    unsigned x = 0, y = 0, z = 0;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

inline thread_local Dim3 threadIdx, blockIdx;
inline Dim3 blockDim, gridDim;

namespace host {

constexpr unsigned most_warps = 32, lanes = 32;
inline bool drops_syncthreads = false, drops_syncwarp = false;
inline pthread_barrier_t block, warp[most_warps];
inline float exchanged[most_warps][lanes];

inline unsigned number() { return threadIdx.y * blockDim.x + threadIdx.x; }

// Runs a grid, block after block; threads that return early meet the others at the block's end.
inline void launch(Dim3 grid, Dim3 threads, const std::function<void()>& kernel) {
    gridDim = grid, blockDim = threads;
    const unsigned count = threads.x * threads.y;
    pthread_barrier_t end;
    pthread_barrier_init(&block, nullptr, count);
    pthread_barrier_init(&end, nullptr, count);
    for (unsigned i = 0; i < count / lanes; ++i) pthread_barrier_init(&warp[i], nullptr, lanes);
    std::vector<std::thread> running;
    for (unsigned t = 0; t < count; ++t)
        running.emplace_back([=, &kernel, &end] {
            threadIdx = {t % threads.x, t / threads.x, 0};
            for (unsigned at = 0; at < grid.x * grid.y; ++at) {
                blockIdx = {at % grid.x, at / grid.x, 0};
                kernel();
                pthread_barrier_wait(&end);
            }
        });
    for (std::thread& one : running) one.join();
}

}  // namespace host

inline void __syncthreads() {
    if (!host::drops_syncthreads) pthread_barrier_wait(&host::block);
}
inline void __syncwarp() {
    if (!host::drops_syncwarp) pthread_barrier_wait(&host::warp[host::number() / host::lanes]);
}
inline float __shfl_down_sync(unsigned, float value, unsigned distance) {
    const unsigned warp = host::number() / host::lanes, lane = host::number() % host::lanes;
    host::exchanged[warp][lane] = value;
    pthread_barrier_wait(&host::warp[warp]);
    const float found = lane + distance < host::lanes ? host::exchanged[warp][lane + distance] : value;
    pthread_barrier_wait(&host::warp[warp]);
    return found;
}
inline float4 __ldcg(const float4* from) { return *from; }
