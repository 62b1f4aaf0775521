// Adds up what the ranks have made of a matrix product's outputs, tile by tile as they arrive: fp32 sums in the order of
// the ranks, rounded once. So every rank and every run has the same bits. A few blocks beside the GEMM. sm_80 and later;
// n must be a multiple of 8.
//
// reduce_tiles: a tile at a time; the sums stay here (reduce-scatter, one-shot) or go to all ranks (two-shot).
// reduce_norm:  a few whole rows at a time; residual and RMSNorm besides, and both results go to all ranks.

#include <kernels/rows/rows.cuh>
#include <kernels/collective/semaphores.cuh>
#include <kernels/collective/sums.cuh>
#include <kernels/collective/tiles.cuh>

namespace peers {

struct ReduceParams {
    PeerParams peers;
    Tiles tiles;
    const uint4* staging;        // own: (parities, ranks, m, n)
    const unsigned* arrived;     // own: (ranks, all_units)
    const unsigned* own_finished;  // own: a word per tile, or group of rows, of the whole matrix
    uint4* out[max_ranks];       // by rank: (m, n), or what this rank owns of it
    unsigned* finished[max_ranks];  // by rank: its `own_finished`
    const int* order;            // tiles, or groups of rows, that this rank adds up, in the order in which they are made
    int unit_count, all_units;   // of `order`; tiles of the whole matrix
    int first_row;               // of the outputs that this rank keeps
    int sends;                   // the sums go to all ranks
    int finished_count;          // of `own_finished`; 0: nothing is waited for at the end
    cusync::TileRecord* records; // one per entry of `order`; unused unless WAVESIM_RECORD
};
static_assert(sizeof(ReduceParams) == 384, "layout.py packs 384 bytes");

struct NormReduceParams : ReduceParams {
    const uint4* residual;       // own: (m, n)
    const uint4* weight;         // (n,)
    uint4* normed[max_ranks];    // by rank: (m, n)
    int rows_at_once;            // rows of a unit, a divisor of tile_m
    float epsilon;
};
static_assert(sizeof(NormReduceParams) == 472, "layout.py packs 472 bytes");

// Where source 0's outputs of a row begin in this call's staging; each source's are `source_stride` further.
struct Staged {
    const uint4* first;
    long long source_stride;

    __device__ __forceinline__ Staged(const ReduceParams& p, unsigned epoch) {
        source_stride = static_cast<long long>(p.tiles.m) * (p.tiles.n / vector_elements);
        first = p.staging + parity_of(p.peers, epoch) * p.tiles.ranks * source_stride;
    }
};

// Until a unit's words of all sources have come; false for all threads of the block where one never does.
template <int RANKS>
__device__ __forceinline__ bool wait_for_sources(const ReduceParams& p, int first, int count, unsigned epoch) {
    bool is_there = true;
    for (int i = threadIdx.x; i < RANKS * count; i += blockDim.x) {
        const int source = i / count, unit = first + i % count;
        is_there = wait_for(p.peers, p.arrived + source * p.all_units + unit, epoch, {Fact::arrived, source, unit}) && is_there;
    }
    // Block barrier: hands every waiter's acquire, and what they found, on to all threads.
    return __syncthreads_and(is_there) != 0;
}

// Behind all threads' stores. What is not there is sent to nobody: others may still read what they got in the call before,
// and find out by themselves.
__device__ __forceinline__ void post_finished(const ReduceParams& p, int unit, unsigned epoch, bool is_there) {
    // Block barrier: all threads' stores, into whatever GPU's memory, come before the leader's release.
    __syncthreads();
    if (!p.sends || !is_there || !cusync::is_leader()) return;
    for (int r = 0; r < p.tiles.ranks; ++r) post(p.finished[r] + unit, epoch);
}

// What other ranks add up for this one. `poison` writes NaN where it never came.
template <class Poison>
__device__ __forceinline__ void wait_for_outputs(const ReduceParams& p, unsigned epoch, Poison&& poison) {
    for (int unit = blockIdx.x * blockDim.x + threadIdx.x; unit < p.finished_count; unit += gridDim.x * blockDim.x) {
        if (!wait_for(p.peers, p.own_finished + unit, epoch, {Fact::finished, -1, unit})) poison(unit);
    }
}

// All threads of the block, at its end.
__device__ __forceinline__ void end_block(const PeerParams& p, unsigned epoch) {
    __syncthreads();
    if (!cusync::is_leader()) return;
    // What follows this grid must find that the GEMM has ended too.
    cusync::wait_for_previous_grid();
    retire_block(p, epoch);
}

constexpr int reduce_threads = 512;
// On an SM: while one's stores travel to other GPUs, and its post waits for them, the other loads and adds.
constexpr int reduce_blocks_per_sm = 2;

// Vectors of a thread whose loads are issued before the first sum.
template <int RANKS>
constexpr int loads_ahead = RANKS > 4 ? 1 : 8 / RANKS;

template <int RANKS, bool IS_BF16>
__device__ __forceinline__ void reduce_tile(const ReduceParams& p, const Staged& staged, int unit, bool is_there) {
    if (!is_there && p.sends) return;  // nobody is told that it is finished, and wait_for_outputs poisons it
    constexpr int ahead = loads_ahead<RANKS>;
    const Tiles& tiles = p.tiles;
    const Extent tile(tiles, unit % tiles.columns, unit / tiles.columns);
    const long long width = tiles.n / vector_elements;
    const long long from = tile.row * width + tile.column, to = from - p.first_row * width;
    const int count = tile.rows * tile.vectors;
    for (int begin = threadIdx.x; begin < count; begin += ahead * reduce_threads) {
        uint4 values[ahead][RANKS];
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int at = begin + i * reduce_threads;
            const long long offset = at / tile.vectors * width + at % tile.vectors;
#pragma unroll
            for (int r = 0; r < RANKS; ++r) {
                if (at < count) values[i][r] = staged.first[r * staged.source_stride + from + offset];
            }
        }
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int at = begin + i * reduce_threads;
            if (at >= count) break;
            const long long offset = at / tile.vectors * width + at % tile.vectors;
            const uint4 sum = is_there ? add_ranks<RANKS, IS_BF16>(values[i]) : make_uint4(~0u, ~0u, ~0u, ~0u);
#pragma unroll
            for (int r = 0; r < RANKS; ++r) {
                if (p.sends || r == p.peers.rank) p.out[r][to + offset] = sum;
            }
        }
    }
}

}  // namespace peers

template <int RANKS, bool IS_BF16>
__global__ void __launch_bounds__(peers::reduce_threads, peers::reduce_blocks_per_sm)
reduce_tiles(const __grid_constant__ peers::ReduceParams p) {
    cusync::launch_dependents();
    const unsigned epoch = peers::epoch_of(p.peers);
    const peers::Staged staged(p, epoch);
    const cusync::TileRecorder<> recorder;
    for (int i = blockIdx.x; i < p.unit_count; i += gridDim.x) {
        if (cusync::is_leader()) recorder.begin(), recorder.begin_wait();
        const int unit = p.order[i];
        const bool is_there = peers::wait_for_sources<RANKS>(p, unit, 1, epoch);
        if (cusync::is_leader()) recorder.end_wait();
        peers::reduce_tile<RANKS, IS_BF16>(p, staged, unit, is_there);
        peers::post_finished(p, unit, epoch, is_there);
        if (cusync::is_leader()) recorder.end(p.records + i, 1, unit % p.tiles.columns, unit / p.tiles.columns, 0);
    }
    peers::wait_for_outputs(p, epoch, [&](int unit) {
        peers::poison_tile(p.tiles, p.out[p.peers.rank], unit % p.tiles.columns, unit / p.tiles.columns);
    });
    peers::end_block(p.peers, epoch);
}

// A unit is `rows_at_once` rows; all tiles of its row of tiles must have come. C: a RowConfig of reduce_threads threads.
template <class C, int RANKS, bool IS_BF16>
__global__ void __launch_bounds__(peers::reduce_threads, 1)
reduce_norm(const __grid_constant__ peers::NormReduceParams p) {
    static_assert(C::threads == peers::reduce_threads && C::threads_per_row == C::threads);
    cusync::launch_dependents();
    const unsigned epoch = peers::epoch_of(p.peers);
    const peers::Staged staged(p, epoch);
    const peers::Tiles& tiles = p.tiles;
    const int count = tiles.n / vector_elements, parts = tiles.tile_m / p.rows_at_once;
    uint4 weight[C::vectors];
    load_row<C>(weight, p.weight, count);
    RowReduction<C> row;
    const cusync::TileRecorder<> recorder;
    for (int i = blockIdx.x; i < p.unit_count; i += gridDim.x) {
        if (cusync::is_leader()) recorder.begin(), recorder.begin_wait();
        const int y = p.order[i] / parts, part = p.order[i] % parts;
        const bool is_there = peers::wait_for_sources<RANKS>(p, y * tiles.columns, tiles.columns, epoch);
        if (cusync::is_leader()) recorder.end_wait();
        const int first = part * p.rows_at_once, end = min(first + p.rows_at_once, tiles.m - y * tiles.tile_m);
        for (int r = first; is_there && r < end; ++r) {
            const long long to = (static_cast<long long>(y) * tiles.tile_m + r) * count;
            uint4 h[C::vectors], residual[C::vectors];
            load_row<C>(residual, p.residual + to, count);
#pragma unroll
            for (int v = 0; v < C::vectors; ++v) {
                const int at = v * C::threads + static_cast<int>(threadIdx.x);
                uint4 of_rank[RANKS];
#pragma unroll
                for (int s = 0; s < RANKS; ++s) {
                    of_rank[s] = at < count ? staged.first[s * staged.source_stride + to + at] : make_uint4(0, 0, 0, 0);
                }
                // Rounded as the all-reduce alone would be, then added to the residual and rounded again.
                const uint4 both[2] = {peers::add_ranks<RANKS, IS_BF16>(of_rank), residual[v]};
                h[v] = peers::add_ranks<2, IS_BF16>(both);
            }
            float squares = 0.0f;
#pragma unroll
            for (int v = 0; v < C::vectors; ++v) {
                float values[vector_elements];
                unpack_vector<IS_BF16>(h[v], values);  // zeros past the row's end
#pragma unroll
                for (int j = 0; j < vector_elements; ++j) squares += values[j] * values[j];
            }
            const float factor = rsqrtf(row.template reduce<Sum>(squares) / static_cast<float>(tiles.n) + p.epsilon);
            for (int d = 0; d < RANKS; ++d) store_row<C>(p.out[d] + to, h, count);
#pragma unroll
            for (int v = 0; v < C::vectors; ++v) {
                float values[vector_elements], weights[vector_elements];
                unpack_vector<IS_BF16>(h[v], values), unpack_vector<IS_BF16>(weight[v], weights);
#pragma unroll
                for (int j = 0; j < vector_elements; ++j) values[j] = values[j] * factor * weights[j];
                h[v] = pack_vector<IS_BF16>(values);
            }
            for (int d = 0; d < RANKS; ++d) store_row<C>(p.normed[d] + to, h, count);
        }
        peers::post_finished(p, y * parts + part, epoch, is_there);
        if (cusync::is_leader()) recorder.end(p.records + i, 1, part, y, 0);
    }
    // What follows in the stream reads all rows; the GEMM that runs beside waits for them by itself.
    peers::wait_for_outputs(p, epoch, [&](int unit) {
        for (int x = 0; x < tiles.columns; ++x) {
            peers::poison_tile(tiles, p.out[p.peers.rank], x, unit / parts), peers::poison_tile(tiles, p.normed[p.peers.rank], x, unit / parts);
        }
    });
    peers::end_block(p.peers, epoch);
}
