// out = softmax(scale * scores) by rows of attention's scores, which lie (sequences * length, heads * keys): tile (x, y) is
// head x and some query rows of one sequence. fp16 or bf16 in and out, fp32 inside. sm_80 and later; keys must be a
// multiple of 8 (softmax.py checks).
//
// A row is read once and stays in registers. Under the causal mask query t of a sequence sees keys up to
// keys - length + t; the others are not read, and their probabilities are zeros. Dropout multiplies by 0 or 1 / (1 - p):
// probabilities, or scores, as the paper's text has it.

#include <generated.cuh>

#include <kernels/attention/dropout.cuh>
#include <kernels/rows/rows.cuh>

enum class DropoutPlace { none, after, before };

struct SoftmaxParams {
    RowMatrix scores, out;
    RowTiles tiles;
    int heads, keys;
    int is_causal;
    float scale;
    Dropout dropout;
};
static_assert(sizeof(SoftmaxParams) == 88, "row_kernel.py packs 88 bytes");

// A row's numbers as load_row spreads its vectors.
template <class C>
using RowValues = float[C::vectors][vector_elements];

template <class C, class Body>
__device__ __forceinline__ void each_key(RowValues<C>& values, Body&& body) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        const int first = (i * C::threads_per_row + C::thread_of_row()) * vector_elements;
#pragma unroll
        for (int j = 0; j < vector_elements; ++j) body(first + j, values[i][j]);
    }
}

// Of the first `visible` keys: of the others nothing is left to drop.
template <class C>
__device__ __forceinline__ void drop_row(
    const Dropout& dropout, int query, int head, int visible, RowValues<C>& values) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        const int quad = (i * C::threads_per_row + C::thread_of_row()) * (vector_elements / 4);
        if (4 * quad >= visible) continue;
#pragma unroll
        for (int j = 0; j < vector_elements; j += 4) {
            const uint4 random = dropout.words(quad + j / 4, query, head);
            const unsigned words[4] = {random.x, random.y, random.z, random.w};
#pragma unroll
            for (int k = 0; k < 4; ++k) values[i][j + k] = words[k] < dropout.threshold ? 0.0f : values[i][j + k] * dropout.scale;
        }
    }
}

// exp(scale * value) over its sum, of the first `visible` keys; zeros of the others. NaN anywhere makes the row NaN: the
// maximum leaves it out, the sum does not.
template <class C>
__device__ __forceinline__ void normalise_row(RowReduction<C>& row, RowValues<C>& values, float scale, int visible) {
    constexpr float log2_e = 1.4426950408889634f;
    const float minus_infinity = __int_as_float(0xff800000);
    float most = minus_infinity, sum = 0.0f;
    each_key<C>(values, [&](int key, float& value) {
        value = key < visible ? value * (scale * log2_e) : minus_infinity;
        most = fmaxf(most, value);
    });
    most = row.template reduce<Maximum>(most);
    each_key<C>(values, [&](int, float& value) { sum += value = exp2f(value - most); });
    const float factor = 1.0f / row.template reduce<Sum>(sum);
    each_key<C>(values, [&](int, float& value) { value *= factor; });
}

// `Generated`: the stage's struct in the generated header.
template <class C, DropoutPlace PLACE, bool IS_BF16, class Generated>
__global__ void __launch_bounds__(C::threads, C::blocks_per_sm)
softmax(const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ SoftmaxParams p) {
    cusync::launch_dependents();
    RowReduction<C> row;
    for_each_tile(sync, p.tiles, [&](const cusync::Tile& tile, bool is_there) {
        const RowRange rows(p.tiles, tile.y);
        const int head = rows.sequence * p.heads + tile.x;
        for (int query = rows.first + C::row_of_block(); query < rows.end; query += C::rows_at_once) {
            const long long place = static_cast<long long>(rows.sequence) * p.tiles.length + query;
            const long long column = static_cast<long long>(tile.x) * p.keys;
            const int visible = p.is_causal ? p.keys - p.tiles.length + query + 1 : p.keys;
            uint4 loaded[C::vectors];
            load_row<C>(loaded, p.scores.row(place, column), (visible + vector_elements - 1) / vector_elements);
            if (!is_there) poison_row<C>(loaded);
            RowValues<C> values;
#pragma unroll
            for (int i = 0; i < C::vectors; ++i) unpack_vector<IS_BF16>(loaded[i], values[i]);
            if constexpr (PLACE == DropoutPlace::before) drop_row<C>(p.dropout, query, head, visible, values);
            normalise_row<C>(row, values, p.scale, visible);
            if constexpr (PLACE == DropoutPlace::after) drop_row<C>(p.dropout, query, head, visible, values);
#pragma unroll
            for (int i = 0; i < C::vectors; ++i) loaded[i] = pack_vector<IS_BF16>(values[i]);
            store_row<C>(p.out.row(place, column), loaded, p.keys / vector_elements);
        }
    });
}
