// One token of each sequence through all layers of a decoder, in one launch: a block on each SM, which stays. A producer
// warp streams weights ahead of all waits, math warps take each stage's input as it comes, an epilogue warp hands results on.
#include <kernels/decode/attention.cuh>
#include <kernels/decode/epilogue.cuh>
#include <kernels/decode/input.cuh>
#include <kernels/decode/producer.cuh>
#include <kernels/decode/product.cuh>

struct Compute {
    const Step& step;
    unsigned steps;
    int layer, stage;
    MathWarp warp;
    Reader reader;

    __device__ __forceinline__ void stamp(int which) {
#if WAVESIM_RECORD
        const int number = stage == head ? step.layers * stages : layer * stages + stage;
        const long long row = static_cast<long long>(blockIdx.x) * (step.layers * stages + 1) + number;
        if (threadIdx.x != 0) return;
        unsigned long long* to = step.stamps + stamps_of_stage * row;
        to[which] = cusync::time_ns();
        if (which == 0) warp.weights_ns = warp.sums_ns = 0;
        to[3] = warp.weights_ns, to[4] = warp.sums_ns;
#endif
    }

    // The stage's input is in shared memory; false once the step is given up.
    __device__ __forceinline__ bool begin() {
        const bool is_before = stage == qkv || stage == head;  // reads what the layer before has left
        reader.tag = tag_of_layer(steps, step.layers, layer - is_before);
        if (stage == out) {
            load_combined(reader, step);
        } else if (stage == down) {
            load_inner(0);
        } else {
            const unsigned short* norm = step.norms + (2ll * layer + (stage == gate_up)) * shape::hidden;
            load_rows<shape::hidden, true>(reader, step, is_before ? shape::after_down_words : shape::after_out_words,
                                           stage == qkv && layer == 0, norm, shared::squares(stage));
        }
        const bool is_late = any_late(reader.is_late);
        if (stage != out && stage != down) set_factors();
        return !is_late;
    }

    __device__ __forceinline__ void load_inner(int part) {
        constexpr int columns = held_columns_of(down);
        load_rows<columns, false, shape::inner>(reader, step, shape::inner_words + part * (columns / 2), false, nullptr, nullptr);
    }

    // One warp does it while others begin to multiply; its arrival at the tile's sums shows it to the epilogue warps.
    __device__ __forceinline__ void set_factors() const {
        const int row = threadIdx.x - (math_threads - 32);
        if (row < 0 || row >= shape::batch) return;
        float sum = 0.f;
#pragma unroll
        for (int w = 0; w < math_warps; ++w) sum += shared::squares(stage)[w * shape::batch + row];
        shared::factors(stage)[row] = rsqrtf(sum / shape::hidden + step.norm_epsilon);
    }

    __device__ __forceinline__ bool attend_to(int tile) {
        reader.tag = tag_of_layer(steps, step.layers, layer);
        return attend(step, warp, reader, layer, tile);
    }

    __device__ __forceinline__ void multiply_tile(int tile) {
        const int columns = stage == down ? shape::inner : stage == out ? shape::heads * shape::head_size : shape::hidden;
        constexpr bool has_half_tiles = shape::qkv_rows + shape::out_rows + shape::down_rows < 3 * tile_rows;
        constexpr int least = has_half_tiles ? tile_rows / 2 : tile_rows;
        if (rows_of(stage) == tile_rows) multiply<tile_rows>(warp, reader, tile, columns);
        else multiply<least>(warp, reader, tile, columns);
    }

    // Tiles of the down product whose input does not fit as a whole; false once the step is given up. The first part is there
    // where `is_new`.
    __device__ __forceinline__ bool down_tiles(const int* codes, int count, bool is_new) {
        Sums sums[tiles_at_once];
        for (int part = 0; part < shape::down_parts; ++part) {
            if (part > 0 || !is_new) {
                load_inner(part);
                if (any_late(reader.is_late)) return false;
            }
#pragma unroll
            for (int i = 0; i < tiles_at_once; ++i)
                if (i < count) accumulate<shape::down_rows>(sums[i], warp, reader, Item(codes[i]).tile, held_columns_of(down));
        }
#pragma unroll
        for (int i = 0; i < tiles_at_once; ++i)
            if (i < count) leave<shape::down_rows>(sums[i], warp, reader);
        return true;
    }

    // Items of a layer, or of the head; false once the step is given up.
    __device__ __forceinline__ bool items(const int* codes, int count) {
        stage = -1;
        for (int i = 0, taken = 1; i < count; i += taken) {
            const Item of(codes[i]);
            taken = 1;
            const bool is_new = of.stage != stage;
            if (is_new) {
                stage = of.stage;
                if (threadIdx.x == 0) note_position(computes, layer, stage);
                stamp(0);
            }
            if (stage == attention) {
                if (!attend_to(of.tile)) return false;
            } else {
                if (is_new && !begin()) return false;
                if (is_new) stamp(1);
                const int in_parts = down_tiles_at(codes + i, count - i);
                if (in_parts == 0) multiply_tile(of.tile);
                else if (!down_tiles(codes + i, in_parts, is_new)) return false;
                taken = max(in_parts, 1);
            }
            stamp(2);
        }
        return true;
    }
};

__device__ __forceinline__ void compute(const Step& step, unsigned steps, int layer_items, int head_items) {
    Compute it = {step, steps, 0, 0, {}, {}};
    for (; it.layer < step.layers; ++it.layer)
        if (!it.items(shared::items(), layer_items)) return;
    it.items(shared::items() + layer_items, head_items);
}

// Copies the block's items and the angles of the positions; sets the barriers up.
__device__ __forceinline__ void prepare(const Step& step, int first, int count) {
    for (int i = threadIdx.x; i < count; i += threads) shared::items()[i] = __ldg(step.items + first + i);
    constexpr int angles = shape::head_size / 2;
    for (int i = threadIdx.x; i < shape::batch * angles; i += threads)
        shared::rotary()[i] = __ldg(step.rotary + static_cast<long long>(__ldg(step.positions + i / angles)) * angles + i % angles);
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < shape::slots; ++slot)
            mbarrier::init(shared::full(slot), 1), mbarrier::init(shared::empty(slot), group_warps);
        for (int buffer = 0; buffer < sum_buffers; ++buffer)
            mbarrier::init(shared::summed(buffer), math_warps), mbarrier::init(shared::sum_free(buffer), 1);
        mbarrier::fence_init();
    }
    __syncthreads();
}

// Whether every sequence has room for its new key.
__device__ __forceinline__ bool fits(const Step& step) {
    for (int row = 0; row < shape::batch; ++row) {
        const int position = __ldg(step.positions + row);
        if (0 <= position && position < step.max_length) continue;
        if (threadIdx.x == 0) give_up(cache_is_full, row, position, step.max_length);
        return false;
    }
    return true;
}

// The last block counts the step; where it was given up the whole result becomes NaN.
__device__ __forceinline__ void end_step(const Step& step) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();  // the block's results before its count
        is_last = atomicAdd(step.progress + 1, 1u) == gridDim.x - 1;
        __threadfence();  // others' results and reports after theirs
    }
    __syncthreads();
    if (!is_last) return;
    if (cusync::load_relaxed(&step.report->gave_up) != 0) {
        const long long pairs = static_cast<long long>(shape::batch) *
                                (step.head_weight == nullptr ? shape::hidden : step.vocabulary) / 2;
        for (long long i = threadIdx.x; i < pairs; i += threads) reinterpret_cast<unsigned*>(step.output)[i] = 0x7fff7fffu;
    }
    if (threadIdx.x == 0) step.progress[1] = 0, step.progress[0] += 1;
}

extern "C" __global__ void __launch_bounds__(threads, 1) decode_step(const __grid_constant__ Step step) {
    const unsigned steps = cusync::load_relaxed(step.progress);
    if (threadIdx.x == 0) watch() = {step.report, step.limit_ns, step.words, {0, 0, 0}, {0, 0, 0}};
    __syncthreads();
    if (fits(step)) {
        const int first = __ldg(step.first_items + 3 * blockIdx.x), layer_items = __ldg(step.first_items + 3 * blockIdx.x + 1),
                  head_items = __ldg(step.first_items + 3 * blockIdx.x + 2);
        prepare(step, first, layer_items + head_items);
        if (threadIdx.x < math_threads) compute(step, steps, layer_items, head_items);
        else if (threadIdx.x < math_threads + 32) produce(step, layer_items, head_items);
        else finish_tiles(step, steps, layer_items, head_items);
    }
    end_step(step);
}
