// out (m, columns) = norm(h) * weight (+ bias) by rows, h = x (+ residual), which is kept: RMSNorm or LayerNorm. fp16 or
// bf16 in and out, fp32 inside. sm_80 and later; columns must be a multiple of 8 (norm.py checks).
//
// A row is read once and stays in registers, 16 bytes a load: h is rounded as it is stored, then squared and summed. The
// weights come before the wait, since nothing of the run writes them. The residual comes with x, after it: under dependent
// launch the kernel that wrote it may still be running while this one starts, however far ahead in the stream it is.

#include <generated.cuh>

#include <kernels/rows/rows.cuh>

enum class NormKind { rms, layer };

struct NormParams {
    RowMatrix x, residual, sum, out;  // residual and sum, which may be the same, only with a residual
    const uint4* weight;
    const uint4* bias;                // of a LayerNorm
    RowTiles tiles;
    int columns;
    float epsilon;
};
static_assert(sizeof(NormParams) == 112, "row_kernel.py packs 112 bytes");

// h = x + residual, rounded.
template <class C, bool IS_BF16>
__device__ __forceinline__ void add_row(uint4 (&x)[C::vectors], const uint4 (&residual)[C::vectors]) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        float left[vector_elements], right[vector_elements];
        unpack_vector<IS_BF16>(x[i], left), unpack_vector<IS_BF16>(residual[i], right);
#pragma unroll
        for (int j = 0; j < vector_elements; ++j) left[j] += right[j];
        x[i] = pack_vector<IS_BF16>(left);
    }
}

// The sum of body(element) over the row's elements; those past its end are left out.
template <class C, bool IS_BF16, class Body>
__device__ __forceinline__ float sum_row(RowReduction<C>& row, const uint4 (&h)[C::vectors], int count, Body&& body) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        float values[vector_elements];
        unpack_vector<IS_BF16>(h[i], values);
        const bool is_inside = i * C::threads_per_row + C::thread_of_row() < count;
#pragma unroll
        for (int j = 0; j < vector_elements; ++j) sum += is_inside ? body(values[j]) : 0.0f;
    }
    return row.template reduce<Sum>(sum);
}

// (h - mean) * factor * weight + bias, in place.
template <class C, bool IS_BF16, bool HAS_BIAS>
__device__ __forceinline__ void scale_row(uint4 (&h)[C::vectors], float mean, float factor,
                                          const uint4 (&weight)[C::vectors], const uint4 (&bias)[C::vectors]) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        float values[vector_elements], weights[vector_elements], biases[vector_elements] = {};
        unpack_vector<IS_BF16>(h[i], values), unpack_vector<IS_BF16>(weight[i], weights);
        if constexpr (HAS_BIAS) unpack_vector<IS_BF16>(bias[i], biases);
#pragma unroll
        for (int j = 0; j < vector_elements; ++j) values[j] = (values[j] - mean) * factor * weights[j] + biases[j];
        h[i] = pack_vector<IS_BF16>(values);
    }
}

// `Generated`: the stage's struct in the generated header.
template <class C, NormKind KIND, bool HAS_RESIDUAL, bool IS_BF16, class Generated>
__global__ void __launch_bounds__(C::threads, C::blocks_per_sm)
norm(const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ NormParams p) {
    constexpr bool is_layer = KIND == NormKind::layer;
    cusync::launch_dependents();
    const int count = p.columns / vector_elements;
    const float share = 1.0f / static_cast<float>(p.columns);
    uint4 weight[C::vectors], bias[C::vectors] = {};
    load_row<C>(weight, p.weight, count);
    if constexpr (is_layer) load_row<C>(bias, p.bias, count);
    RowReduction<C> row;
    for_each_tile(sync, p.tiles, [&](const cusync::Tile& tile, bool is_there) {
        const RowRange rows(p.tiles, tile.y);
        const int first = rows.first + C::row_of_block();
        constexpr bool loads_ahead = !HAS_RESIDUAL && !is_layer;  // else enough is in flight, or registers are short
        uint4 next[C::vectors];
        if (loads_ahead && first < rows.end) load_row<C>(next, p.x.row(first), count);
        for (int i = first; i < rows.end; i += C::rows_at_once) {
            uint4 h[C::vectors];
            if constexpr (loads_ahead) {
#pragma unroll
                for (int j = 0; j < C::vectors; ++j) h[j] = next[j];
                if (i + C::rows_at_once < rows.end) load_row<C>(next, p.x.row(i + C::rows_at_once), count);
            } else {
                load_row<C>(h, p.x.row(i), count);
            }
            if constexpr (HAS_RESIDUAL) {
                uint4 residual[C::vectors];
                load_row<C>(residual, p.residual.row(i), count);
                add_row<C, IS_BF16>(h, residual);
            }
            if (!is_there) poison_row<C>(h);
            if constexpr (HAS_RESIDUAL) store_row<C>(p.sum.row(i), h, count);
            float mean = 0.0f;
            if constexpr (is_layer) mean = share * sum_row<C, IS_BF16>(row, h, count, [](float value) { return value; });
            const float squares = sum_row<C, IS_BF16>(row, h, count, [&](float value) { return (value - mean) * (value - mean); });
            scale_row<C, IS_BF16, is_layer>(h, mean, rsqrtf(share * squares + p.epsilon), weight, bias);
            store_row<C>(p.out.row(i), h, count);
        }
    });
}
