// Attention of one split of keys for the queries that share a key head. Norm and rotation of queries and the new key, its
// place in the cache; then warps take sixteen keys each, on mma, and what they have is merged into the split's words.
#pragma once

#include <kernels/decode/input.cuh>
#include <kernels/decode/product.cuh>

__device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(~0u, value, 1);
    return value + __shfl_xor_sync(~0u, value, 2);
}

struct Attention {
    const Step& step;
    const KeyRange range;

    // Each warp takes heads: the queries, then the key, then the value. A lane has dimensions 2l, 2l + 1 and their partners
    // half a head away, with which they are rotated.
    __device__ __forceinline__ void take_heads(Reader& reader, int layer) const {
        constexpr int half = shape::head_size / 2, lanes = half / 2;
        const int lane = threadIdx.x % 32, i = lane % lanes;
        const Word* words = words_of_block(step, shape::qkv_words);
        for (int role = threadIdx.x / 32; role < heads_per_key + 2; role += math_warps) {
            const int head_number = role < heads_per_key ? range.kv_head * heads_per_key + role
                                    : shape::heads + (role - heads_per_key) * shape::kv_heads + range.kv_head;
            uint2 weights = make_uint2(0, 0);
            if (shape::has_head_norm && role <= heads_per_key) {
                const unsigned* norm = reinterpret_cast<const unsigned*>(
                    step.head_norms + (2ll * layer + (role == heads_per_key)) * shape::head_size);
                weights = make_uint2(__ldg(norm + i), __ldg(norm + lanes + i));
            }
            unsigned* cache = nullptr;  // the new row of keys or values, where this split has it
            if (role >= heads_per_key && range.has_new_key()) cache = cache_row(layer, role - heads_per_key);
            const int first = (range.row * qkv_rows_total + head_number * shape::head_size) / 2 + i;
            Word low_half = 0, high_half = 0;
            reader.await([&] { low_half = load_word(words + first), high_half = load_word(words + first + lanes); },
                         [&] {
                             const Word* from = reader.has(high_half) ? nullptr : words + first + lanes;
                             return reader.has(low_half) ? from : words + first;
                         });
            const unsigned a = payload_of(low_half), b = payload_of(high_half);
            float x[2] = {low_of(a), high_of(a)}, partner[2] = {low_of(b), high_of(b)};
            if (role <= heads_per_key) {
                if constexpr (shape::has_head_norm) normalise(x, partner, weights);
                rotate(x, partner, i);
            }
            if (lane >= lanes) continue;
            const unsigned low = packed(x[0], x[1]), high = packed(partner[0], partner[1]);
            unsigned* to = reinterpret_cast<unsigned*>(shared::queries() + role * query_row);
            to[i] = low, to[lanes + i] = high;
            if (cache != nullptr) cache[i] = low, cache[lanes + i] = high;
        }
    }

    __device__ __forceinline__ void normalise(float (&x)[2], float (&partner)[2], uint2 weights) const {
        constexpr int copies = 32 / (shape::head_size / 4);  // lanes that have the same dimensions
        const float sum = warp_sum(x[0] * x[0] + x[1] * x[1] + partner[0] * partner[0] + partner[1] * partner[1]) / copies;
        const float factor = rsqrtf(sum / shape::head_size + step.norm_epsilon);
        x[0] *= factor * low_of(weights.x), x[1] *= factor * high_of(weights.x);
        partner[0] *= factor * low_of(weights.y), partner[1] *= factor * high_of(weights.y);
    }

    __device__ __forceinline__ void rotate(float (&x)[2], float (&partner)[2], int i) const {
        const float2* angles = shared::rotary() + range.row * (shape::head_size / 2) + 2 * i;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float2 angle = angles[j];
            const float before = x[j];
            x[j] = before * angle.x - partner[j] * angle.y, partner[j] = partner[j] * angle.x + before * angle.y;
        }
    }

    __device__ __forceinline__ unsigned* cache_row(int layer, int which) const {
        const long long row = static_cast<long long>(range.row * shape::kv_heads + range.kv_head) * step.max_length;
        return reinterpret_cast<unsigned*>(__ldg(step.weights + layer * pointers_of_layer + 7 + which)) +
               (row + range.position) * (shape::head_size / 2);
    }

    // What one warp has of its keys. maximum, sum: of head g; values: [dimensions / 16] of heads 2q and 2q + 1.
    struct Part {
        float maximum = minus_infinity(), sum = 0.f;
        float values[shape::head_size / 16][4] = {};
    };

    // Sixteen keys from `first` on; `rows` is the place of the first in the slot.
    __device__ __forceinline__ void sixteen(Part& part, const uint4 (&queries)[shape::head_size / 32], int first,
                                            const unsigned char* slot, int row) const {
        const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
        const unsigned char* fresh = reinterpret_cast<const unsigned char*>(shared::queries() + heads_per_key * query_row);
        float scores[2][4];
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            const bool is_old = first + 8 * t + g < range.position;  // all others read the new key, and are masked
            const unsigned char* key = (is_old ? slot + (row + 8 * t + g) * key_row : fresh) + 16 * q;
            scores[t][0] = scores[t][1] = scores[t][2] = scores[t][3] = 0.f;
#pragma unroll
            for (int i = 0; i < shape::head_size / 32; ++i) {
                const uint4 b = *reinterpret_cast<const uint4*>(key + 64 * i);
                mma(scores[t], queries[i].x, 0, queries[i].y, 0, b.x, b.y);
                mma(scores[t], queries[i].z, 0, queries[i].w, 0, b.z, b.w);
            }
        }
        float most = part.maximum, p[2][2];
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                p[t][i] = first + 8 * t + 2 * q + i < range.end ? scores[t][i] * step.score_scale : minus_infinity();
                most = fmaxf(most, p[t][i]);
            }
        most = quad_max(most);
        const float shrink = exp2f(part.maximum - most);
        part.maximum = most, part.sum *= shrink;
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int i = 0; i < 2; ++i) p[t][i] = rounded(exp2f(p[t][i] - most)), part.sum += p[t][i];
        const float shrinks[2] = {__shfl_sync(~0u, shrink, 8 * q), __shfl_sync(~0u, shrink, 8 * q + 4)};
        const int key = lane / 16 * 8 + lane % 8;
        const bool is_old = first + key < range.position;
        const unsigned char* value =
            (is_old ? slot + shape::slot_keys * key_row + (row + key) * value_row : fresh + 2 * query_row) + (lane / 8 % 2) * 16;
        const unsigned b0 = packed(p[0][0], p[0][1]), b1 = packed(p[1][0], p[1][1]);
#pragma unroll
        for (int t = 0; t < shape::head_size / 16; ++t) {
            unsigned a[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(shared::window(value) + 32 * t) : "memory");
            part.values[t][0] *= shrinks[0], part.values[t][1] *= shrinks[1];
            part.values[t][2] *= shrinks[0], part.values[t][3] *= shrinks[1];
            mma(part.values[t], a[0], a[1], a[2], a[3], b0, b1);
        }
    }

    // The warps of a group take the keys of the group's slots by turns.
    __device__ __forceinline__ void take_keys(MathWarp& warp, Reader& reader, Part& part) const {
        const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
        uint4 queries[shape::head_size / 32];
        const unsigned short* row = shared::queries() + min(g, heads_per_key - 1) * query_row;
#pragma unroll
        for (int i = 0; i < shape::head_size / 32; ++i) queries[i] = *reinterpret_cast<const uint4*>(row + 32 * i + 8 * q);
        for (int chunk = warp.ahead(); chunk < range.chunks(); chunk += groups) {
            const RingPlace at = warp.place_ahead(chunk);
            warp.await_slot(at, reader);
            for (int i = warp.number(); i < shape::slot_keys / keys_of_warp; i += group_warps) {
                const int in_slot = i * keys_of_warp, first = range.begin + chunk * shape::slot_keys + in_slot;
                if (first < range.end) sixteen(part, queries, first, shared::slot(at.slot), in_slot);
            }
            warp.free_slot(at);
        }
        warp.place.advance(range.chunks());
    }

    __device__ __forceinline__ void put_part(Part& part) const {
        const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, number = threadIdx.x / 32;
        part.sum = quad_sum(part.sum);
        if (q == 0 && g < heads_per_key) shared::softmax()[number * heads_per_key + g] = make_float2(part.maximum, part.sum);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int head_number = 2 * q + i % 2;
            if (head_number >= heads_per_key) continue;
            float* to = shared::merged() + (number * heads_per_key + head_number) * merge_row + g + i / 2 * 8;
#pragma unroll
            for (int t = 0; t < shape::head_size / 16; ++t) to[16 * t] = part.values[t][i];
        }
    }

    // A thread merges two dimensions of a head over the warps, in their order.
    __device__ __forceinline__ void merge(unsigned tag) const {
        constexpr int pairs = shape::head_size / 2, columns = shape::heads * shape::head_size;
        static_assert(heads_per_key * pairs <= math_threads, "a thread for each pair of dimensions");
        const int of_head = threadIdx.x / pairs, pair = threadIdx.x % pairs;
        if (of_head >= heads_per_key) return;
        float most = minus_infinity(), sum = 0.f;
        float2 value = make_float2(0.f, 0.f);
#pragma unroll
        for (int w = 0; w < math_warps; ++w) most = fmaxf(most, shared::softmax()[w * heads_per_key + of_head].x);
#pragma unroll
        for (int w = 0; w < math_warps; ++w) {
            const float2 softmax = shared::softmax()[w * heads_per_key + of_head];
            const float share = softmax.x == minus_infinity() ? 0.f : exp2f(softmax.x - most);
            const float2 part =
                *reinterpret_cast<const float2*>(shared::merged() + (w * heads_per_key + of_head) * merge_row + 2 * pair);
            sum += share * softmax.y, value.x += share * part.x, value.y += share * part.y;
        }
        const float scale = sum > 0.f ? 1.f / sum : 0.f;
        const int head_number = range.kv_head * heads_per_key + of_head;
        const int word = ((range.row * shape::splits + range.split) * columns + head_number * shape::head_size) / 2 + pair;
#pragma unroll
        for (int replica = 0; replica < shape::replicas; ++replica) {
            Word* words = step.words + static_cast<long long>(replica) * shape::words_of_replica;
            store_word(words + shape::attention_words + word, packed(value.x * scale, value.y * scale), tag);
            if (pair == 0)
                store_word(words + shape::share_words + (range.row * shape::heads + head_number) * shape::splits + range.split,
                           __float_as_uint(most + log2f(sum)), tag);
        }
    }
};

// False once the step is given up.
__device__ __forceinline__ bool attend(
    const Step& step, MathWarp& warp, Reader& reader, int layer, int tile) {
    const Attention attention = {step, KeyRange(tile, step.positions)};
    attention.take_heads(reader, layer);
    if (any_late(reader.is_late)) return false;  // all have the queries; the x of the stage before is done with
    Attention::Part part;
    attention.take_keys(warp, reader, part);
    attention.put_part(part);
    sync_math();
    attention.merge(reader.tag);
    return true;
}
