// The two products of attention by five kernels, a head of a sequence at a time, fp16 or bf16 in and out, fp32 inside:
//
//     scores:   out (length, keys)     = scale * A (length, head_dim) x B^T, B (keys, head_dim)
//     context:  out (length, head_dim) = scale * A (length, keys) x B,       B (keys, head_dim)
//
// Heads lie side by side in the columns of a matrix, sequences one after the other in its rows. Tile (x, y): x counts
// heads and their blocks of columns; y blocks of query rows, through all sequences. sm_80 and later;
// head_dim and keys must be multiples of 8 (head_product.py checks). What a causal mask would hide is computed too.
//
// B's rows are the run's own keys; with a cache, those of earlier steps lie there, and tiles of a sequence's last
// rows store the run's own behind them. A and B are both waited for, k-block by k-block: by one warp, ahead of the loads.

#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/previous_grid.cuh>
#include <cusync/tile_stage.cuh>
#include <kernels/gemm/sm80/tensor_core.cuh>
#include <kernels/gemm/sm80/tile_config.cuh>
#include <kernels/gemm/sm80/warp_tile.cuh>

enum class Product { scores, context };

// Rows of heads: a matrix of its own, columns of a wider one, or a cache.
struct HeadRows {
    unsigned short* data;     // its first head
    long long row, sequence;  // elements from row to row, and from one sequence's first row to the next's

    __device__ __forceinline__ unsigned short* at(int sequence_index, int row_index, int column) const {
        return data + sequence_index * sequence + row_index * row + column;
    }
};

struct HeadProductParams {
    HeadRows a, b, cache, out;
    int length, keys, cached;  // queries, keys with the cached ones, and cached keys, of a sequence
    int head_dim, group;       // columns of a head of B; heads that share a KV head
    int row_blocks, column_blocks;  // tiles of a head of a sequence: down, and across
    int has_cache, is_dependent;
    float scale;
};
static_assert(sizeof(HeadProductParams) == 136, "head_product.py packs 136 bytes");

// What a block computes, and where its operands are.
template <class S, Product PRODUCT>
struct HeadTile {
    int sequence, head, kv_head, top, left;  // query rows of the sequence and columns of the head's product, from here on
    int k, n;                                // of the head's product

    __device__ __forceinline__ HeadTile(const HeadProductParams& p, const cusync::Tile& tile)
        : sequence(tile.y / p.row_blocks), head(tile.x / p.column_blocks), kv_head(head / p.group),
          top((tile.y - sequence * p.row_blocks) * S::tile_m), left((tile.x - head * p.column_blocks) * S::tile_n),
          k(PRODUCT == Product::scores ? p.head_dim : p.keys), n(PRODUCT == Product::scores ? p.keys : p.head_dim) {}

    // Eight elements of row `key` of the head's B.
    __device__ __forceinline__ const unsigned short* key_row(const HeadProductParams& p, int key, int column) const {
        const int at = kv_head * p.head_dim + column;
        return key < p.cached ? p.cache.at(sequence, key, at) : p.b.at(sequence, key - p.cached, at);
    }
};

// Copies k-blocks of A and B to shared memory, 16 bytes per thread and pass. What lies outside is zero.
template <class S, Product PRODUCT>
__device__ __forceinline__ void load_k_block(
    const HeadProductParams& p, const HeadTile<S, PRODUCT>& mine, unsigned slot, int k_block) {
    const int k0 = k_block * S::tile_k, row = threadIdx.x / (S::tile_k / 8), chunk = threadIdx.x % (S::tile_k / 8);
    const int column = k0 + chunk * 8;
#pragma unroll
    for (int pass = 0; pass < S::a_passes; ++pass) {
        const int there = row + pass * S::a_step, query = mine.top + there;
        const bool is_inside = query < p.length && column < mine.k;
        copy_async(slot + swizzled<S::a_row>(there, chunk), p.a.at(mine.sequence, query, mine.head * mine.k + column),
                   is_inside ? 16 : 0);
    }
    const unsigned b_slot = slot + S::a_bytes;
    if constexpr (PRODUCT == Product::scores) {
        // Keys are columns of the product: B^T is stored as A is, a row of k for each.
#pragma unroll
        for (int pass = 0; pass < S::tile_n / S::a_step; ++pass) {
            const int there = row + pass * S::a_step, key = mine.left + there;
            copy_async(b_slot + swizzled<S::a_row>(there, chunk), mine.key_row(p, key, column),
                       key < p.keys && column < mine.k ? 16 : 0);
        }
    } else {
        const int b_row = threadIdx.x / (S::tile_n / 8), b_chunk = threadIdx.x % (S::tile_n / 8);
#pragma unroll
        for (int pass = 0; pass < S::b_passes; ++pass) {
            const int there = b_row + pass * S::b_step, key = k0 + there, n = mine.left + b_chunk * 8;
            copy_async(b_slot + there * S::b_row + (((b_chunk & ~7) | ((b_chunk ^ there) & 7)) << 4),
                       mine.key_row(p, key, n), key < p.keys && n < mine.n ? 16 : 0);
        }
    }
}

// A warp's share of the tile, with fragments of a B that is stored by columns too.
template <class S, Product PRODUCT, bool IS_BF16>
struct HeadWarp : WarpTile<S, IS_BF16> {
    unsigned a_lane, b_lane;  // this lane's offsets for step 0 and fragment 0, as WarpTile::load has them

    __device__ __forceinline__ HeadWarp() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
        a_lane = swizzled<S::a_row>((warp / S::warps_n) * S::warp_m + (lane & 15), lane >> 4);
        const int n = (warp % S::warps_n) * S::warp_n;
        if constexpr (PRODUCT == Product::scores) {
            b_lane = swizzled<S::a_row>(n + (lane & 7) + (lane >> 4) * 8, (lane >> 3) & 1);
        } else {
            const int chunk = n / 8 + (lane >> 4);
            b_lane = (lane & 15) * S::b_row + (((chunk & ~7) | ((chunk ^ lane) & 7)) << 4);
        }
    }

    template <int HALF, int STEP>
    __device__ __forceinline__ void load_step(unsigned slot) {
        if constexpr (PRODUCT == Product::context) {
            this->template load<HALF, STEP>(slot, a_lane, b_lane);
        } else {
#pragma unroll
            for (int i = 0; i < S::frags_m; ++i)
                load_matrices(this->a[HALF][i], slot + (a_lane ^ (STEP * 32)) + i * 16 * S::a_row);
#pragma unroll
            for (int j = 0; j < S::frags_n / 2; ++j) {
                unsigned pair[4];
                load_matrices(pair, slot + S::a_bytes + (b_lane ^ (STEP * 32)) + j * 16 * S::a_row);
                this->b[HALF][2 * j][0] = pair[0], this->b[HALF][2 * j][1] = pair[1];
                this->b[HALF][2 * j + 1][0] = pair[2], this->b[HALF][2 * j + 1][1] = pair[3];
            }
        }
    }
};

// The tile's sums, NaN where a wait was aborted. Leaves all copies finished and the pipeline free. Returns whether all
// that was awaited came.
template <class S, Product PRODUCT, class Warp, class Stage>
__device__ __forceinline__ bool accumulate(
    Warp& warp, const Stage& stage, const cusync::Tile& tile, const HeadProductParams& p,
    const HeadTile<S, PRODUCT>& mine, unsigned shared) {
    constexpr int ahead = S::pipeline_depth - 1;
    const int k_blocks = (mine.k + S::tile_k - 1) / S::tile_k;
    const bool is_waiter = threadIdx.x < 32;
    cusync::ScheduleWait<Stage> inputs(stage, tile);
    const auto slot_of = [&](int k_block) { return shared + k_block % S::pipeline_depth * S::slot_bytes; };

    if (is_waiter) {
        inputs.prefetch(ahead - 1);
        inputs.wait(ahead - 1);
    }
    __syncthreads();  // hands the first warp's acquire of the first k-blocks on to all threads
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        if (i < k_blocks) load_k_block<S>(p, mine, slot_of(i), i);
        commit_copies();
    }
    warp.fill(0.0f);
    for (int k_block = 0; k_block < k_blocks; ++k_block) {
        const int next = k_block + ahead;
        if (is_waiter && next < k_blocks) {
            inputs.prefetch(next);
            inputs.wait(next);
        }
        wait_copies<ahead - 1>();
        // This k-block is in shared memory, the one before is used up, and what the next loads need is there.
        __syncthreads();
        if (next < k_blocks) load_k_block<S>(p, mine, slot_of(next), next);
        commit_copies();
        const unsigned slot = slot_of(k_block);
        warp.template load_step<0, 0>(slot);
        each<S::steps>([&](auto step) {
            constexpr int s = step.value;
            if constexpr (s + 1 < S::steps) warp.template load_step<(s + 1) % 2, s + 1>(slot);
            warp.multiply(s % 2);
        });
    }
    wait_copies<0>();
    const bool is_there = !__syncthreads_or(is_waiter && inputs.is_aborted());
    if (!is_there) warp.fill(not_a_number());
    return is_there;
}

// Rounds, passes each warp's part through its own piece of shared memory, and stores whole rows.
template <class S, Product PRODUCT, bool IS_BF16, class Warp>
__device__ __forceinline__ void store(
    Warp& warp, const HeadProductParams& p, const HeadTile<S, PRODUCT>& mine, unsigned char* shared) {
    const int warp_index = threadIdx.x / 32, lane = threadIdx.x & 31;
    unsigned char* const piece = shared + warp_index * S::warp_m * S::c_row;
#pragma unroll
    for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
        for (int j = 0; j < S::frags_n; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = i * 16 + half * 8 + lane / 4;
                *reinterpret_cast<unsigned*>(piece + swizzled<S::c_row>(row, j) + (lane & 3) * 4) = pack<IS_BF16>(
                    p.scale * warp.sum[i][j][half * 2], p.scale * warp.sum[i][j][half * 2 + 1]);
            }
    __syncwarp();
    constexpr int chunks = S::c_row / 16, rows_per_pass = 32 / chunks;
    const int chunk = lane % chunks;
    const int column = mine.left + (warp_index % S::warps_n) * S::warp_n + chunk * 8;
    const int top = mine.top + (warp_index / S::warps_n) * S::warp_m;
#pragma unroll
    for (int pass = 0; pass < S::warp_m / rows_per_pass; ++pass) {
        const int row = pass * rows_per_pass + lane / chunks;
        if (top + row >= p.length || column >= mine.n) continue;
        *reinterpret_cast<uint4*>(p.out.at(mine.sequence, top + row, mine.head * mine.n + column)) =
            *reinterpret_cast<const uint4*>(piece + swizzled<S::c_row>(row, chunk));
    }
}

// The run's own keys into the cache: by tiles of a sequence's last query rows, of one head of a group.
template <class S, Product PRODUCT>
__device__ __forceinline__ void append(const HeadProductParams& p, const HeadTile<S, PRODUCT>& mine, bool is_there) {
    constexpr bool is_scores = PRODUCT == Product::scores;
    if (!p.has_cache || mine.top + S::tile_m < p.length || mine.head % p.group != 0) return;
    if (!is_scores && mine.left > 0) return;
    const int first = max(p.cached, is_scores ? mine.left : 0);
    const int end = is_scores ? min(p.keys, mine.left + S::tile_n) : p.keys;
    const int chunks = p.head_dim / 8;
    for (int i = threadIdx.x; i < (end - first) * chunks; i += S::threads) {
        const int key = first + i / chunks, column = mine.kv_head * p.head_dim + i % chunks * 8;
        *reinterpret_cast<uint4*>(p.cache.at(mine.sequence, key, column)) =
            is_there ? *reinterpret_cast<const uint4*>(p.b.at(mine.sequence, key - p.cached, column))
                     : make_uint4(~0u, ~0u, ~0u, ~0u);  // NaN in fp16 and in bf16
    }
}

// `Generated`: the stage's struct in the generated header.
template <class S, int MIN_BLOCKS, Product PRODUCT, bool IS_BF16, class Generated>
__global__ void __launch_bounds__(S::threads, MIN_BLOCKS) head_product(
    const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ HeadProductParams p) {
    extern __shared__ __align__(128) unsigned char shared[];
    cusync::launch_dependents();
    cusync::TileStage<Generated> stage(sync);
    const cusync::Tile tile = stage.begin();
    const HeadTile<S, PRODUCT> mine(p, tile);
    if (p.is_dependent && Generated::input_count == 0) cusync::wait_for_previous_grid();

    HeadWarp<S, PRODUCT, IS_BF16> warp;
    const bool is_there =
        accumulate<S>(warp, stage, tile, p, mine, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
    stage.before_stores(tile, cusync::is_leader());
    store<S, PRODUCT, IS_BF16>(warp, p, mine, shared);
    append<S>(p, mine, is_there);
    // Block barrier: all threads' stores come before the leader's release.
    __syncthreads();
    if (!cusync::is_leader()) return;
    if constexpr (cusync::mutant != cusync::Mutant::early_post) stage.post(tile);
    stage.record_end(tile);
    // With semaphores nothing else waits for the grid before.
    cusync::end_after_previous_grid();
    cusync::retire_block(sync.sync);
}
