// Semaphores: how long a post takes to reach another SM, and what fetching, polling, posting and partial sums add to a
// block that works on tiles.

#include <cusync/clock.cuh>

constexpr int words_apart = 64;  // between two counters, so that they share no line

// Two blocks post to each other in turns, `rounds` times there and back; all others leave at once.
extern "C" __global__ void ping_pong(unsigned* counters, unsigned partner, unsigned rounds, ulonglong2* duration) {
    if (threadIdx.x != 0 || (blockIdx.x != 0 && blockIdx.x != partner)) return;
    const bool is_first = blockIdx.x == 0;
    unsigned* mine = counters + (is_first ? 0 : words_apart);
    const unsigned* theirs = counters + (is_first ? words_apart : 0);
    unsigned long long began_ns = 0, began_cycles = 0;
    for (unsigned i = 1; i <= rounds; ++i) {
        if (i == 2) began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();  // the first starts the other
        if (is_first) cusync::add_release(mine, 1);
        while (cusync::load_acquire(theirs) < i) {
        }
        if (!is_first) cusync::add_release(mine, 1);
    }
    if (is_first)
        *duration = make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
}

enum Part { fetch = 1, poll = 2, post = 4, partial = 8, fixup = 16 };

struct BlockCostParams {
    unsigned* counters;     // the first is the tile counter; block i's own come 2 and 3 steps after 2 * i, reading 1 and 0
    float4* tiles;          // per block, `tile_quads` of 256 threads
    float4* sums;           // per block, `sum_quads` of 256 threads
    ulonglong2* durations;  // per block: nanoseconds and cycles of all rounds
    int parts, rounds, work, tile_quads, sum_quads;
};

// A block's rounds: store a tile and post it, work until the stores have drained, and what comes before the next tile.
extern "C" __global__ void block_costs(const __grid_constant__ BlockCostParams p) {
    __shared__ unsigned fetched;
    unsigned* own = p.counters + words_apart * (1 + 2 * blockIdx.x);
    float4* tile = p.tiles + static_cast<size_t>(blockIdx.x) * p.tile_quads * blockDim.x;
    float4* sums = p.sums + static_cast<size_t>(blockIdx.x) * p.sum_quads * blockDim.x;
    const float4* others =
        p.sums + static_cast<size_t>((blockIdx.x + 1) % gridDim.x) * p.sum_quads * blockDim.x;
    float value = threadIdx.x;
    __syncthreads();
    const unsigned long long began_ns = cusync::time_ns(), began_cycles = cusync::clock_cycles();
#pragma unroll 1
    for (int round = 0; round < p.rounds; ++round) {
        for (int i = 0; i < p.tile_quads; ++i)
            tile[i * blockDim.x + threadIdx.x] = make_float4(value, value, value, value);
        if (p.parts & post) {
            __syncthreads();
            if (threadIdx.x == 0) cusync::add_release(own + words_apart, 1);
            __syncthreads();  // the next tile's work begins when the post is out
        }
#pragma unroll 1
        for (int i = 0; i < p.work; ++i) value = value * 0.999f + 0.5f;
        __syncthreads();
        if (p.parts & fetch) {
            if (threadIdx.x == 0) fetched = cusync::fetch_add_relaxed(p.counters, 1);
            __syncthreads();
            value += fetched == 0xffffffffu;
        }
        if (p.parts & (poll | fixup)) {
            if (threadIdx.x == 0)
                while (cusync::load_acquire(own) == 0) {
                }
            __syncthreads();
        }
        if (p.parts & partial) {
            for (int i = 0; i < p.sum_quads; ++i)
                sums[i * blockDim.x + threadIdx.x] = make_float4(value, value, value, value);
            __syncthreads();
            if (threadIdx.x == 0) cusync::add_release(own + words_apart, 1);
            __syncthreads();
        }
        if (p.parts & fixup) {
            float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
            for (int i = 0; i < p.sum_quads; ++i) {
                const float4 part = __ldcg(others + i * blockDim.x + threadIdx.x);
                sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
            }
            value += (sum.x + sum.y + sum.z + sum.w) * 1e-30f;
            __syncthreads();
        }
    }
    __syncthreads();
    if (threadIdx.x == 0)
        p.durations[blockIdx.x] =
            make_ulonglong2(cusync::time_ns() - began_ns, cusync::clock_cycles() - began_cycles);
}
