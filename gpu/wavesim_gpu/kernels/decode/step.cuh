// What a decode step is made of: the kernel's parameters, where things are in shared memory, who does what. The constants of
// `shape` are written by shape.py for one model, batch and GPU.
#pragma once

#include <kernels/decode/words.cuh>

enum Stage { qkv = 0, attention = 1, out = 2, gate_up = 3, down = 4, head = 5 };
constexpr int stages = 5;             // of a layer; the head comes once
constexpr int pointers_of_layer = 9;  // q, k, v, out, gate, up, down, keys, values

constexpr int groups = shape::groups, math_warps = shape::math_warps, group_warps = math_warps / groups, math_threads = 32 * math_warps;
constexpr int threads = math_threads + 32 + 32 * shape::epilogue_warps;  // one warp is the producer
constexpr int tile_rows = 16;               // of an mma; a tile of eight rows leaves half of it empty
constexpr int sum_buffers = 2 * shape::epilogue_warps;  // tiles whose sums may wait for the epilogue warps
constexpr int heads_per_key = shape::heads / shape::kv_heads;
constexpr int qkv_rows_total = (shape::heads + 2 * shape::kv_heads) * shape::head_size;
constexpr int keys_of_warp = 16;
constexpr int key_row = shape::head_size * 2;         // bytes of a key in a slot
constexpr int value_row = shape::head_size * 2 + 16;  // and of a value: ldmatrix reads eight rows from different banks
constexpr int x_row = shape::x_columns + 32;        // elements of one batch row's x
constexpr int query_row = shape::head_size + 8;     // elements
constexpr int merge_row = shape::head_size + 8;     // floats
static_assert(math_warps % groups == 0 && shape::slots % groups == 0, "a slot always belongs to the same group, so parities tell its phases apart");

constexpr int stamps_of_stage = 6;  // began, has its input, multiplied; waited for weights, for sums; stored

// The kernel's parameters, as step_launch.py packs them.
struct Step {
    const unsigned long long* weights;  // [layers][pointers_of_layer] addresses
    const unsigned short* norms;        // [2 * layers + 1][hidden]
    const unsigned short* biases;       // [layers][qkv_rows_total] where the model has them
    const unsigned short* head_norms;   // [layers][2][head_size] where it has them
    const float2* rotary;               // [max_length][head_size / 2], cosine and sine
    const int* positions;               // [batch]
    const int* items;                   // work_list.py: per block its items of a layer, then of the head
    const int* first_items;             // [blocks][3]
    const unsigned short* input;        // [batch][hidden], or the embedding with `tokens`
    const long long* tokens;            // [batch], or null
    const unsigned short* head_weight;  // [vocabulary][hidden], or null
    unsigned short* output;             // [batch][hidden], or [batch][vocabulary]
    Word* words;                        // [replicas][words_of_replica]
    unsigned* progress;                 // steps done, blocks done of this step
    Report* report;
    unsigned long long* stamps;         // [blocks][layers * stages + 1][stamps_of_stage], of recording builds
    int layers, max_length, vocabulary;
    float norm_epsilon, score_scale;    // the latter times log2(e)
    unsigned long long limit_ns;
};
static_assert(sizeof(Step) == 16 * 8 + 5 * 4 + 4 + 8, "step_launch.py packs it so");

// Places in shared memory; as addresses of the shared window where PTX takes them.
namespace shared {

__device__ __forceinline__ unsigned window(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }
__device__ __forceinline__ unsigned barrier(int number) { return window(memory) + 8 * number; }
__device__ __forceinline__ unsigned full(int slot) { return barrier(slot); }
__device__ __forceinline__ unsigned empty(int slot) { return barrier(shape::slots + slot); }
__device__ __forceinline__ unsigned summed(int buffer) { return barrier(2 * shape::slots + buffer); }
__device__ __forceinline__ unsigned sum_free(int buffer) { return barrier(2 * shape::slots + sum_buffers + buffer); }

template <class T>
__device__ __forceinline__ T* at(int offset) { return reinterpret_cast<T*>(memory + offset); }

__device__ __forceinline__ int* items() { return at<int>(shape::items_at); }
__device__ __forceinline__ float2* rotary() { return at<float2>(shape::rotary_at); }
// [2][math_warps][batch] sums of squares of the stage's input, of gate and up behind the others'
__device__ __forceinline__ float* squares(int stage) {
    return at<float>(shape::squares_at) + (stage == gate_up) * math_warps * shape::batch;
}
// [2][batch] the norm's factor of each row, its reciprocal root mean square
__device__ __forceinline__ float* factors(int stage) { return at<float>(shape::factors_at) + (stage == gate_up) * shape::batch; }
// [sum_buffers][math_warps][tile_rows][batch]
__device__ __forceinline__ float* sums() { return at<float>(shape::sums_at); }
__device__ __forceinline__ float* totals() { return at<float>(shape::totals_at); }
// [heads_per_key + 2][query_row]: queries, the new key, the new value
__device__ __forceinline__ unsigned short* queries() { return at<unsigned short>(shape::queries_at); }
// [math_warps][heads_per_key] maximum and sum
__device__ __forceinline__ float2* softmax() { return at<float2>(shape::softmax_at); }
// [batch][x_row], or [math_warps][heads_per_key][merge_row] floats
__device__ __forceinline__ unsigned short* x() { return at<unsigned short>(shape::x_at); }
__device__ __forceinline__ float* merged() { return at<float>(shape::x_at); }
__device__ __forceinline__ unsigned char* slot(int number) { return memory + shape::ring_at + number * shape::slot_bytes; }

}  // namespace shared

typedef mbarrier::Place<shape::slots> RingPlace;

// Which rows and columns a tile of a stage has.
__host__ __device__ constexpr int rows_of(int stage) {
    return stage == qkv ? shape::qkv_rows : stage == out ? shape::out_rows : stage == down ? shape::down_rows : tile_rows;
}
__host__ __device__ constexpr int columns_of(int stage) {
    return stage == down ? shape::inner : stage == out ? shape::heads * shape::head_size : shape::hidden;
}
// Columns of a stage's input that are in shared memory at a time: of several rows the widest does not fit there as a whole.
__host__ __device__ constexpr int held_columns_of(int stage) { return stage == down ? shape::inner / shape::down_parts : columns_of(stage); }
constexpr int tiles_at_once = 2;  // of the down product, which take each part of the input while it is there
// Columns of a tile in one slot: 16 rows of so many, or eight of twice as many.
__host__ __device__ constexpr int slot_columns_of(int stage) { return shape::slot_columns * (tile_rows / rows_of(stage)); }

// Where a row of a tile begins in a slot whose rows are `width` columns: rows 2i and 2i + 1 use different banks.
__host__ __device__ constexpr int row_place(int row, int width) { return 2 * width * row + (row + 1) / 2 * 64; }

// The order in which a tile's slots come. Neighbouring tiles begin at different columns: else all blocks would ask for
// addresses a power of two apart, which few of the memory's channels hold.
struct Turn {
    int slots, begin;

    __device__ __forceinline__ Turn(int tile, int columns, int width) : slots((columns + width - 1) / width), begin(tile % slots) {}
    // Which of the tile's slots comes after `i` others.
    __device__ __forceinline__ int after(int i) const { return begin + i < slots ? begin + i : begin + i - slots; }
};

// An item of the work list: stage and tile.
struct Item {
    int stage, tile;
    __device__ __forceinline__ explicit Item(int code) : stage(code >> 24), tile(code & 0xffffff) {}
};

// How many items from here on are tiles of the down product that take its input in parts together; 0 where it is there whole.
__device__ __forceinline__ int down_tiles_at(const int* codes, int count) {
    if (shape::down_parts == 1) return 0;
    int tiles = 0;
    while (tiles < min(count, tiles_at_once) && Item(codes[tiles]).stage == down) ++tiles;
    return tiles;
}

// The keys of one split of a sequence: from `begin` to `end`, of which the one at `position` is new.
struct KeyRange {
    int row, kv_head, split, position, begin, end;

    __device__ __forceinline__ KeyRange(int tile, const int* positions) {
        split = tile % shape::splits, kv_head = tile / shape::splits % shape::kv_heads;
        row = tile / (shape::splits * shape::kv_heads);
        position = __ldg(positions + row);
        const int keys = position + 1;
        const int each = (keys + shape::splits * keys_of_warp - 1) / (shape::splits * keys_of_warp) * keys_of_warp;
        begin = min(split * each, keys), end = min(begin + each, keys);
    }
    __device__ __forceinline__ int chunks() const { return (end - begin + shape::slot_keys - 1) / shape::slot_keys; }
    __device__ __forceinline__ bool has_new_key() const { return begin <= position && position < end; }
};

// The number of a stage's results: what its words are tagged with.
__device__ __forceinline__ unsigned tag_of_layer(unsigned steps, int layers, int layer) {
    return steps * static_cast<unsigned>(layers) + static_cast<unsigned>(layer) + 1u;
}

// This block's copy of the words; blocks read different copies so that not all ask the same lines of the L2.
__device__ __forceinline__ const Word* words_of_block(const Step& step, int first) {
    return step.words + static_cast<long long>(blockIdx.x % shape::replicas) * shape::words_of_replica + first;
}

// The row that a sequence begins with: of the embedding, or of the input.
__device__ __forceinline__ const unsigned short* input_row(const Step& step, int row) {
    const long long number = step.tokens == nullptr ? row : __ldg(step.tokens + row);
    return step.input + number * shape::hidden;
}
