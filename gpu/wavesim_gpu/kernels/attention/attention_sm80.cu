// out = dropout(softmax(scale Q K^T + causal mask)) V, fp16 or bf16 in and out, fp32 inside. Portable, sm_80 and later.
// Operands: q and out (sequences * length, heads * HEAD), k and v (sequences * kv_rows, kv_heads * HEAD), each with a
// row stride of its own. Queries are the last `length` of the `cached + length` keys.
//
// A tile is ROWS query rows (y) of a head (x): 16 to a warp, which keeps them in registers and meets K and V in steps of
// 64 keys in ascending order. While one step is multiplied, the next one's copies are under way:
//
//   copies    | K0 V0 | K1 V1        | K2 V2        | ...
//   products  |       | Q K0^T, P V0 | Q K1^T, P V1 | ...     one block barrier a step
//
// It waits for the queries and the first keys before step 0, for later keys a step ahead. Where these are not there yet,
// the step at hand is multiplied first. A tile whose wait ran out of time is NaN.

#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/previous_grid.cuh>
#include <cusync/tile_stage.cuh>
#include <kernels/attention/dropout.cuh>
#include <kernels/attention/operand.cuh>
#include <kernels/attention/spins_in_line.cuh>
#include <kernels/attention/warp_rows.cuh>

using Sync = cusync::TileStage<generated::stage, SpinsInLine>;
using Wait = cusync::ScheduleWait<Sync>;

struct AttentionParams {
    Operand q, k, v, out;
    int length, cached;   // queries of a sequence; keys before them
    int heads, group;     // query heads; those of one KV head
    int row_blocks;       // tiles of a head of a sequence
    int steps_per_item;   // a work item of the wait schedule, in steps
    int is_dependent;     // wait for the kernel before: nothing else says that its output is there
    float scale;          // of the scores, times log2 e
    Dropout dropout;
};
static_assert(sizeof(AttentionParams) == 144, "attention_sm80.py packs 144 bytes");

constexpr int keys_per_step = 64;

// The query rows of a tile and the keys that they see.
struct TileRows {
    int sequence, head, first, keys;  // first row within the sequence; keys from 0 on

    __device__ __forceinline__ TileRows(const AttentionParams& p, const cusync::Tile& tile, int rows, bool is_causal)
        : sequence(tile.y / p.row_blocks), head(tile.x), first(tile.y % p.row_blocks * rows) {
        keys = p.cached + (is_causal ? min(first + rows, p.length) : p.length);
    }
    __device__ __forceinline__ int steps() const { return (keys + keys_per_step - 1) / keys_per_step; }
};

// Two slots of 64 keys and their values in shared memory.
template <int HEAD, int THREADS>
struct StepLoader {
    static constexpr int half_bytes = keys_per_step * HEAD * 2, slot_bytes = 2 * half_bytes, bytes = 2 * slot_bytes;
    static constexpr int chunks = HEAD / 8, rows_at_once = THREADS / chunks;

    unsigned shared;

    __device__ __forceinline__ unsigned k_slot(int step) const { return shared + step % 2 * slot_bytes; }
    __device__ __forceinline__ unsigned v_slot(int step) const { return k_slot(step) + half_bytes; }

    // Starts the copies of a step; keys beyond the tile's are zero, and hidden by the mask.
    __device__ __forceinline__ void load(const AttentionParams& p, const TileRows& rows, int step) const {
        const int thread = threadIdx.x, chunk = thread % chunks;
        const int column = rows.head / p.group * HEAD + chunk * 8;
#pragma unroll
        for (int i = 0; i < keys_per_step / rows_at_once; ++i) {
            const int row = thread / chunks + i * rows_at_once, key = step * keys_per_step + row;
            const int size = key < rows.keys ? 16 : 0, known = size > 0 ? key : 0;
            const unsigned to = swizzled_chunk<HEAD>(row, chunk);
            copy_async(k_slot(step) + to, p.k.at(rows.sequence, known, column), size);
            copy_async(v_slot(step) + to, p.v.at(rows.sequence, known, column), size);
        }
        commit_copies();
    }
};

// One step's keys and values into a warp's sums. `first` is the warp's first row within the sequence.
template <int HEAD, bool IS_BF16, bool IS_CAUSAL, bool HAS_DROPOUT>
__device__ __forceinline__ void multiply(WarpRows<HEAD, IS_BF16>& warp, const AttentionParams& p, const TileRows& rows,
                                         int first, int step, unsigned k_slot, unsigned v_slot) {
    constexpr int keys = keys_per_step;
    const int first_key = step * keys, row = first + static_cast<int>(threadIdx.x & 31) / 4;
    if (IS_CAUSAL && first_key > p.cached + first + 15) return;  // hidden from all rows of the warp
    float scores[keys / 8][4];
    warp.template score<keys>(scores, k_slot);
    const int seen = IS_CAUSAL ? p.cached + first + 1 : rows.keys;  // by the warp's first row
    if (first_key + keys > min(seen, rows.keys)) {
        const int end_0 = IS_CAUSAL ? min(p.cached + row + 1, rows.keys) : rows.keys;
        const int end_1 = IS_CAUSAL ? min(p.cached + row + 9, rows.keys) : rows.keys;
        warp.template mask<keys>(scores, first_key, end_0, end_1);
    }
    warp.template weigh<keys>(scores, p.scale);
    if constexpr (HAS_DROPOUT) {
#pragma unroll
        for (int j = 0; j < keys / 8; ++j)
            p.dropout.drop(scores[j][0], scores[j][1], scores[j][2], scores[j][3], first_key + j * 8, first,
                           rows.sequence * p.heads + rows.head);
    }
    warp.template add_values<keys>(scores, v_slot);
}

// Walks the keys. Leaves all copies finished and shared memory free; true if a wait was aborted.
template <int HEAD, int ROWS, bool IS_BF16, bool IS_CAUSAL, bool HAS_DROPOUT>
__device__ __forceinline__ bool attend(WarpRows<HEAD, IS_BF16>& warp, const Sync& stage, const AttentionParams& p,
                                       const cusync::Tile& tile, const TileRows& rows,
                                       const StepLoader<HEAD, ROWS * 2>& loader) {
    const int steps = rows.steps(), first = rows.first + static_cast<int>(threadIdx.x / 32) * 16;
    const bool is_waiter = threadIdx.x < 32;
    Wait input(stage, tile);
    if (generated::stage::input_count == 0 && p.is_dependent) cusync::wait_for_previous_grid();
    if (is_waiter) {
        input.prefetch(0);
        input.wait(0);
    }
    __syncthreads();  // hands the first warp's acquire on to all threads
    loader.load(p, rows, 0);
    warp.clear();
    warp.load_queries(p.q.at(rows.sequence, first, rows.head * HEAD), p.q.row, p.length - first);
    for (int step = 0; step < steps; ++step) {
        const int next = step + 1, item = next / p.steps_per_item;
        wait_copies<0>();
        bool is_next_there = next < steps;
        if (is_waiter && is_next_there) is_next_there = input.has(item) || input.try_wait(item);
        // Block barrier: this step's copies are there, the other slot is free, and what the first warp acquired is known.
        is_next_there = __syncthreads_and(is_next_there);
        if (is_next_there) loader.load(p, rows, next);
        multiply<HEAD, IS_BF16, IS_CAUSAL, HAS_DROPOUT>(warp, p, rows, first, step, loader.k_slot(step),
                                                        loader.v_slot(step));
        if (next < steps && !is_next_there) {
            if (is_waiter) input.wait(item);
            __syncthreads();  // hands the acquire on
            loader.load(p, rows, next);
        }
    }
    warp.add_up();
    return __syncthreads_or(is_waiter && input.is_aborted());
}

// Divides, rounds, passes a warp's rows through its own piece of shared memory, and stores whole rows.
template <int HEAD, bool IS_BF16, bool HAS_DROPOUT>
__device__ __forceinline__ void store(const WarpRows<HEAD, IS_BF16>& warp, const AttentionParams& p, const TileRows& rows,
                                      unsigned char* shared, bool is_aborted) {
    const int warp_index = threadIdx.x / 32, lane = threadIdx.x & 31, first = rows.first + warp_index * 16;
    unsigned char* const piece = shared + warp_index * 16 * HEAD * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float weight = (HAS_DROPOUT ? p.dropout.scale : 1.0f) / warp.sum[half];
        if (is_aborted) weight = not_a_number();
#pragma unroll
        for (int j = 0; j < HEAD / 8; ++j)
            *reinterpret_cast<unsigned*>(piece + swizzled_chunk<HEAD>(lane / 4 + half * 8, j) + (lane & 3) * 4) =
                pack<IS_BF16>(warp.out[j][2 * half] * weight, warp.out[j][2 * half + 1] * weight);
    }
    __syncwarp();
    constexpr int chunks = HEAD / 8, rows_per_pass = 32 / chunks;
#pragma unroll
    for (int pass = 0; pass < 16 / rows_per_pass; ++pass) {
        const int row = pass * rows_per_pass + lane / chunks, chunk = lane % chunks;
        if (first + row >= p.length) continue;
        *reinterpret_cast<uint4*>(p.out.at(rows.sequence, first + row, rows.head * HEAD + chunk * 8)) =
            *reinterpret_cast<const uint4*>(piece + swizzled_chunk<HEAD>(row, chunk));
    }
}

template <int HEAD, int ROWS, bool IS_BF16, bool IS_CAUSAL, bool HAS_DROPOUT>
__global__ void __launch_bounds__(ROWS * 2)
    attention(const __grid_constant__ cusync::StageParams<generated::stage> sync,
              const __grid_constant__ AttentionParams p) {
    extern __shared__ __align__(256) unsigned char shared[];
    cusync::launch_dependents();
    Sync stage(sync);
    const cusync::Tile tile = stage.begin();
    const TileRows rows(p, tile, ROWS, IS_CAUSAL);
    const StepLoader<HEAD, ROWS * 2> loader{static_cast<unsigned>(__cvta_generic_to_shared(shared))};
    WarpRows<HEAD, IS_BF16> warp;
    const bool is_aborted = attend<HEAD, ROWS, IS_BF16, IS_CAUSAL, HAS_DROPOUT>(warp, stage, p, tile, rows, loader);
    stage.before_stores(tile, cusync::is_leader());
    store<HEAD, IS_BF16, HAS_DROPOUT>(warp, p, rows, shared, is_aborted);

    // Block barrier: all threads' stores come before the leader's release.
    __syncthreads();
    if (!cusync::is_leader()) return;
    if (cusync::mutant != cusync::Mutant::early_post) stage.post(tile);
    stage.record_end(tile);
    // With semaphores nothing else waits for the grid before.
    cusync::end_after_previous_grid();
    cusync::retire_block(sync.sync);
}
