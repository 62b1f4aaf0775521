// One query per sequence against a cache of keys and values: out = softmax(scale q K^T) V, fp16 or bf16 in and out, fp32
// inside. Portable, sm_80 and later. Operands: q and out (sequences, heads * HEAD), k and v (sequences, capacity,
// kv_heads * HEAD), k_new and v_new (sequences, kv_heads * HEAD).
//
// A tile is a KV head (x) of a sequence (y), with all query heads that read it, up to 16. Its keys, in blocks of tile_n,
// are shared out to the splits (z). A thread block walks its keys in steps. Of a step each warp has 16 or 32 keys, and a
// ring of its own in shared memory, so that a warp waits for nothing but its own copies:
//
//   warp 0  | keys  0..15 | 64..79 | ...      cp.async, some steps ahead
//   warp 1  | keys 16..31 | 80..95 | ...
//
// The warps' sums are merged in shared memory, the splits' in global memory by the split that comes last, both in a fixed
// order, so that the result does not depend on who was last. It posts the tile.
//
// Keys cached before this run wait for nobody, and are on their way before the wait for the queries and for the step's
// own key and value. These lie in the cache already, or are read from k_new and v_new and stored there.

#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/previous_grid.cuh>
#include <cusync/tile_stage.cuh>
#include <kernels/attention/operand.cuh>
#include <kernels/attention/spins_in_line.cuh>
#include <kernels/attention/warp_rows.cuh>

using Sync = cusync::TileStage<generated::stage, SpinsInLine>;

struct DecodeParams {
    Operand q, k, v, k_new, v_new, out;  // k_new.data: null where the cache holds the step's own key already
    float* partials;     // by tile, split and query head: HEAD sums, the greatest score, the sum of weights
    unsigned* tickets;   // by tile; zero before and after every run
    const int* lengths;  // keys of each sequence, the step's own included, `length` at most; null: `length` for all
    int length, tile_n;
    int group;           // query heads of a KV head
    int is_dependent;    // wait for the kernel before: nothing else says that its output is there
    float scale;         // of the scores, times log2 e
    int padding;
};
static_assert(sizeof(DecodeParams) == 192, "decode.py packs 192 bytes");

// HEADS: 8 or 16, at least the query heads of a KV head. Each of WARPS has KEYS keys of a step, and DEPTH slots for them.
template <int HEAD_, int HEADS, int WARPS, int KEYS, int DEPTH, bool IS_BF16_>
struct DecodeConfig {
    static constexpr int head = HEAD_, heads = HEADS, warps = WARPS, keys_per_warp = KEYS, depth = DEPTH;
    static constexpr bool is_bf16 = IS_BF16_;
    static constexpr int threads = 32 * warps, keys_per_step = warps * keys_per_warp;
    static constexpr int chunks = head / 8;  // of 16 bytes, in a row
    static constexpr int half_bytes = keys_per_warp * head * 2, slot_bytes = 2 * half_bytes;
    // The sums of a row: weighted sums of values, and beside them the greatest score and the sum of weights.
    static constexpr int max_at = head, sum_at = head + 1, row_floats = head + 4;  // rows begin at 16 bytes
    using Rows = WarpRows<head, is_bf16, heads / 8>;
};

constexpr int all_items = 0x7ffffffd;  // a work item above all: waiting for it waits for every step of the schedule

// The keys that a split has, and the sequence that they are of.
template <class C>
struct KeyRange {
    int sequence, length, first, end;  // length: 0 where it is not from 1 to the greatest that the stage may have

    __device__ __forceinline__ int steps() const { return (end - first + C::keys_per_step - 1) / C::keys_per_step; }
    __device__ __forceinline__ int first_key_of_warp(int step) const {
        return first + step * C::keys_per_step + static_cast<int>(threadIdx.x / 32) * C::keys_per_warp;
    }
    // The last of the sequence's keys, which is this step's own, is the split's.
    __device__ __forceinline__ bool has_own_key() const { return first < end && end == length; }
    __device__ __forceinline__ bool has_own_key(int step) const {
        const int key = first_key_of_warp(step);
        return has_own_key() && key < length && key + C::keys_per_warp >= length;
    }
};

template <class C>
__device__ __forceinline__ KeyRange<C> range_of(const DecodeParams& p, const cusync::Tile& tile, int splits) {
    int length = p.lengths == nullptr ? p.length : p.lengths[tile.y];
    if (length > p.length || length < 0) length = 0;
    const int blocks = (length + p.tile_n - 1) / p.tile_n;
    return {tile.y, length, blocks * tile.z / splits * p.tile_n, min(blocks * (tile.z + 1) / splits * p.tile_n, length)};
}

// A warp's ring of keys and their values.
template <class C>
struct Ring {
    unsigned shared;  // of this warp

    __device__ __forceinline__ unsigned k_slot(int step) const { return shared + step % C::depth * C::slot_bytes; }
    __device__ __forceinline__ unsigned v_slot(int step) const { return k_slot(step) + C::half_bytes; }

    // Starts copies of the warp's keys and values in a step; beyond the end zeros, which the mask hides.
    __device__ __forceinline__ void load(const DecodeParams& p, const KeyRange<C>& range, int column, int step) const {
        constexpr int chunks = C::chunks;
        const int lane = threadIdx.x & 31, chunk = lane % chunks;
        const int first = range.first_key_of_warp(step);
        const bool is_new_apart = p.k_new.data != nullptr;
#pragma unroll
        for (int i = 0; i < C::keys_per_warp * chunks / 32; ++i) {
            const int row = lane / chunks + i * (32 / chunks), key = first + row;
            const bool is_there = key < range.end;
            const bool is_new = is_new_apart && key == range.length - 1;
            const int at = column + chunk * 8, known = is_there ? key : 0;
            const unsigned short* k = is_new ? p.k_new.at(range.sequence, 0, at) : p.k.at(range.sequence, known, at);
            const unsigned short* v = is_new ? p.v_new.at(range.sequence, 0, at) : p.v.at(range.sequence, known, at);
            const unsigned to = swizzled_chunk<C::head>(row, chunk);
            copy_async(k_slot(step) + to, k, is_there ? 16 : 0);
            copy_async(v_slot(step) + to, v, is_there ? 16 : 0);
        }
    }
};

// The step's own key and value into the cache, by the split that has them. No other block reads them there.
template <class C>
__device__ __forceinline__ void append(const DecodeParams& p, const KeyRange<C>& range, int column) {
    constexpr int chunks = C::chunks;
    const int own = range.length - 1, thread = threadIdx.x;
    if (p.k_new.data == nullptr || !range.has_own_key() || thread >= 2 * chunks) return;
    const int at = column + thread % chunks * 8;
    const Operand& from = thread < chunks ? p.k_new : p.v_new;
    const Operand& to = thread < chunks ? p.k : p.v;
    *reinterpret_cast<uint4*>(to.at(range.sequence, own, at)) =
        *reinterpret_cast<const uint4*>(from.at(range.sequence, 0, at));
}

// Four columns of a row, merged over `count` parts that lie `stride` floats apart, in their order.
struct Merged {
    float4 out;
    float max, sum;
};

// In one pass, so that the loads of many parts are under way at once.
template <class C>
__device__ __forceinline__ Merged merge(const float* row, int column, int count, long long stride, float scale) {
    Merged all = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), minus_infinity(), 0.0f};
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
        const float* part = row + i * stride;
        const float2 scalars = *reinterpret_cast<const float2*>(part + C::max_at);
        const float4 value = *reinterpret_cast<const float4*>(part + column);
        const float greatest = fmaxf(all.max, scalars.x);
        const float base = greatest == minus_infinity() ? 0.0f : greatest * scale;
        const float before = exp2_approx(fmaf(all.max, scale, -base)), weight = exp2_approx(fmaf(scalars.x, scale, -base));
        all.max = greatest;
        all.sum = fmaf(all.sum, before, scalars.y * weight);
        all.out.x = fmaf(all.out.x, before, value.x * weight), all.out.y = fmaf(all.out.y, before, value.y * weight);
        all.out.z = fmaf(all.out.z, before, value.z * weight), all.out.w = fmaf(all.out.w, before, value.w * weight);
    }
    return all;
}

// A warp's sums into shared memory, one row after another.
template <class C>
__device__ __forceinline__ void write_sums(float* rows, const typename C::Rows& warp) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int half = 0; half < C::heads / 8; ++half) {
        float* const row = rows + (lane / 4 + half * 8) * C::row_floats;
#pragma unroll
        for (int j = 0; j < C::head / 8; ++j)
            *reinterpret_cast<float2*>(row + j * 8 + (lane & 3) * 2) =
                make_float2(warp.out[j][2 * half], warp.out[j][2 * half + 1]);
        if ((lane & 3) == 0) row[C::max_at] = warp.max[half], row[C::sum_at] = warp.sum[half];
    }
}

template <class C>
__device__ __forceinline__ void store_row(const DecodeParams& p, const cusync::Tile& tile, int row, int column,
                                          const Merged& all) {
    const float weight = 1.0f / all.sum;  // no key at all: 0 * infinity, NaN
    const uint2 rounded = {pack<C::is_bf16>(all.out.x * weight, all.out.y * weight),
                           pack<C::is_bf16>(all.out.z * weight, all.out.w * weight)};
    *reinterpret_cast<uint2*>(p.out.at(tile.y, 0, (tile.x * p.group + row) * C::head + column)) = rounded;
}

// Takes the tile's ticket once the block's partial sums are stored; true for the last split, which sees all of them.
__device__ __forceinline__ bool is_last_split(unsigned* ticket, int splits) {
    __shared__ bool is_last;
    // Block barrier before the ticket's release: it publishes all threads' partial sums.
    __syncthreads();
    if (cusync::is_leader()) {
        is_last = cusync::fetch_add_acq_rel(ticket, 1) == static_cast<unsigned>(splits - 1);
        if (is_last) cusync::store_relaxed(ticket, 0);  // nobody else takes it in this run
    }
    // And after its acquire: all threads may read the other splits' sums.
    __syncthreads();
    return is_last;
}

// Merges the warps' sums, then the splits', and stores. True where the tile is complete.
template <class C>
__device__ __forceinline__ bool combine(const Sync& stage, const DecodeParams& p, const cusync::Tile& tile, int splits,
                                        const float* warp_sums, bool is_aborted) {
    constexpr int quads = C::head / 4;
    const long long split_floats = static_cast<long long>(p.group) * C::row_floats;
    float* const tile_sums = p.partials + static_cast<long long>(tile.linear) * splits * split_floats;
    if (splits == 1) stage.before_stores(tile, cusync::is_leader());
    for (int i = threadIdx.x; i < p.group * quads; i += C::threads) {
        const int row = i / quads, column = i % quads * 4;
        Merged all =
            merge<C>(warp_sums + row * C::row_floats, column, C::warps, C::heads * C::row_floats, p.scale);
        if (is_aborted) all.sum = not_a_number();
        if (splits == 1) {
            store_row<C>(p, tile, row, column, all);
            continue;
        }
        float* const to = tile_sums + tile.z * split_floats + row * C::row_floats;
        *reinterpret_cast<float4*>(to + column) = all.out;
        if (column == 0) to[C::max_at] = all.max, to[C::sum_at] = all.sum;
    }
    if (splits == 1) return true;
    if (!is_last_split(p.tickets + tile.linear, splits)) return false;
    stage.before_stores(tile, cusync::is_leader());
    for (int i = threadIdx.x; i < p.group * quads; i += C::threads) {
        const int row = i / quads, column = i % quads * 4;
        store_row<C>(
            p, tile, row, column,
            merge<C>(tile_sums + row * C::row_floats, column, splits, split_floats, p.scale));
    }
    return true;
}

template <class C>
__global__ void __launch_bounds__(C::threads)
    decode(const __grid_constant__ cusync::StageParams<generated::stage> sync,
           const __grid_constant__ DecodeParams p) {
    extern __shared__ __align__(256) unsigned char shared[];
    cusync::launch_dependents();
    Sync stage(sync);
    const cusync::Tile tile = stage.begin();
    const int splits = sync.generated.slices, warp_index = threadIdx.x / 32, column = tile.x * C::head;
    const KeyRange<C> range = range_of<C>(p, tile, splits);
    const Ring<C> ring{static_cast<unsigned>(__cvta_generic_to_shared(shared)) + warp_index * C::depth * C::slot_bytes};

    // What is cached, before the wait; the step's own key comes after it.
    for (int i = 0; i < C::depth - 1; ++i) {
        if (i < range.steps() && !range.has_own_key(i)) ring.load(p, range, column, i);
        commit_copies();
    }
    cusync::ScheduleWait<Sync> input(stage, tile);
    const bool is_waiter = warp_index == 0;
    if (generated::stage::input_count == 0 && p.is_dependent) cusync::wait_for_previous_grid();
    if (is_waiter) {
        input.prefetch(all_items);
        input.wait(all_items);
    }
    // Hands the first warp's acquire on to all threads, and whether it gave up.
    const bool is_aborted = __syncthreads_or(is_waiter && input.is_aborted());
    bool is_late = false;
    for (int i = 0; i < C::depth - 1 && i < range.steps(); ++i)
        if (range.has_own_key(i)) ring.load(p, range, column, i), is_late = true;
    commit_copies();
    if (is_late) wait_copies<0>();

    typename C::Rows warp;
    warp.clear();
    warp.load_queries(p.q.at(tile.y, 0, column * p.group), C::head, p.group);
    const int steps = range.steps();
    for (int step = 0; step < steps; ++step) {
        wait_copies<C::depth - 2>();
        __syncwarp();  // all lanes' copies are there, and all have read the slot that is filled next
        const int next = step + C::depth - 1;
        if (next < steps) ring.load(p, range, column, next);
        commit_copies();
        float scores[C::keys_per_warp / 8][4];
        warp.template score<C::keys_per_warp>(scores, ring.k_slot(step));
        const int first = range.first_key_of_warp(step);
        if (first + C::keys_per_warp > range.end)
            warp.template mask<C::keys_per_warp>(scores, first, range.end, range.end);
        warp.template weigh<C::keys_per_warp>(scores, p.scale);
        warp.template add_values<C::keys_per_warp>(scores, ring.v_slot(step));
    }
    warp.add_up();
    append<C>(p, range, column);
    wait_copies<0>();
    __syncthreads();  // nobody reads the rings any more
    float* const sums = reinterpret_cast<float*>(shared);
    write_sums<C>(sums + warp_index * C::heads * C::row_floats, warp);
    __syncthreads();
    const bool is_whole = combine<C>(stage, p, tile, splits, sums, is_aborted);

    // Block barrier: all threads' stores come before the leader's release.
    __syncthreads();
    if (!cusync::is_leader()) return;
    if (is_whole && cusync::mutant != cusync::Mutant::early_post) stage.post(tile);
    stage.record_end(tile);
    // With semaphores nothing else waits for the grid before.
    cusync::end_after_previous_grid();
    cusync::retire_block(sync.sync);
}
