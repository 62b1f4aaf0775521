// WaveRNN-896's five products of a time step, for batches of 8: R (896 -> 3 x 896) with the gates behind it, then twice
// O1 (448 -> 448, relu) and O2 (448 -> 256), for the coarse and the fine half. Weights are fp16 or int8.
//
//   cycle        0     1     2     3     4     5
//   R  blocks    b0    b1    b2    b3    b4    b0 ...      a block keeps the weights of its rows in registers and
//   O1 blocks          b0    b1    b2    b3    b4          does the same rows for another batch in every cycle
//   O2 blocks                b0    b1    b2    b3
//   O3 blocks                      b0    b1    b2
//   O4 blocks                            b0    b1
//
// Pipelined, item i (step i / 5 of batch i % 5) is at stage s in cycle i + s; else one stage of one item is computed per
// cycle. A launch may be one cycle, or all of them with something between: a grid barrier, or waits for the words that
// are read. The weights are the A of mma.sync, 16 rows each, and the 8 sequences of a batch are its N: nothing is padded.
// K is shared out to the warps, in chunks of 64 bytes, and their sums are added up in shared memory.
//
// What is left out of a WaveRNN, as in the talk that this follows: the inputs I* x, softmax and sampling, which are no
// products. The sample's place is kept: O3 waits for O2's outputs, and the next step's R for O4's.

#include <persistent/element.cuh>
#include <persistent/waiting.cuh>

constexpr int hidden = 896, half_hidden = 448, classes = 256, batch = 8, batches = 5, stages = 5;
constexpr int warps = 7, threads = 32 * warps, chunk_bytes = 64;
constexpr int units = 16;         // of a block of R: their 48 rows are three tiles, one per gate
constexpr int output_tiles = 4;   // of a block of an output layer: 64 rows
constexpr int column = 20, tile_words = batch * column;  // of partial sums: 16 rows and a gap, for the banks' sake
constexpr int blocks_before[stages + 1] = {0, 56, 63, 67, 74, 78};

enum class Between { launches, barrier, words };  // what keeps a cycle behind those that it reads

struct Model {
    const uint4* weights;   // packed by block, warp, chunk, half of a chunk, tile and lane
    unsigned* state;        // h: (steps + 1, batches, 8, hidden), the first step's is given
    unsigned* inner[2];     // after O1 and O3: (steps, batches, 8, half_hidden)
    unsigned* logits[2];    // after O2 and O4, sums: (steps, batches, 8, classes)
    float gate_scale;       // of R's sums
    float inner_scale;      // of O1's and O3's
};
static_assert(sizeof(Model) == 56, "wavernn.py packs 56 bytes");

struct Cycles {
    int first, end, items, is_pipelined;
    int first_block;  // of the grid, counted over all stages
    int padding;
};
static_assert(sizeof(Cycles) == 24, "wavernn.py packs 24 bytes");

struct Place {
    int stage, block;  // block of its stage
};

__device__ __forceinline__ Place place_of(int block) {
    Place place = {0, block};
#pragma unroll
    for (int stage = 1; stage < stages; ++stage) {
        if (block >= blocks_before[stage]) place = {stage, block - blocks_before[stage]};
    }
    return place;
}

// Which item a stage has in a cycle; -1 for none.
__device__ __forceinline__ int item_of(const Cycles& cycles, int stage, int cycle) {
    if (!cycles.is_pipelined) return cycle % stages == stage ? cycle / stages : -1;
    const int item = cycle - stage;
    return item >= 0 && item < cycles.items ? item : -1;
}

// One stage's products: TILES times 16 rows of K weights for each block. GROUPS batches of 8 are done at once, from the item's first on.
template <class T, int K, int TILES, int GROUPS, Between BETWEEN>
struct Products {
    static_assert(GROUPS % 2 == 1, "an item begins with the buffer that the one before did not end with");
    static constexpr int row_bytes = K * T::bytes, chunks = row_bytes / chunk_bytes / warps;
    static_assert(chunks * chunk_bytes * warps == row_bytes, "K is shared out evenly");
    static constexpr bool reads_words = BETWEEN == Between::words;

    uint4 weights[chunks][2][TILES];
    uint4 read[GROUPS][chunks];  // the item's inputs

    // A warp's own part, in the order of its loads: 512 bytes each.
    __device__ __forceinline__ void load(const uint4* packed) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const uint4* own = packed + warp * chunks * 2 * TILES * 32 + lane;
#pragma unroll
        for (int i = 0; i < chunks * 2 * TILES; ++i) weights[i / (2 * TILES)][i / TILES % 2][i % TILES] = own[i * 32];
    }

    // An item begins: loads its inputs (GROUPS, 8, `stride_bytes`), whose K begins at `inputs`, waits for words, and
    // multiplies the first batch. Each warp's sums are in shared memory then. `sample`: a word for each lane that must be
    // there too, or null.
    __device__ __forceinline__ void begin(const char* inputs, int stride_bytes, int item, typename T::Sum* partial,
                                          const Progress& progress, const unsigned* sample, bool& is_late) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
        const char* own = inputs + group * stride_bytes + warp * chunks * chunk_bytes + quad * 16;
        // All loads are on their way before the first is looked at.
#pragma unroll
        for (int i = 0; i < GROUPS * chunks; ++i) {
            read[i / chunks][i % chunks] = load_words(own + i / chunks * batch * stride_bytes + i % chunks * chunk_bytes);
        }
        if constexpr (reads_words) {
            const unsigned sampled = sample != nullptr ? cusync::load_relaxed(sample) : 0;
#pragma unroll
            for (int i = 0; i < GROUPS * chunks; ++i) {
                uint4& words = read[i / chunks][i % chunks];
                if (!has_empty(words, T::empty)) continue;
                const char* from = own + i / chunks * batch * stride_bytes + i % chunks * chunk_bytes;
                words = await_words(from, T::empty, progress, is_late);
            }
            if (sampled == T::empty) await_word(sample, T::empty, progress, is_late);
            __syncwarp();  // mma.sync is for whole warps, and the lanes' waits were of different lengths
        }
        multiply(read[0], buffer_of(partial, item));
    }

    // It ends: `finish(group, sums)` is called for each batch, when all warps' sums are in shared memory. Returns false to
    // all threads alike where a wait was given up.
    template <class Finish>
    __device__ __forceinline__ bool end(int item, typename T::Sum* partial, bool is_late, Finish finish) {
        if (__syncthreads_or(is_late)) return false;
        finish(0, buffer_of(partial, item));
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) {
            multiply(read[g], buffer_of(partial, item + g));
            __syncthreads();
            finish(g, buffer_of(partial, item + g));
        }
        return true;
    }

    // Two buffers in turns: who writes one again has met all others at the barrier behind the other.
    __device__ static __forceinline__ typename T::Sum* buffer_of(typename T::Sum* partial, int turn) {
        return partial + turn % 2 * warps * TILES * tile_words;
    }

    __device__ __forceinline__ void multiply(const uint4 (&read)[chunks], typename T::Sum* buffer) const {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
        typename T::Sum sums[TILES][4] = {};
#pragma unroll
        for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) T::mma(sums[tile], weights[chunk][0][tile], read[chunk].x, read[chunk].y);
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) T::mma(sums[tile], weights[chunk][1][tile], read[chunk].z, read[chunk].w);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            typename T::Sum* at = buffer + (warp * TILES + tile) * tile_words + 2 * quad * column + group;
            at[0] = sums[tile][0], at[column] = sums[tile][1], at[8] = sums[tile][2], at[column + 8] = sums[tile][3];
        }
    }

    // All warps' sum of a row of a tile, for a sequence of the batch.
    __device__ static __forceinline__ typename T::Sum total(const typename T::Sum* buffer, int tile, int row, int sequence) {
        typename T::Sum sum = 0;
#pragma unroll
        for (int warp = 0; warp < warps; ++warp) sum += buffer[(warp * TILES + tile) * tile_words + sequence * column + row];
        return sum;
    }
};

// The value beside those of the next lanes, which are of the next rows: a word of 4 bytes, in each word's first lane.
template <class T>
__device__ __forceinline__ unsigned joined(float value) {
    unsigned word = T::stored(value);
#pragma unroll
    for (int bits = 8 * T::bytes; bits < 32; bits *= 2) word |= __shfl_down_sync(0xffffffffu, word, bits / (8 * T::bytes)) << bits;
    return word;
}

// What a sample is drawn from: for each lane a word of one of the last layer's four blocks, for one of 8 sequences.
__device__ __forceinline__ const unsigned* sample_of(const unsigned* logits, int of) {
    const int lane = threadIdx.x % 32;
    return logits + (of * batch + lane / 4) * classes + lane % 4 * 64;
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float hyperbolic_tangent(float x) { return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x)); }

// R and the gates: h = u * h + (1 - u) * tanh(r * (R_e h)), u = sigmoid(R_u h), r = sigmoid(R_r h).
template <class T, int GROUPS, Between BETWEEN>
struct Recurrent {
    using Rows = Products<T, hidden, 3, GROUPS, BETWEEN>;
    static constexpr int values = 4 / T::bytes;  // of a word
    static constexpr int batch_words = batch * hidden / values, step_words = batches * batch_words;
    // Its inputs were stored five items ago: only the gates wait for the cycle before, for its sample.
    static constexpr bool begins_early = true;
    Rows rows;
    unsigned old[GROUPS];  // of the block's own units, which it stored itself: there without a wait

    __device__ __forceinline__ void begin(const Model& model, Place place, int item, int step, int group,
                                          typename T::Sum* partial, const Progress& progress, bool& is_late) {
        const unsigned* before = model.state + step * step_words + group * batch_words;
        if (threadIdx.x < batch * units) {
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) old[g] = cusync::load_relaxed(before + g * batch_words + own_word(place.block));
        }
        const unsigned* sample = step > 0 ? sample_of(model.logits[1], (step - 1) * batches + group) : nullptr;
        rows.begin(reinterpret_cast<const char*>(before), hidden * T::bytes, item, partial, progress, sample, is_late);
    }

    __device__ __forceinline__ bool end(const Model& model, Place place, int item, int step, int group,
                                        typename T::Sum* partial, bool is_late) {
        unsigned* after = model.state + (step + 1) * step_words + group * batch_words;
        const int sequence = threadIdx.x / units, unit = threadIdx.x % units;
        auto finish = [&](int g, const typename T::Sum* buffer) {
            if (sequence >= batch) return;
            const float u = sigmoid(model.gate_scale * Rows::total(buffer, 0, unit, sequence));
            const float r = sigmoid(model.gate_scale * Rows::total(buffer, 1, unit, sequence));
            const float e = hyperbolic_tangent(r * model.gate_scale * Rows::total(buffer, 2, unit, sequence));
            const float h = T::loaded(old[g], unit % values) * (1.0f / T::one);
            const unsigned word = joined<T>((u * h + (1.0f - u) * e) * T::one);
            if (unit % values == 0) cusync::store_relaxed(after + g * batch_words + own_word(place.block), word);
        };
        return rows.end(item, partial, is_late, finish);
    }

    // Where a thread of the first 128 has its unit of its sequence, in a batch.
    __device__ static __forceinline__ int own_word(int block) {
        return (threadIdx.x / units * hidden + block * units + threadIdx.x % units) / values;
    }
};

// O1 and O3 (relu), O2 and O4 (sums as they are): 64 rows of a layer of 448 inputs.
template <class T, int GROUPS, Between BETWEEN>
struct Output {
    using Rows = Products<T, half_hidden, output_tiles, GROUPS, BETWEEN>;
    static constexpr int values = 4 / T::bytes;
    static constexpr bool begins_early = false;
    Rows rows;

    // Chosen and not indexed: an indexed parameter would be copied to local memory.
    __device__ static __forceinline__ unsigned* chosen(unsigned* const (&of)[2], Place place) {
        return place.stage >= 3 ? of[1] : of[0];
    }

    __device__ __forceinline__ void begin(const Model& model, Place place, int item, int step, int group,
                                          typename T::Sum* partial, const Progress& progress, bool& is_late) {
        const bool is_last = place.stage % 2 == 0;
        const int side = place.stage >= 3;
        const unsigned* inputs = is_last ? chosen(model.inner, place) + (step * batches + group) * batch * half_hidden / values
                                         : model.state + ((step + 1) * batches + group) * batch * hidden / values +
                                               side * half_hidden / values;
        const int stride = (is_last ? half_hidden : hidden) * T::bytes;
        // The coarse sample comes before the fine half.
        const unsigned* sample = place.stage == 3 ? sample_of(model.logits[0], step * batches + group) : nullptr;
        rows.begin(reinterpret_cast<const char*>(inputs), stride, item, partial, progress, sample, is_late);
    }

    __device__ __forceinline__ bool end(const Model& model, Place place, int item, int step, int group,
                                        typename T::Sum* partial, bool is_late) {
        const bool is_last = place.stage % 2 == 0;
        const int first = step * batches + group;  // of the batches of all steps
        unsigned *const inner = chosen(model.inner, place), *const logits = chosen(model.logits, place);
        auto finish = [&](int g, const typename T::Sum* buffer) {
#pragma unroll
            for (int i = threadIdx.x; i < batch * 64; i += threads) {
                const int sequence = i / 64, row = i % 64, at = (first + g) * batch + sequence;
                const typename T::Sum sum = Rows::total(buffer, row / 16, row % 16, sequence);
                if (is_last) {
                    cusync::store_relaxed(logits + at * classes + place.block * 64 + row, T::bits(sum));
                } else {
                    const unsigned word = joined<T>(fmaxf(0.0f, sum * model.inner_scale));
                    unsigned* to = inner + (at * half_hidden + place.block * 64 + row) / values;
                    if (row % values == 0) cusync::store_relaxed(to, word);
                }
            }
        };
        return rows.end(item, partial, is_late, finish);
    }
};

template <class T, int GROUPS, Between BETWEEN, class Role>
__device__ __forceinline__ void stay(Role& role, Place place, const Model& model, const Cycles& cycles,
                                     typename T::Sum* partial, const Progress& progress) {
    for (int cycle = cycles.first; cycle < cycles.end; ++cycle) {
        const int item = item_of(cycles, place.stage, cycle);
        const int step = GROUPS == 1 ? item / batches : item, group = GROUPS == 1 ? item % batches : 0;
        bool is_late = false;
        if (Role::begins_early && item >= 0) role.begin(model, place, item, step, group, partial, progress, is_late);
        if constexpr (BETWEEN == Between::barrier) {
            if (cycle > cycles.first && !wait_at_grid_barrier(progress, cycle - cycles.first)) return;
        }
        if (!Role::begins_early && item >= 0) role.begin(model, place, item, step, group, partial, progress, is_late);
        if (item >= 0 && !role.end(model, place, item, step, group, partial, is_late)) return;
        if constexpr (BETWEEN == Between::barrier) arrive_at_grid_barrier(progress);
    }
}

template <class T, int GROUPS, Between BETWEEN>
__global__ void __launch_bounds__(threads) wavernn(
    const __grid_constant__ Model model, const __grid_constant__ Cycles cycles, const __grid_constant__ Progress progress) {
    constexpr int recurrent_words = hidden * T::bytes / chunk_bytes * 2 * 3 * 32;
    constexpr int output_words = half_hidden * T::bytes / chunk_bytes * 2 * output_tiles * 32;
    __shared__ typename T::Sum partial[2 * warps * output_tiles * tile_words];
    const int block = cycles.first_block + blockIdx.x;
    const Place place = place_of(block);
    if (place.stage == 0) {
        Recurrent<T, GROUPS, BETWEEN> own;
        own.rows.load(model.weights + block * recurrent_words);
        stay<T, GROUPS, BETWEEN>(own, place, model, cycles, partial, progress);
    } else {
        Output<T, GROUPS, BETWEEN> own;
        const int before = blocks_before[1] * recurrent_words;
        own.rows.load(model.weights + before + (block - blocks_before[1]) * output_words);
        stay<T, GROUPS, BETWEEN>(own, place, model, cycles, partial, progress);
    }
}
