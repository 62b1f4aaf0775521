// A whole program for nvcc: two kernels plainly on one stream, then with row semaphores; checked and timed.
// No Python at run time. With programmatic dependent launch (from sm_90 on), or on two streams without -DPDL:
//
//     wavesim gen whole_pair.toml --sync pdl+row --out sync.cuh
//     nvcc -std=c++17 -O3 -arch=sm_90 -DPDL -I. whole_pair.cu -o pair && ./pair
//
//     wavesim gen whole_pair.toml --sync row --out sync.cuh
//     nvcc -std=c++17 -O3 -arch=sm_90 -I. whole_pair.cu -o pair && ./pair
//
// Lines that the semaphores add to a kernel are marked (+).

#ifndef __CUDACC_RTC__  // NVRTC, as `wavesim lint whole_pair.cu -I.` uses it, compiles device code only
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#endif

#include "sync.cuh"

namespace pair = whole_pair;  // the description's file gives the namespace its name

#define CHECK(call)                                                                             \
    do {                                                                                        \
        if (const cudaError_t error = (call); error != cudaSuccess) {                           \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(error));         \
            std::exit(1);                                                                       \
        }                                                                                       \
    } while (0)

constexpr int tile_size = 16, m = 2304, n = 1024, k = 2048, rounds = 20;

__device__ void multiply_tile(int x, int y, const float* a, const float* b, float* c) {
    __shared__ float a_tile[tile_size][tile_size], b_tile[tile_size][tile_size];
    const int row = y * tile_size + threadIdx.y, column = x * tile_size + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += tile_size) {
        a_tile[threadIdx.y][threadIdx.x] = a[row * k + k0 + threadIdx.x];
        b_tile[threadIdx.y][threadIdx.x] = b[(k0 + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < tile_size; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum * sum;
}

// Each row of c over its sum; `ready(x)` returns whether tile x of the row is in memory. False: a wait gave up.
template <class Ready>
__device__ bool normalise_tile(int y, const float* c, float* out, Ready ready) {
    __shared__ float partial[tile_size][tile_size];
    const int row = y * tile_size + threadIdx.y;
    float sum = 0.0f;
    for (int x = 0; x < n / tile_size; ++x) {
        if (!ready(x)) return false;
        sum += c[row * n + x * tile_size + threadIdx.x];
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < tile_size; ++i) total += partial[threadIdx.y][i];
    for (int column = threadIdx.x; column < n; column += tile_size) {
        out[row * n + column] = c[row * n + column] / total;
    }
    return true;
}

__global__ void matmul(const float* a, const float* b, float* c) {
    multiply_tile(blockIdx.x, blockIdx.y, a, b, c);
}

__global__ void normalise_rows(const float* c, float* out) {
    normalise_tile(blockIdx.y, c, out, [](int) { return true; });
}

__global__ void matmul_posting(const float* a, const float* b, float* c, unsigned* counters) {
#ifdef PDL
    asm volatile("griddepcontrol.launch_dependents;");  // (+) the next kernel may start now
#endif
    const pair::Tile tile = pair::matmul::begin(counters);  // (+) in place of blockIdx
    multiply_tile(tile.x, tile.y, a, b, c);
    pair::matmul::post(counters, tile);  // (+) after the last store; it releases them
}

__global__ void normalise_rows_waiting(const float* c, float* out, unsigned* counters) {
    const pair::Tile tile = pair::normalise_rows::begin(counters);  // (+)
    const auto ready = [&](int x) {
        return pair::matmul_to_normalise_rows::wait(counters, x, tile.y);  // (+) acquires what the tile stored
    };
    if (normalise_tile(tile.y, c, out, ready)) pair::normalise_rows::post(counters, tile);  // (+)
#ifdef PDL
    // (+) What follows on the stream must wait for both kernels, also where a wait gave up.
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__global__ void wait_for_start(unsigned* counters, int started) {
    pair::wait_for(counters, started, 1);
}

#ifndef __CUDACC_RTC__
struct Pair {
    float *a, *b, *c, *out;
    unsigned* counters;
    cudaStream_t streams[2];
    cudaEvent_t ahead, behind;
};

constexpr dim3 block(tile_size, tile_size), first_grid(n / tile_size, m / tile_size), second_grid(1, m / tile_size);

void run_plain(const Pair& p) {
    matmul<<<first_grid, block, 0, p.streams[0]>>>(p.a, p.b, p.c);
    normalise_rows<<<second_grid, block, 0, p.streams[0]>>>(p.c, p.out);
}

void run_synchronised(const Pair& p) {
    CHECK(pair::prepare_run(p.counters, p.streams[0]));
#ifdef PDL
    matmul_posting<<<pair::matmul::blocks(), block, 0, p.streams[0]>>>(p.a, p.b, p.c, p.counters);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch{};
    launch.gridDim = pair::normalise_rows::blocks(), launch.blockDim = block, launch.stream = p.streams[0];
    launch.attrs = &early, launch.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&launch, normalise_rows_waiting, static_cast<const float*>(p.c), p.out, p.counters));
#else
    CHECK(cudaEventRecord(p.ahead, p.streams[0]));
    CHECK(cudaStreamWaitEvent(p.streams[1], p.ahead));  // for its zeros
    matmul_posting<<<pair::matmul::blocks(), block, 0, p.streams[0]>>>(p.a, p.b, p.c, p.counters);
    wait_for_start<<<1, 32, 0, p.streams[1]>>>(p.counters, pair::matmul::started);
    normalise_rows_waiting<<<pair::normalise_rows::blocks(), block, 0, p.streams[1]>>>(p.c, p.out, p.counters);
    CHECK(cudaEventRecord(p.behind, p.streams[1]));
    CHECK(cudaStreamWaitEvent(p.streams[0], p.behind));  // the next run zeroes what this one polls
#endif
}

// Median microseconds of one run, between events on the first stream.
template <class Run>
float microseconds(const Pair& p, Run run) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int round = 0; round < rounds; ++round) {
        float ms = 0;
        CHECK(cudaEventRecord(begin, p.streams[0]));
        run();
        CHECK(cudaEventRecord(end, p.streams[0]));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        times.push_back(1000 * ms);
    }
    std::sort(times.begin(), times.end());
    return times[rounds / 2];
}

std::vector<float> result_of(const Pair& p) {
    std::vector<float> host(m * n);
    CHECK(cudaMemcpy(host.data(), p.out, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
}

int main() {
    Pair p{};
    std::vector<float> a(m * k), b(k * n);
    for (float& value : a) value = std::rand() / float(RAND_MAX) - 0.5f;
    for (float& value : b) value = std::rand() / float(RAND_MAX) - 0.5f;
    CHECK(cudaMalloc(&p.a, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&p.b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&p.c, m * n * sizeof(float)));
    CHECK(cudaMalloc(&p.out, m * n * sizeof(float)));
    CHECK(cudaMalloc(&p.counters, pair::counter_count * sizeof(unsigned)));
    CHECK(cudaMemset(p.counters, 0, pair::counter_count * sizeof(unsigned)));
    CHECK(cudaMemcpy(p.a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(p.b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    for (auto& stream : p.streams) CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&p.ahead));
    CHECK(cudaEventCreate(&p.behind));
#ifndef PDL
    CHECK(pair::prepare_kernel(matmul_posting, p.streams[0]));
    CHECK(pair::prepare_kernel(wait_for_start, p.streams[1]));
    CHECK(pair::prepare_kernel(normalise_rows_waiting, p.streams[1]));
#endif
    run_plain(p);
    CHECK(cudaDeviceSynchronize());
    const std::vector<float> expected = result_of(p);
    CHECK(cudaMemset(p.c, 0xff, m * n * sizeof(float)));  // NaN: a tile that is read too early shows
    CHECK(cudaMemset(p.out, 0xff, m * n * sizeof(float)));
    run_synchronised(p);
    const char* missing = nullptr;
    if (const cudaError_t error = pair::check_run(p.counters, missing); error != cudaSuccess) {
        std::fprintf(stderr, "%s, missing: %s\n", cudaGetErrorString(error), missing ? missing : "nothing");
        return 1;
    }
    if (result_of(p) != expected) return std::fprintf(stderr, "results differ\n"), 1;
    const float first = microseconds(p, [&] { matmul<<<first_grid, block, 0, p.streams[0]>>>(p.a, p.b, p.c); });
    const float second =
        microseconds(p, [&] { normalise_rows<<<second_grid, block, 0, p.streams[0]>>>(p.c, p.out); });
    const float plain = microseconds(p, [&] { run_plain(p); });
    const float synchronised = microseconds(p, [&] { run_synchronised(p); });
    CHECK(pair::check_run(p.counters, missing));
    std::printf("alone: matmul %.1f us, normalise_rows %.1f us\n", first, second);
    std::printf("stream sync %.1f us, row semaphores %.1f us: gain %+.1f %%, same bits\n", plain, synchronised,
                100 * (1 - synchronised / plain));
}
#endif
