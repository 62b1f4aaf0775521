// WaveRNN-896 in int8, held by one cluster of 16 blocks: 3 MB of weights in the registers and shared memory of 16 SMs.
// The pipeline is that of wavernn.cu. What a warp has made goes into the shared memory of those that read it, and the
// barrier of a cycle is what arrives: each block counts the bytes that the others send it, the same in every cycle.
//
//   warp        0..3   inner layer (O1 in blocks 0 to 7, O3 in 8 to 15), 16 rows each, the last one 8
//               4      output layer (O2, O4), 32 rows
//               5..11  R and its gates, 8 units each
//
//                 +---- inputs of this cycle: R's h of 8 cycles, inner layers of 2 (shared memory)
//   wait(c - 1) --+---> mma.sync --> own sums --> st.async to all that need them, and bytes are counted at barrier c
//                       (R's are done before the wait: its inputs came five cycles ago)
//
// A group of 8 units of 8 sequences is 64 bytes, sequence by sequence: what a warp of R sends at once, and an eighth of a
// column operand's K of 32 for each quarter of the lanes. Nobody overwrites what is still read: a block sends in cycle c
// only when all have sent in c - 1, so that all have read what came in c - 2, and R what came in c - 6.

#include <persistent/element.cuh>
#include <persistent/waiting.cuh>
#include <kernels/gemm/sm90/mbarrier.cuh>

constexpr int blocks = 16, side_blocks = 8, inner_warps = 4, unit_warps = 7;
constexpr int logit_warp = inner_warps, first_unit_warp = logit_warp + 1, logit_tiles = 2;
constexpr int threads = 32 * (first_unit_warp + unit_warps);
constexpr int hidden = 896, half_hidden = 448, classes = 256, batch = 8, batches = 5;
constexpr int group_bytes = 64;                                    // 8 units or rows of 8 sequences
constexpr int hidden_groups = hidden / 8, half_groups = half_hidden / 8, own_groups = 7;  // of a block, of both layers
constexpr int unit_k_steps = hidden / 32, half_k_steps = half_hidden / 32;
constexpr int states = 8;                                          // cycles whose h is kept
constexpr int unit_warp_words = unit_k_steps * 32 * 6, tile_words = half_k_steps * 32 * 4;
constexpr int block_words = unit_warps * unit_warp_words + (inner_warps + logit_tiles) * tile_words;

struct Model {
    const unsigned* weights;  // packed by block, warp, K step and lane
    unsigned char* state;     // h: (steps + 1, batches, 8, hidden), the first step's is given
    unsigned char* inner[2];  // (steps, batches, 8, half_hidden)
    int* logits[2];           // (steps, batches, 8, classes)
    float gate_scale, inner_scale;
};
static_assert(sizeof(Model) == 56, "one_cluster.py packs 56 bytes");

struct alignas(128) Shared {
    unsigned char state[states][hidden_groups][group_bytes];
    unsigned char inner[2][half_groups][group_bytes];
    int samples[2][blocks][batch];
    unsigned heard[blocks][inner_warps];              // of the other side's inner layers: only that it came counts
    unsigned char made[first_unit_warp + unit_warps][2][group_bytes];
    uint2 candidates[unit_warps][unit_k_steps][32];   // weights of e
    unsigned long long barriers[2];                   // cycles in turns
};
static_assert(sizeof(Shared) == 117632, "one_cluster.py asks for as many bytes");

__device__ __forceinline__ unsigned window(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

// Sixteen or four bytes into another block's shared memory, which count at its barrier. Nothing else is published.
__device__ __forceinline__ void send(unsigned to, uint4 words, unsigned barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void send(unsigned to, unsigned word, unsigned barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(word), "r"(barrier)
                 : "memory");
}

// Whether the barrier's phase of that parity has ended. Acquire, cluster scope: what was sent may be read.
__device__ __forceinline__ bool has_ended(unsigned barrier, unsigned parity) {
    unsigned ended;
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(ended) : "r"(barrier), "r"(parity) : "memory");
    return ended != 0;
}

// All threads of all blocks meet: barriers are made before anybody sends, and nobody leaves while another still does.
__device__ __forceinline__ void meet() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float hyperbolic_tangent(float x) { return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x)); }

// A block's view of a run.
struct Run {
    const Model& model;
    Shared& shared;
    const Progress& progress;
    int items;
    unsigned expected_bytes;  // that each block hears in a cycle
    int rank, side, rank_of_side, warp, lane, group, quad;

    __device__ __forceinline__ unsigned barrier_of(int cycle) const { return window(&shared.barriers[cycle & 1]); }

    // The same place in block `to`.
    __device__ __forceinline__ unsigned there(unsigned address, int to) const { return mbarrier::remote(address, to); }

    // Until all that was made in `cycle` is here. False for all lanes alike where it did not come in time.
    __device__ __forceinline__ bool wait(int cycle) const {
        bool is_late = false;
        Patience patience(progress);
        while (!is_late && !has_ended(barrier_of(cycle), cycle >> 1 & 1)) is_late = patience.is_over();
        return !__any_sync(0xffffffffu, is_late);
    }

    // One thread of a block, which has waited for the cycle before: from here on this cycle's phase can end.
    __device__ __forceinline__ void expect(int cycle) const {
        mbarrier::arrive_and_expect_tx(barrier_of(cycle), expected_bytes);
    }

    // A group that the warp has made, to `count` blocks from `first` on, at the place `at` points to here.
    __device__ __forceinline__ void send_group(const void* at, int made, int first, int count, int cycle) const {
        const uint4 part = reinterpret_cast<const uint4*>(shared.made[warp][made])[lane % 4];
        for (int to = first + lane / 4; to < first + count; to += 8) {
            send(there(window(at) + lane % 4 * 16, to), part, there(barrier_of(cycle), to));
        }
    }
};

// Where a sequence lies in a group. Every other two groups have the halves exchanged, so that 16 lanes, which read four
// sequences of four groups, meet 32 banks.
__device__ __forceinline__ int place_in(int group, int sequence) { return 8 * (sequence ^ (group & 2) * 2); }

// Column operands of a K step: 8 bytes of K for each lane.
__device__ __forceinline__ uint2 inputs_of(const unsigned char (*groups)[group_bytes], int k_step, int group, int quad) {
    return *reinterpret_cast<const uint2*>(&groups[4 * k_step + quad][place_in(quad, group)]);
}

// R: 8 units. The weights of u and r are 16 rows in registers, those of e 8 rows in shared memory.
struct Units {
    uint4 gates[unit_k_steps];

    __device__ __forceinline__ void load(const Run& run, int own) {
        const unsigned* packed = run.model.weights + run.rank * block_words + own * unit_warp_words;
        const uint4* of_gates = reinterpret_cast<const uint4*>(packed) + run.lane;
        const uint2* of_candidates = reinterpret_cast<const uint2*>(packed + unit_k_steps * 32 * 4) + run.lane;
#pragma unroll
        for (int i = 0; i < unit_k_steps; ++i) gates[i] = of_gates[i * 32];
        for (int i = 0; i < unit_k_steps; ++i) run.shared.candidates[own][i][run.lane] = of_candidates[i * 32];
        __syncwarp();
    }

    // Sums of u, r (gates) and e (candidates) for an item, whose h came five cycles before.
    __device__ __forceinline__ void multiply(const Run& run, int own, int item, int (&of_gates)[4], int (&of_candidates)[4]) const {
        const auto* groups = run.shared.state[(item - batches) & (states - 1)];
        int sums[2][2][4] = {};  // two chains each
#pragma unroll
        for (int i = 0; i < unit_k_steps; ++i) {
            const uint2 read = inputs_of(groups, i, run.group, run.quad);
            const uint2 of_e = run.shared.candidates[own][i][run.lane];
            Int8::mma(sums[0][i & 1], gates[i], read.x, read.y);
            Int8::mma(sums[1][i & 1], make_uint4(of_e.x, 0, of_e.y, 0), read.x, read.y);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) of_gates[i] = sums[0][0][i] + sums[0][1][i], of_candidates[i] = sums[1][0][i] + sums[1][1][i];
    }

    // The gates of an item: a lane has one unit of two sequences.
    __device__ __forceinline__ void finish(const Run& run, int own, int item, const int (&of_gates)[4],
                                           const int (&of_candidates)[4]) const {
        const int first = run.rank * own_groups + own;  // group of units
        const unsigned char* before = run.shared.state[(item - batches) & (states - 1)][first];
        const float scale = run.model.gate_scale;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = place_in(first, 2 * run.quad + i) + run.group;
            const float u = sigmoid(scale * of_gates[i]), r = sigmoid(scale * of_gates[2 + i]);
            const float e = hyperbolic_tangent(r * scale * of_candidates[i]);
            const float h = Int8::loaded(before[at], 0) * (1.0f / Int8::one);
            run.shared.made[run.warp][0][at] = static_cast<unsigned char>(Int8::stored((u * h + (1.0f - u) * e) * Int8::one));
        }
        __syncwarp();
        run.send_group(run.shared.state[item & (states - 1)][first], 0, 0, blocks, item);
        if (run.lane < batch && item < run.items) {
            const long long row = (item / batches + 1ll) * batches + item % batches;
            *reinterpret_cast<uint2*>(run.model.state + (row * batch + run.lane) * hidden + 8 * first) =
                *reinterpret_cast<const uint2*>(&run.shared.made[run.warp][0][place_in(first, run.lane)]);
        }
        __syncwarp();  // all lanes have read it before the next item's is written
    }
};

// TILES times 16 rows of O1 to O4.
template <int TILES>
struct Rows {
    uint4 weights[TILES][half_k_steps];

    __device__ __forceinline__ void load(const Run& run) {
        const unsigned* packed = run.model.weights + run.rank * block_words + unit_warps * unit_warp_words;
        const uint4* own = reinterpret_cast<const uint4*>(packed + run.warp * tile_words) + run.lane;
#pragma unroll
        for (int i = 0; i < TILES * half_k_steps; ++i) weights[i / half_k_steps][i % half_k_steps] = own[i * 32];
    }

    __device__ __forceinline__ void multiply(const Run& run, const unsigned char (*groups)[group_bytes],
                                             int (&sums)[TILES][4]) const {
        constexpr int chains = 4 / TILES;  // so that four products are on their way
        int parts[TILES][chains][4] = {};
#pragma unroll
        for (int i = 0; i < half_k_steps; ++i) {
            const uint2 read = inputs_of(groups, i, run.group, run.quad);
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) Int8::mma(parts[tile][i % chains], weights[tile][i], read.x, read.y);
        }
#pragma unroll
        for (int i = 0; i < TILES * 4; ++i) {
            sums[i / 4][i % 4] = 0;
#pragma unroll
            for (int chain = 0; chain < chains; ++chain) sums[i / 4][i % 4] += parts[i / 4][chain][i % 4];
        }
    }
};

// Inner layers: relu, then to the blocks of this side. The others hear only that it is done.
__device__ __forceinline__ void finish_inner(const Run& run, int cycle, int item, const int (&sums)[1][4]) {
    const int first = run.rank_of_side * own_groups + 2 * run.warp;  // group of rows
    const int groups = run.warp == inner_warps - 1 ? 1 : 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float value = fmaxf(0.0f, sums[0][i] * run.model.inner_scale);
        const int at = place_in(first + i / 2, 2 * run.quad + i % 2) + run.group;
        run.shared.made[run.warp][i / 2][at] = static_cast<unsigned char>(Int8::stored(value));
    }
    __syncwarp();
    for (int made = 0; made < groups; ++made) {
        run.send_group(run.shared.inner[cycle & 1][first + made], made, run.side * side_blocks, side_blocks, cycle);
    }
    if (run.lane < side_blocks) {
        const int to = (1 - run.side) * side_blocks + run.lane;
        send(run.there(window(&run.shared.heard[run.rank][run.warp]), to), cycle, run.there(run.barrier_of(cycle), to));
    }
    if (run.lane < groups * batch && item >= 0 && item < run.items) {
        unsigned char* inner = run.side ? run.model.inner[1] : run.model.inner[0];
        const int made = run.lane / batch, sequence = run.lane % batch;
        *reinterpret_cast<uint2*>(inner + (1ll * item * batch + sequence) * half_hidden + 8 * (first + made)) =
            *reinterpret_cast<const uint2*>(&run.shared.made[run.warp][made][place_in(first + made, sequence)]);
    }
    __syncwarp();
}

// Output layers: sums as they are. A row of them goes to all, in the sample's place.
__device__ __forceinline__ void finish_logits(const Run& run, int cycle, int item, const int (&sums)[logit_tiles][4]) {
    int* sample = reinterpret_cast<int*>(run.shared.made[run.warp][0]);
    if (run.group == 0) sample[2 * run.quad] = sums[0][0], sample[2 * run.quad + 1] = sums[0][1];
    __syncwarp();
    const int to = run.lane / 2, part = run.lane % 2;
    send(run.there(window(&run.shared.samples[cycle & 1][run.rank][4 * part]), to),
         reinterpret_cast<const uint4*>(sample)[part], run.there(run.barrier_of(cycle), to));
    if (item >= 0 && item < run.items) {
        int* logits = run.side ? run.model.logits[1] : run.model.logits[0];
        const int row = run.rank_of_side * 16 * logit_tiles + run.group;
#pragma unroll
        for (int i = 0; i < logit_tiles * 4; ++i) {
            logits[(1ll * item * batch + 2 * run.quad + i % 2) * classes + row + i / 2 * 8] = sums[i / 4][i % 4];
        }
    }
    __syncwarp();
}

__device__ __forceinline__ void stay_with_units(const Run& run, int cycles) {
    const int own = run.warp - first_unit_warp;
    Units units;
    units.load(run, own);
    int of_gates[4], of_candidates[4];
    for (int cycle = 0; cycle < cycles; ++cycle) {
        units.multiply(run, own, cycle, of_gates, of_candidates);
        if (cycle > 0 && !run.wait(cycle - 1)) return;
        if (run.warp == first_unit_warp && run.lane == 0) run.expect(cycle);
        units.finish(run, own, cycle, of_gates, of_candidates);
    }
    run.wait(cycles - 1);
}

template <int TILES, class Inputs, class Finish>
__device__ __forceinline__ void stay_with_rows(const Run& run, int cycles, int behind, Inputs inputs, Finish finish) {
    Rows<TILES> rows;
    rows.load(run);
    for (int cycle = 0; cycle < cycles; ++cycle) {
        if (cycle > 0 && !run.wait(cycle - 1)) return;
        int sums[TILES][4];
        rows.multiply(run, inputs(cycle), sums);
        finish(run, cycle, cycle - behind, sums);
    }
    run.wait(cycles - 1);
}

// The first five items' h, which no cycle makes.
__device__ __forceinline__ void load_first_state(const Model& model, Shared& shared) {
    for (int i = threadIdx.x; i < batches * batch * hidden_groups; i += threads) {
        const int group = i % hidden_groups, row = i / hidden_groups;
        *reinterpret_cast<uint2*>(&shared.state[(row / batch - batches) & (states - 1)][group][place_in(group, row % batch)]) =
            *reinterpret_cast<const uint2*>(model.state + row * hidden + 8 * group);
    }
}

// One cluster of 16 blocks does `items` items of 8 sequences.
extern "C" __global__ void __launch_bounds__(threads, 1) wavernn_one_cluster(
    const __grid_constant__ Model model, const __grid_constant__ Progress progress, int items, unsigned expected_bytes) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int rank = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Run run{model, shared, progress, items, expected_bytes, rank, rank / side_blocks, rank % side_blocks,
                  warp, lane, lane / 4, lane % 4};
    load_first_state(model, shared);
    if (threadIdx.x == 0) {
        mbarrier::init(window(&shared.barriers[0]), 1);
        mbarrier::init(window(&shared.barriers[1]), 1);
        mbarrier::fence_init();
    }
    __syncthreads();
    meet();
    const int cycles = items + batches - 1;
    const int behind = run.side ? 3 : 1;  // cycles that the inner layer is behind R
    if (warp < logit_warp) {
        const auto inputs = [&](int cycle) { return shared.state[(cycle - behind) & (states - 1)] + run.side * half_groups; };
        stay_with_rows<1>(run, cycles, behind, inputs, finish_inner);
    } else if (warp == logit_warp) {
        const auto inputs = [&](int cycle) { return shared.inner[(cycle - 1) & 1]; };
        stay_with_rows<logit_tiles>(run, cycles, behind + 1, inputs, finish_logits);
    } else {
        stay_with_units(run, cycles);
    }
    meet();
}
