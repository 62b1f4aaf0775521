// Which rows are whose: made on the device from the router's choice, read by every kernel of the layer.
//
// Slots are (token, choice), token by token. An expert's rows follow each other in the sorted buffers and begin at a multiple of
// eight, so that TMA may store eight rows at a time. The experts are in the order of their rows, the longest first: what
// takes longest must not begin last.
#pragma once

#include <cusync/watch.cuh>

constexpr int most_experts = 1024;
constexpr int most_few_slots = 2048, most_few_choices = 32;  // of moe_route_few
constexpr int row_unit = 8;        // rows that a partial block of rows is stored by
constexpr int first_semaphore = 4; // counters before it: tiles taken, by launch

// Up to tile_m rows of one expert. `start` and `rows` are of all the expert's blocks.
struct __align__(16) RowBlock {
    int expert, start, rows, first_row;
};

// What the host reads: the first failure of any call since it last looked.
struct MoeReport {
    unsigned kind;  // 0, or a Failure
    int index, value, awaited;
};
enum Failure : unsigned { id_out_of_range = 1, tile_never_came = 2 };

struct MoeParams {
    const void* ids;      // (tokens, top_k), int32 or int64
    const void* weights;  // (tokens, top_k), float or bf16
    const uint4* x;       // (tokens, hidden) bf16
    uint4* sorted;        // x's rows as the experts read them
    const uint4* made;    // the experts' outputs, in the same order
    uint4* out;           // (tokens, hidden)
    int* rows;            // of each slot: its row in the sorted buffers, or -1 where its expert does not exist
    RowBlock* blocks;
    int* block_count;
    unsigned* counters;
    cusync::ErrorBuffer* errors;
    MoeReport* report;
    int tokens, top_k, experts, quads, tile_m;  // quads: of 8 elements in a row
    int are_ids_long, are_weights_bf16, counter_count;
};
static_assert(sizeof(MoeParams) == 128, "moe_launch.py packs 128 bytes");

__device__ __forceinline__ long long id_of(const MoeParams& p, int slot) {
    return p.are_ids_long ? static_cast<const long long*>(p.ids)[slot] : static_cast<const int*>(p.ids)[slot];
}

__device__ __forceinline__ float weight_of(const MoeParams& p, int slot) {
    if (!p.are_weights_bf16) return static_cast<const float*>(p.weights)[slot];
    return __uint_as_float(static_cast<unsigned>(static_cast<const unsigned short*>(p.weights)[slot]) << 16);
}

__device__ __forceinline__ void report_once(MoeReport* report, Failure kind, int index, int value, int awaited) {
    if (atomicCAS(&report->kind, 0u, static_cast<unsigned>(kind)) != 0) return;
    report->index = index, report->value = value, report->awaited = awaited;
}

// Inclusive sums over the block's 1024 threads. `totals`: 32 words of shared memory, free for use.
__device__ __forceinline__ int block_sum(int value, int* totals) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto warp_sum = [&](int x) {
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int before = __shfl_up_sync(~0u, x, step);
            if (lane >= step) x += before;
        }
        return x;
    };
    value = warp_sum(value);
    if (lane == 31) totals[warp] = value;
    __syncthreads();  // the warps' totals are there
    if (warp == 0) totals[lane] = warp_sum(totals[lane]);
    __syncthreads();  // and their sums
    if (warp > 0) value += totals[warp - 1];
    __syncthreads();  // `totals` may be written again
    return value;
}
