// The epilogue warps: each takes every third tile, adds up what the math warps have of it, in a fixed order, applies norm,
// bias, SwiGLU or residual, and stores the tile's words. Meanwhile the math warps are at the next tiles.
#pragma once

#include <kernels/decode/step.cuh>

struct Epilogue {
    const Step& step;
    unsigned steps;
    int number, layer, stage;
    Reader reader;  // of residuals
    mbarrier::Place<sum_buffers> buffer;

    // Totals of the tile's rows and batch columns, to shared memory.
    template <int ROWS>
    __device__ __forceinline__ void add_up() {
        if (!reader.is_late)
            reader.is_late = !await_phase(shared::summed(buffer.slot), buffer.parity, waits_for_sums, buffer.slot);
        const float* sums = shared::sums() + buffer.slot * math_warps * tile_rows * shape::batch;
        constexpr int values = ROWS * shape::batch, stride = tile_rows * shape::batch;
        constexpr int parts = values >= 32 ? 1 : 32 / values;  // lanes that share a value's warps
        const int lane = threadIdx.x % 32, part = lane / (32 / parts);
#pragma unroll
        for (int value = lane % (32 / parts); value < values; value += 32) {
            float total = 0.f;
#pragma unroll
            for (int warp = part; warp < math_warps; warp += parts) total += sums[warp * stride + value];
#pragma unroll
            for (int lanes = 16; lanes >= 32 / parts; lanes /= 2) total += __shfl_xor_sync(~0u, total, lanes);
            if (part == 0) totals()[value] = total;
        }
        __syncwarp();
        if (lane == 0) mbarrier::arrive(shared::sum_free(buffer.slot));
    }

    __device__ __forceinline__ float* totals() const { return shared::totals() + number * tile_rows * shape::batch; }
    __device__ __forceinline__ float total(int row, int column) const { return totals()[row * shape::batch + column]; }

    // Stores word `index` of the buffer at `first`, in the copy `replica`.
    __device__ __forceinline__ void put(int first, int index, int replica, float low, float high) const {
        if constexpr (cusync::mutant == cusync::Mutant::no_post)
            if (stage == gate_up && blockIdx.x == 1) return;
        come_late();
        store_word(step.words + static_cast<long long>(replica) * shape::words_of_replica + first + index, packed(low, high),
                   tag_of_layer(steps, step.layers, layer));
    }

    // Each word of a tile and each copy of it is a task of a lane: task(pair of rows, batch row, copy). `prepare` is called
    // before the tile's sums are there.
    template <int ROWS, int PAIRS, class Prepare, class Finish>
    __device__ __forceinline__ void for_words(const Prepare& prepare, const Finish& finish) {
        constexpr int words = PAIRS * shape::batch, tasks = words * shape::replicas, rounds = (tasks + 31) / 32;
        const int lane = threadIdx.x % 32;
        unsigned prepared[rounds];
#pragma unroll
        for (int i = 0; i < rounds; ++i)
            if (lane + 32 * i < tasks) prepared[i] = prepare((lane + 32 * i) % PAIRS, (lane + 32 * i) % words / PAIRS);
        add_up<ROWS>();
#pragma unroll
        for (int i = 0; i < rounds; ++i) {
            const int task = lane + 32 * i;
            if (task < tasks) finish(task % PAIRS, task % words / PAIRS, task / words, prepared[i]);
        }
        __syncwarp();  // the totals have been read
    }

    __device__ __forceinline__ void qkv_tile(int tile) {
        constexpr int rows = rows_of(qkv);
        const int first = tile * rows;
        for_words<rows, rows / 2>(
            [&](int pair, int) {
                if constexpr (!shape::has_bias) return 0u;
                const unsigned short* bias = step.biases + static_cast<long long>(layer) * qkv_rows_total;
                return __ldg(reinterpret_cast<const unsigned*>(bias + first) + pair);
            },
            [&](int pair, int row, int replica, unsigned bias) {
                const float factor = shared::factors(stage)[row];
                put(shape::qkv_words, (row * qkv_rows_total + first) / 2 + pair, replica,
                    total(2 * pair, row) * factor + low_of(bias), total(2 * pair + 1, row) * factor + high_of(bias));
            });
    }

    // Eight rows of the gate, then eight of the up projection: SwiGLU in place.
    __device__ __forceinline__ void gate_up_tile(int tile) {
        for_words<tile_rows, 4>([](int, int) { return 0u; }, [&](int pair, int row, int replica, unsigned) {
            const float factor = shared::factors(stage)[row];
            float values[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float gate = total(2 * pair + i, row) * factor, up = total(2 * pair + i + 8, row) * factor;
                values[i] = gate / (1.f + __expf(-gate)) * up;
            }
            put(shape::inner_words, (row * shape::inner + tile * 8) / 2 + pair, replica, values[0], values[1]);
        });
    }

    // The output and the down projection add the hidden state that came before them.
    template <int STAGE, class Residual>
    __device__ __forceinline__ void residual_tile(int tile, int to, const Residual& residual) {
        constexpr int rows = rows_of(STAGE);
        const auto word_of = [&](int pair, int row) { return (row * shape::hidden + tile * rows) / 2 + pair; };
        for_words<rows, rows / 2>(
            [&](int pair, int row) { return residual(word_of(pair, row)); },
            [&](int pair, int row, int replica, unsigned before) {
                const float low = total(2 * pair, row) + low_of(before), high = total(2 * pair + 1, row) + high_of(before);
                put(to, word_of(pair, row), replica, low, high);
                if (STAGE == down && replica == 0 && step.head_weight == nullptr && layer == step.layers - 1)
                    reinterpret_cast<unsigned*>(step.output)[word_of(pair, row)] = packed(low, high);
            });
    }

    __device__ __forceinline__ void out_tile(int tile) {
        residual_tile<out>(tile, shape::after_out_words, [&](int word) {
            if (layer == 0) return input_pair(word);
            reader.tag = tag_of_layer(steps, step.layers, layer - 1);
            return payload_of(reader.await_word(words_of_block(step, shape::after_down_words) + word));
        });
    }

    __device__ __forceinline__ void down_tile(int tile) {
        residual_tile<down>(tile, shape::after_down_words, [&](int word) {
            reader.tag = tag_of_layer(steps, step.layers, layer);
            return payload_of(reader.await_word(words_of_block(step, shape::after_out_words) + word));
        });
    }

    // Logits are the step's result: plain pairs.
    __device__ __forceinline__ void head_tile(int tile) {
        add_up<tile_rows>();
        for (int task = threadIdx.x % 32; task < 8 * shape::batch; task += 32) {
            const int pair = task % 8, row = task / 8;
            const float factor = shared::factors(stage)[row];
            reinterpret_cast<unsigned*>(step.output)[(static_cast<long long>(row) * step.vocabulary + tile * 16) / 2 + pair] =
                packed(total(2 * pair, row) * factor, total(2 * pair + 1, row) * factor);
        }
        __syncwarp();  // the totals have been read
    }

    __device__ __forceinline__ unsigned input_pair(int word) const {
        const int row = word / (shape::hidden / 2), pair = word % (shape::hidden / 2);
        return __ldg(reinterpret_cast<const unsigned*>(input_row(step, row)) + pair);
    }

    // What the next layer reads beside its weights comes into the L2 while this layer is computed.
    __device__ __forceinline__ void prefetch(const void* from, long long bytes) const {
        const char* line = static_cast<const char*>(from);
        for (long long at = (blockIdx.x + gridDim.x * (threadIdx.x % 32)) * 128ll; at < bytes; at += gridDim.x * 128ll * 32)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(line + at));
    }
    __device__ __forceinline__ void prefetch_layer(int layer) const {
        if (layer > step.layers) return;
        const long long norm_bytes = (layer < step.layers ? 2 : 1) * shape::hidden * 2;
        prefetch(step.norms + 2ll * layer * shape::hidden, norm_bytes);
        if (layer == step.layers) return;
        if (shape::has_bias) prefetch(step.biases + static_cast<long long>(layer) * qkv_rows_total, qkv_rows_total * 2);
        if (shape::has_head_norm) prefetch(step.head_norms + 2ll * layer * shape::head_size, shape::head_size * 4);
    }

    // Buffers go round by tiles, and each belongs to the same warp for ever.
    __device__ __forceinline__ void item(Item of) {
        stage = of.stage;
        if (stage == attention) return;
        if (buffer.slot % shape::epilogue_warps == number) tile(of), stamp();
        buffer.advance();
    }

    // When the last word of the block's last tile of the stage was stored.
    __device__ __forceinline__ void stamp() const {
#if WAVESIM_RECORD
        const int index = stage == head ? step.layers * stages : layer * stages + stage;
        const long long row = static_cast<long long>(blockIdx.x) * (step.layers * stages + 1) + index;
        if (threadIdx.x % 32 == 0) atomicMax(step.stamps + stamps_of_stage * row + 5, cusync::time_ns());
#endif
    }

    __device__ __forceinline__ void tile(Item of) {
        note_position(finishes, layer, stage);
        if (of.stage == qkv) qkv_tile(of.tile);
        if (of.stage == out) out_tile(of.tile);
        if (of.stage == gate_up) gate_up_tile(of.tile);
        if (of.stage == down) down_tile(of.tile);
        if (of.stage == head) head_tile(of.tile);
    }
};

__device__ __forceinline__ void finish_tiles(
    const Step& step, unsigned steps, int layer_items, int head_items) {
    Epilogue epilogue = {step, steps, static_cast<int>(threadIdx.x / 32) - math_warps - 1, 0, 0, {}, {}};
    for (int layer = 0; layer < step.layers && !__any_sync(~0u, epilogue.reader.is_late); ++layer) {
        if (epilogue.number == 0) epilogue.prefetch_layer(layer + 1);
        epilogue.layer = layer;
        for (int i = 0; i < layer_items; ++i) epilogue.item(Item(shared::items()[i]));
    }
    epilogue.layer = step.layers;
    for (int i = 0; i < head_items; ++i) epilogue.item(Item(shared::items()[layer_items + i]));
}
