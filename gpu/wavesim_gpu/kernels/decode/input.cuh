// How a stage's input comes into shared memory: words of the stage before, waited for by the thread that takes them; splits
// of the attention are combined, norm weights multiplied in on the way. The norm's own factor follows in the epilogue.
#pragma once

#include <kernels/decode/step.cuh>

// Barrier 1 is the math warps' own.
__device__ __forceinline__ void sync_math() { asm volatile("bar.sync 1, %0;" ::"n"(math_threads) : "memory"); }

// The same, and whether any of them has given up.
__device__ __forceinline__ bool any_late(bool is_late) {
    unsigned any;
    asm volatile(
        "{ .reg .pred p, q;\n"
        "setp.ne.u32 p, %1, 0;\n"
        "barrier.cta.red.or.pred q, 1, %2, p;\n"
        "selp.u32 %0, 1, 0, q; }"
        : "=r"(any) : "r"(static_cast<unsigned>(is_late)), "n"(math_threads) : "memory");
    return any != 0;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int lanes = 16; lanes; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
    return value;
}

// Four values of x, as two packed pairs.
struct Quad {
    unsigned low, high;
};

// Times the norm's weights; the squares of what came are added up.
__device__ __forceinline__ Quad weighted(Quad x, uint2 weights, float& squares) {
    const float a = low_of(x.low), b = high_of(x.low), c = low_of(x.high), d = high_of(x.high);
    squares += a * a + b * b + c * c + d * d;
    return {packed(a * low_of(weights.x), b * high_of(weights.x)), packed(c * low_of(weights.y), d * high_of(weights.y))};
}

// How many rows a thread asks for at once, so many words of each: a row after the other would wait for the L2 each time.
__host__ __device__ constexpr int rows_at_once(int words_of_row) {
    int rows = 1;
    while (2 * rows <= shape::batch && 2 * rows * words_of_row <= 12) rows *= 2;
    return rows;
}

// The input of a stage that reads rows of COLUMNS values, words from `first_word` on; or, in the first layer, rows without
// tags. With `norm`, its weights, the sums of squares of each row go to `squares`. A row has STRIDE values in all.
template <int COLUMNS, bool HAS_NORM, int STRIDE = COLUMNS>
__device__ __forceinline__ void load_rows(
    Reader& reader, const Step& step, int first_word, bool is_plain, const unsigned short* norm, float* squares) {
    const Word* words = words_of_block(step, first_word);
    constexpr int quads = COLUMNS / 4, rounds = (quads + math_threads - 1) / math_threads;
    constexpr int most_in_flight = rounds < 4 ? rounds : 4;
    static_assert(!HAS_NORM || rounds <= 4, "the norm's weights are indexed by constants");
    uint2 weights[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
        const int quad = threadIdx.x + i * math_threads;
        if (HAS_NORM && quad < quads) weights[i] = __ldg(reinterpret_cast<const uint2*>(norm) + quad);
    }
    sync_math();  // all have done with the x of the stage before
    constexpr int at_once = rows_at_once(most_in_flight);
    for (int first = 0; first < shape::batch; first += at_once) {
        float sums[at_once] = {};
        for (int round = 0; round < rounds; round += most_in_flight) {
            WordPair pairs[at_once][most_in_flight];
            const auto quad_of = [&](int i) { return static_cast<int>(threadIdx.x) + (round + i) * math_threads; };
            const auto word_of = [&](int r, int i) { return (first + r) * (STRIDE / 2) + 2 * quad_of(i); };
            if (!is_plain)
                reader.await(
                    [&] {
#pragma unroll
                        for (int r = 0; r < at_once; ++r)
#pragma unroll
                            for (int i = 0; i < most_in_flight; ++i)
                                if (quad_of(i) < quads && !reader.has(pairs[r][i])) pairs[r][i].load(words + word_of(r, i));
                    },
                    [&] {
                        const Word* from = nullptr;
#pragma unroll
                        for (int r = 0; r < at_once; ++r)
#pragma unroll
                            for (int i = 0; i < most_in_flight; ++i)
                                if (quad_of(i) < quads && !reader.has(pairs[r][i]))
                                    from = words + word_of(r, i) + reader.has(pairs[r][i].first);
                        return from;
                    });
#pragma unroll
            for (int r = 0; r < at_once; ++r) {
                const uint2* plain = is_plain ? reinterpret_cast<const uint2*>(input_row(step, first + r)) : nullptr;
#pragma unroll
                for (int i = 0; i < most_in_flight; ++i) {
                    const int quad = quad_of(i);
                    if (quad >= quads) continue;
                    Quad x = {payload_of(pairs[r][i].first), payload_of(pairs[r][i].second)};
                    if (is_plain) {
                        const uint2 values = __ldg(plain + quad);
                        x = {values.x, values.y};
                    }
                    if constexpr (HAS_NORM) x = weighted(x, weights[round + i], sums[r]);
                    *reinterpret_cast<uint2*>(shared::x() + (first + r) * x_row + 4 * quad) = make_uint2(x.low, x.high);
                }
            }
        }
        if constexpr (HAS_NORM) {
#pragma unroll
            for (int r = 0; r < at_once; ++r) {
                const float sum = warp_sum(sums[r]);
                if (threadIdx.x % 32 == 0) squares[threadIdx.x / 32 * shape::batch + first + r] = sum;
            }
        }
    }
}

// Four values of the splits' results, weighted.
__device__ __forceinline__ uint2 combined(const WordPair (&pairs)[shape::splits], const Word (&logs)[shape::splits]) {
    float most = minus_infinity();
#pragma unroll
    for (int s = 0; s < shape::splits; ++s) most = fmaxf(most, __uint_as_float(payload_of(logs[s])));
    float total = 0.f, x[4] = {};
#pragma unroll
    for (int s = 0; s < shape::splits; ++s) {
        const float share = exp2f(__uint_as_float(payload_of(logs[s])) - most);
        total += share;
        x[0] += share * low_of(payload_of(pairs[s].first)), x[1] += share * high_of(payload_of(pairs[s].first));
        x[2] += share * low_of(payload_of(pairs[s].second)), x[3] += share * high_of(payload_of(pairs[s].second));
    }
    const float scale = 1.f / total;
    return make_uint2(packed(x[0] * scale, x[1] * scale), packed(x[2] * scale, x[3] * scale));
}

// The input of the output projection: the splits' results, weighted by their shares of the softmax. All base 2.
__device__ __forceinline__ void load_combined(Reader& reader, const Step& step) {
    constexpr int columns = shape::heads * shape::head_size, quads = shape::batch * columns / 4;
    const Word* values = words_of_block(step, shape::attention_words);
    const Word* shares = words_of_block(step, shape::share_words);
    sync_math();  // all have done with the x of the stage before
    constexpr int last = (quads + math_threads - 1) / math_threads * math_threads;
    constexpr int at_once = shape::batch == 1 ? 1 : shape::splits > 2 ? 2 : 4;
    for (int wanted = threadIdx.x; wanted < last; wanted += at_once * math_threads) {  // whole warps
        WordPair pairs[at_once][shape::splits];
        Word logs[at_once][shape::splits] = {};
        const auto quad_of = [&](int i) { return min(wanted + i * math_threads, quads - 1); };
        const auto row_of = [&](int i) { return quad_of(i) / (columns / 4); };
        const auto column_of = [&](int i) { return quad_of(i) % (columns / 4) * 4; };
        const auto share = [&](int i, int s) {
            return shares + (row_of(i) * shape::heads + column_of(i) / shape::head_size) * shape::splits + s;
        };
        const auto value = [&](int i, int s) { return values + ((row_of(i) * shape::splits + s) * columns + column_of(i)) / 2; };
        reader.await(
            [&] {
#pragma unroll
                for (int i = 0; i < at_once; ++i)
#pragma unroll
                    for (int s = 0; s < shape::splits; ++s) {
                        if (!reader.has(logs[i][s])) logs[i][s] = load_word(share(i, s));
                        if (!reader.has(pairs[i][s])) pairs[i][s].load(value(i, s));
                    }
            },
            [&] {
                const Word* from = nullptr;
#pragma unroll
                for (int i = 0; i < at_once; ++i)
#pragma unroll
                    for (int s = 0; s < shape::splits; ++s) {
                        if (!reader.has(logs[i][s])) from = share(i, s);
                        if (!reader.has(pairs[i][s])) from = value(i, s) + reader.has(pairs[i][s].first);
                    }
                return from;
            });
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const uint2 x = combined(pairs[i], logs[i]);
            *reinterpret_cast<uint2*>(shared::x() + row_of(i) * x_row + column_of(i)) = x;
        }
    }
}
