// The producer warp: it copies weights, keys and values into the ring in the order of the work list and never waits for a
// result, only for slots. What the memory delivers while others wait for results is there when they go on.
#pragma once

#include <kernels/decode/step.cuh>
#include <kernels/gemm/sm90/tma.cuh>

// Read once a step: they are not to displace words, norms and embeddings from the L2.
__device__ __forceinline__ unsigned long long evict_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void copy_bulk(
    unsigned to, const void* from, unsigned bytes, unsigned barrier, unsigned long long policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}

struct Producer {
    const Step& step;
    unsigned long long policy;
    unsigned long long pointer;  // lane i has the layer's pointer i
    RingPlace place;
    int layer, filled;
    bool is_late;

    __device__ __forceinline__ const char* base(int number) const {
        return reinterpret_cast<const char*>(__shfl_sync(~0u, pointer, number));
    }

    // Waits for the next slot, and until no more than `in_flight` are on their way: a longer queue in front of the memory makes
    // nothing faster, and the words that others wait for stand in it too. False once the step is given up.
    __device__ __forceinline__ bool await_slot() {
        is_late |= !await_phase(shared::empty(place.slot), place.parity ^ 1, waits_for_slot, place.slot);
        if (shape::in_flight < shape::slots && filled >= shape::in_flight) {
            const int landed = filled - shape::in_flight, slot = landed % shape::slots;
            is_late |= !await_phase(shared::full(slot), landed / shape::slots & 1, waits_for_weights, slot);
        }
        is_late = __any_sync(~0u, is_late);
        return !is_late;
    }
    __device__ __forceinline__ void end_slot() { place.advance(), ++filled; }

    // A tile whose rows follow each other from `top` on, the lower half from `bottom` on. A lane that the hardware elects
    // issues all copies of a slot: the compiler then keeps their addresses in uniform registers, where lanes that copy a row
    // each would take turns, 70 cycles a row.
    template <int STAGE>
    __device__ __forceinline__ void rows(int tile, const char* top, const char* bottom) {
        constexpr int count = rows_of(STAGE), columns = columns_of(STAGE), width = slot_columns_of(STAGE);
        constexpr int held = held_columns_of(STAGE);
        const Turn turn(tile, held, width);
        for (int i = 0; i < turn.slots; ++i, end_slot()) {
            if (!await_slot()) return;
            const int first = turn.after(i) * width;
            const unsigned bytes = 2 * min(width, held - first), barrier = shared::full(place.slot);
            const unsigned slot = shared::window(shared::slot(place.slot));
            if (tma::is_elected()) {
                mbarrier::arrive_and_expect_tx(barrier, count * bytes);
#pragma unroll
                for (int row = 0; row < count; ++row) {
                    const char* from = row < count / 2 ? top + row * (2 * columns) : bottom + (row - count / 2) * (2 * columns);
                    copy_bulk(slot + row_place(row, width), from + 2 * first, bytes, barrier, policy);
                }
            }
            __syncwarp();
        }
    }

    // The tile of a stage that is tile `within` of this matrix; of its columns, those of a part.
    template <int STAGE>
    __device__ __forceinline__ void matrix(int tile, const char* weight, int within, int part = 0) {
        constexpr long long half = rows_of(STAGE) / 2 * columns_of(STAGE) * 2;
        const char* top = weight + within * 2 * half + 2 * part * held_columns_of(STAGE);
        rows<STAGE>(tile, top, top + half);
    }

    __device__ __forceinline__ void qkv_tile(int tile) {
        constexpr int queries = shape::heads * shape::head_size / rows_of(qkv);
        constexpr int keys = shape::kv_heads * shape::head_size / rows_of(qkv);
        const int which = tile < queries ? 0 : tile < queries + keys ? 1 : 2;
        matrix<qkv>(tile, base(which), tile - (which == 0 ? 0 : which == 1 ? queries : queries + keys));
    }

    // Eight rows of the gate and, behind them, the same eight of the up projection.
    __device__ __forceinline__ void gate_up_tile(int tile) {
        const long long first = static_cast<long long>(tile) * 8 * shape::hidden * 2;
        rows<gate_up>(tile, base(4) + first, base(5) + first);
    }

    // The keys and values of a split that earlier steps have stored.
    __device__ __forceinline__ void keys(int tile) {
        const KeyRange range(tile, step.positions);
        const long long first =
            (static_cast<long long>(range.row * shape::kv_heads + range.kv_head) * step.max_length) * shape::head_size * 2;
        const char *key_cache = base(7) + first, *value_cache = base(8) + first;
        constexpr unsigned row_bytes = shape::head_size * 2;
        for (int chunk = 0; chunk < range.chunks(); ++chunk) {
            const int begin = range.begin + chunk * shape::slot_keys;
            const int count = min(min(shape::slot_keys, range.end - begin), range.position - begin);
            if (!await_slot()) return;
            const unsigned slot = shared::window(shared::slot(place.slot)), barrier = shared::full(place.slot);
            const long long offset = static_cast<long long>(begin) * row_bytes;
            if (tma::is_elected()) {
                mbarrier::arrive_and_expect_tx(barrier, max(count, 0) * 2 * row_bytes);
                if (count > 0) copy_bulk(slot, key_cache + offset, count * row_bytes, barrier, policy);
                for (int key = 0; key < count; ++key)
                    copy_bulk(slot + shape::slot_keys * key_row + key * value_row, value_cache + offset + key * row_bytes,
                              row_bytes, barrier, policy);
            }
            __syncwarp();
            end_slot();
        }
    }

    // Tiles of the down product, part after part of their columns, in the order in which they are multiplied.
    __device__ __forceinline__ void down_tiles(const int* codes, int count) {
        note_position(produces, layer, down);
        for (int part = 0; part < shape::down_parts; ++part)
            for (int i = 0; i < count && !is_late; ++i) {
                const int tile = Item(codes[i]).tile;
                matrix<down>(tile, base(6), tile, part);
            }
    }

    __device__ __forceinline__ void item(Item of) {
        note_position(produces, layer, of.stage);
        if (of.stage == qkv) qkv_tile(of.tile);
        if (of.stage == attention) keys(of.tile);
        if (of.stage == out) matrix<out>(of.tile, base(3), of.tile);
        if (of.stage == gate_up) gate_up_tile(of.tile);
        if (of.stage == down) matrix<down>(of.tile, base(6), of.tile);
        if (of.stage == head) matrix<head>(of.tile, reinterpret_cast<const char*>(step.head_weight), of.tile);
    }

    // All copies have landed: nothing writes to shared memory after the block's end, also where the step was given up.
    __device__ __forceinline__ void drain() {
        for (int back = 0; back < min(filled, shape::slots); ++back) {
            const int number = filled - 1 - back, slot = number % shape::slots;
            while (!mbarrier::try_wait(shared::full(slot), number / shape::slots & 1)) {}
        }
    }
};

__device__ __forceinline__ void produce(
    const Step& step, int layer_items, int head_items) {
    Producer producer = {step, evict_first(), 0, {}, 0, 0, false};
    const int lane = threadIdx.x % 32;
    const auto pointer_of = [&](int layer) {
        return lane < pointers_of_layer && layer < step.layers ? __ldg(step.weights + layer * pointers_of_layer + lane) : 0ull;
    };
    unsigned long long next = pointer_of(0);
    for (int layer = 0; layer < step.layers && !producer.is_late; ++layer) {
        producer.pointer = next, producer.layer = layer;
        next = pointer_of(layer + 1);
        for (int i = 0; i < layer_items && !producer.is_late;) {
            const int count = down_tiles_at(shared::items() + i, layer_items - i);
            if (count == 0) producer.item(Item(shared::items()[i]));
            else producer.down_tiles(shared::items() + i, count);
            i += max(count, 1);
        }
    }
    producer.layer = step.layers;
    for (int i = 0; i < head_items && !producer.is_late; ++i) producer.item(Item(shared::items()[layer_items + i]));
    producer.drain();
}
