// Before and after the experts: which rows are whose, a copy of x in that order, and the weighted sum of what they made.
#include <cusync/dependent_launch.cuh>
#include <kernels/moe/routing.cuh>

// One block. Counts the slots of each expert, orders the experts, lists blocks of rows, gives each slot its row.
extern "C" __global__ void __launch_bounds__(1024, 1) moe_route(const __grid_constant__ MoeParams p) {
    __shared__ int counts[most_experts], ordered[most_experts], first_rows[most_experts], first_blocks[most_experts];
    __shared__ int totals[32];
    const int thread = threadIdx.x, slots = p.tokens * p.top_k;
    cusync::launch_dependents();
    cusync::wait_for_previous_grid();
    if (thread == 0) p.errors->aborted = p.errors->waiter_count = 0;
    for (int i = thread; i < p.counter_count; i += blockDim.x) p.counters[i] = 0;
    counts[thread] = 0;
    __syncthreads();  // counts are zero
    for (int slot = thread; slot < slots; slot += blockDim.x) {
        const long long id = id_of(p, slot);
        const bool is_there = id >= 0 && id < p.experts;
        if (!is_there) report_once(p.report, id_out_of_range, slot, static_cast<int>(max(min(id, 0x7fffffffll), -0x80000000ll)), p.experts);
        p.rows[slot] = is_there ? atomicAdd(counts + id, 1) : -1;
    }
    __syncthreads();  // all slots are counted
    const int count = counts[thread];
    int place = 0;
    for (int i = 0; i < p.experts; ++i) place += counts[i] > count || (counts[i] == count && i < thread);
    if (thread < p.experts) ordered[place] = thread;
    __syncthreads();  // the order is there
    const int expert = thread < p.experts ? ordered[thread] : 0, rows = thread < p.experts ? counts[expert] : 0;
    const int blocks = (rows + p.tile_m - 1) / p.tile_m, padded = (rows + row_unit - 1) / row_unit * row_unit;
    const int rows_until = block_sum(padded, totals), blocks_until = block_sum(blocks, totals);
    if (thread < p.experts) first_rows[expert] = rows_until - padded, first_blocks[expert] = blocks_until - blocks;
    if (thread == blockDim.x - 1) *p.block_count = blocks_until;
    __syncthreads();  // each expert knows where it begins
    for (int e = thread / 32; e < p.experts; e += blockDim.x / 32) {
        const RowBlock block = {e, first_blocks[e], counts[e], first_rows[e]};
        for (int i = thread % 32; i * p.tile_m < block.rows; i += 32) p.blocks[block.start + i] = block;
    }
    for (int slot = thread; slot < slots; slot += blockDim.x) {
        if (p.rows[slot] >= 0) p.rows[slot] += first_rows[id_of(p, slot)];
    }
}

// A block per token: its row to each of its slots' rows.
extern "C" __global__ void __launch_bounds__(256) moe_gather(const __grid_constant__ MoeParams p) {
    cusync::launch_dependents();
    cusync::wait_for_previous_grid();
    const int token = blockIdx.x;
    const uint4* const from = p.x + static_cast<long long>(token) * p.quads;
    for (int i = threadIdx.x; i < p.quads; i += blockDim.x) {
        const uint4 values = __ldg(from + i);
        for (int choice = 0; choice < p.top_k; ++choice) {
            const int row = p.rows[token * p.top_k + choice];
            if (row >= 0) p.sorted[static_cast<long long>(row) * p.quads + i] = values;
        }
    }
}

// Thread blocks of 128 times 8 columns of a token. fp32, in the order of the token's choices: the same result every time.
extern "C" __global__ void __launch_bounds__(128) moe_combine(const __grid_constant__ MoeParams p) {
    const int parts = (p.quads + 127) / 128, token = blockIdx.x / parts, quad = blockIdx.x % parts * 128 + threadIdx.x;
    cusync::wait_for_previous_grid();
    if (blockIdx.x == 0 && threadIdx.x == 0 && p.errors->aborted != 0) {
        const cusync::WaiterRecord& waiter = p.errors->waiters[0];
        report_once(p.report, tile_never_came, waiter.counter, waiter.seen, waiter.awaited);
    }
    if (quad >= p.quads) return;
    float sums[8] = {};
#pragma unroll 4
    for (int choice = 0; choice < p.top_k; ++choice) {
        const int slot = token * p.top_k + choice, row = p.rows[slot];
        uint4 made = make_uint4(0x7fff7fffu, 0x7fff7fffu, 0x7fff7fffu, 0x7fff7fffu);  // NaN
        if (row >= 0) made = p.made[static_cast<long long>(row) * p.quads + quad];
        const float weight = weight_of(p, slot);
        const unsigned pairs[4] = {made.x, made.y, made.z, made.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums[2 * i] += weight * __uint_as_float(pairs[i] << 16);
            sums[2 * i + 1] += weight * __uint_as_float(pairs[i] & 0xffff0000u);
        }
    }
    unsigned packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed[i]) : "f"(sums[2 * i + 1]), "f"(sums[2 * i]));
    p.out[static_cast<long long>(token) * p.quads + quad] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
}
