// CUTLASS's semaphore of a serial split-K, its barrier between blocks, and its named barriers, in kernels of our own.
#include <cutlass/barrier.h>
#include <cutlass/cutlass.h>
#include <cutlass/semaphore.h>

extern "C" __global__ void serial_split_k(const float* parts, float* tile, int* locks, int slices) {
    cutlass::Semaphore semaphore(&locks[blockIdx.x], threadIdx.x);
    semaphore.fetch();
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    float mine = parts[blockIdx.y * gridDim.x * 128 + at];
    semaphore.wait(blockIdx.y);
    __threadfence();
    if (blockIdx.y) mine += tile[at];
    tile[at] = mine;
    semaphore.release(static_cast<int>(blockIdx.y) + 1 == slices ? 0 : blockIdx.y + 1);
}

extern "C" __global__ void partial_sums(const float* parts, float* workspace, float* out, int* flags, int peers) {
    using Barrier = cutlass::Barrier;
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    if (blockIdx.y < peers) {
        workspace[blockIdx.y * gridDim.x * 128 + at] = parts[blockIdx.y * gridDim.x * 128 + at];
        Barrier::arrive_inc(flags, threadIdx.x, blockIdx.x);
    } else {
        Barrier::wait_eq(flags, threadIdx.x, blockIdx.x, peers);
        float sum = 0;
        for (int peer = 0; peer < peers; peer++) sum += workspace[peer * gridDim.x * 128 + at];
        out[at] = sum;
    }
}

extern "C" __global__ void partial_sums_of_warpgroups(const float* parts, float* workspace, float* out, int* flags,
                                                      int peers) {
    using Barrier = cutlass::NamedBarrierManager<2>;
    unsigned group = threadIdx.x / 128, lane = threadIdx.x % 128;
    unsigned at = (blockIdx.x * 2 + group) * 128 + lane;
    if (blockIdx.y < peers) {
        workspace[blockIdx.y * gridDim.x * 256 + at] = parts[blockIdx.y * gridDim.x * 256 + at];
        Barrier::arrive_inc(group, flags, lane, blockIdx.x * 2 + group);
    } else {
        Barrier::wait_eq(group, flags, lane, blockIdx.x * 2 + group, peers);
        float sum = 0;
        for (int peer = 0; peer < peers; peer++) sum += workspace[peer * gridDim.x * 256 + at];
        out[at] = sum;
    }
}
