// Before and after the experts: which rows are whose, a copy of x in that order, and the weighted sum of what they made.
#include <cusync/dependent_launch.cuh>
#include <kernels/moe/routing.cuh>

constexpr int in_flight = 8;  // loads of a thread, one behind the other they would take the L2's latency each

// -1 for an id that no expert has, which is reported.
__device__ __forceinline__ int checked_id(const MoeParams& p, int slot, bool reports) {
    const long long id = id_of(p, slot);
    if (id >= 0 && id < p.experts) return static_cast<int>(id);
    const int shown = static_cast<int>(max(min(id, 0x7fffffffll), -0x80000000ll));
    if (reports) report_once(p.report, id_out_of_range, slot, shown, p.experts);
    return -1;
}

__device__ __forceinline__ void load_ids(const MoeParams& p, int first, int slots, int (&ids)[in_flight]) {
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
        const int slot = first + i * blockDim.x;
        ids[i] = slot < slots ? checked_id(p, slot, true) : -1;
    }
}

// A token's row to each of its choices' rows.
__device__ __forceinline__ void copy_row(const MoeParams& p, int token, const int* rows) {
    const uint4* const from = p.x + static_cast<long long>(token) * p.quads;
    for (int i = threadIdx.x; i < p.quads; i += blockDim.x) {
        const uint4 values = __ldg(from + i);
        for (int choice = 0; choice < p.top_k; ++choice) {
            if (rows[choice] >= 0) p.sorted[static_cast<long long>(rows[choice]) * p.quads + i] = values;
        }
    }
}

// One block. Counts the slots of each expert, orders the experts, lists blocks of rows, gives each slot its row.
extern "C" __global__ void __launch_bounds__(1024, 1) moe_route(const __grid_constant__ MoeParams p) {
    __shared__ int counts[most_experts], ordered[most_experts], first_rows[most_experts], first_blocks[most_experts];
    __shared__ int totals[32];
    const int thread = threadIdx.x, slots = p.tokens * p.top_k;
    cusync::wait_for_previous_grid();
    cusync::launch_dependents();
    if (thread == 0) p.errors->aborted = p.errors->waiter_count = 0;
    for (int i = thread; i < p.counter_count; i += blockDim.x) p.counters[i] = 0;
    counts[thread] = 0;
    __syncthreads();  // counts are zero
    for (int first = thread; first < slots; first += in_flight * blockDim.x) {
        int ids[in_flight];
        load_ids(p, first, slots, ids);
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            const int slot = first + i * blockDim.x;
            if (slot < slots) p.rows[slot] = ids[i] < 0 ? -1 : atomicAdd(counts + ids[i], 1);
        }
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
    for (int first = thread; first < slots; first += in_flight * blockDim.x) {
        int ids[in_flight], rows[in_flight];
        load_ids(p, first, slots, ids);
#pragma unroll
        for (int i = 0; i < in_flight; ++i) rows[i] = ids[i] < 0 ? -1 : p.rows[first + i * blockDim.x];
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            if (ids[i] >= 0) p.rows[first + i * blockDim.x] = rows[i] + first_rows[ids[i]];
        }
    }
}

__device__ __forceinline__ int warp_sum(int value) {
#pragma unroll
    for (int lanes = 16; lanes; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
    return value;
}

// The same and the copy in one launch, for up to `most_few_slots` slots: a block per token, each of which counts all slots for
// itself. A warp finds the row of one choice: the rows of experts that come before, and of earlier slots with the same expert.
extern "C" __global__ void __launch_bounds__(256) moe_route_few(const __grid_constant__ MoeParams p) {
    __shared__ int counts[most_experts], blocks_of[most_experts], ids[most_few_slots], rows[most_few_choices], all_blocks;
    const int thread = threadIdx.x, lane = thread % 32, token = blockIdx.x, slots = p.tokens * p.top_k;
    cusync::wait_for_previous_grid();
    cusync::launch_dependents();
    for (int i = thread; i < p.experts; i += blockDim.x) counts[i] = 0;
    if (thread == 0) all_blocks = 0;
    __syncthreads();  // counts are zero
    for (int slot = thread; slot < slots; slot += blockDim.x) {
        const int id = checked_id(p, slot, token == 0);
        ids[slot] = id;
        if (id >= 0) atomicAdd(counts + id, 1);
    }
    __syncthreads();  // all slots are counted
    const auto comes_before = [&](int other, int expert) {
        return counts[other] > counts[expert] || (counts[other] == counts[expert] && other < expert);
    };
    const auto padded = [](int count) { return (count + row_unit - 1) / row_unit * row_unit; };
    for (int choice = thread / 32; choice < p.top_k; choice += blockDim.x / 32) {
        const int own = token * p.top_k + choice, expert = ids[own];
        int row = 0;
        for (int slot = lane; slot < own; slot += 32) row += ids[slot] == expert;
        if (expert >= 0)
            for (int other = lane; other < p.experts; other += 32) row += comes_before(other, expert) ? padded(counts[other]) : 0;
        row = expert < 0 ? -1 : warp_sum(row);
        if (lane == 0) rows[choice] = p.rows[own] = row;
    }
    if (token == 0) {
        if (thread == 0) p.errors->aborted = p.errors->waiter_count = 0;
        for (int i = thread; i < p.counter_count; i += blockDim.x) p.counters[i] = 0;
        // Divided once an expert, not for each pair of experts: an integer division is dozens of instructions.
        for (int expert = thread; expert < p.experts; expert += blockDim.x) {
            blocks_of[expert] = (counts[expert] + p.tile_m - 1) / p.tile_m;
            if (counts[expert] > 0) atomicAdd(&all_blocks, blocks_of[expert]);
        }
        __syncthreads();  // all blocks of rows are counted
        if (thread == 0) *p.block_count = all_blocks;
        for (int expert = thread; expert < p.experts; expert += blockDim.x) {
            RowBlock block = {expert, 0, counts[expert], 0};
            if (block.rows == 0) continue;
#pragma unroll 8
            for (int other = 0; other < p.experts; ++other) {
                const int count = counts[other];
                const bool is_before = count > block.rows || (count == block.rows && other < expert);
                block.start += is_before ? blocks_of[other] : 0;
                block.first_row += is_before ? padded(count) : 0;
            }
            for (int i = 0; i < blocks_of[expert]; ++i) p.blocks[block.start + i] = block;
        }
    }
    __syncthreads();  // the rows of the token's choices are there
    copy_row(p, token, rows);
}

// A block per token: its row to each of its slots' rows.
extern "C" __global__ void __launch_bounds__(256) moe_gather(const __grid_constant__ MoeParams p) {
    cusync::launch_dependents();
    cusync::wait_for_previous_grid();
    copy_row(p, blockIdx.x, p.rows + blockIdx.x * p.top_k);
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
