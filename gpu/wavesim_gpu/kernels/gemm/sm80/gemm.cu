// C (m, n) = activation(A (m, k) x B (k, n)), all row-major, fp16 or bf16 in and out, fp32 inside.
// Portable tensor cores, sm_80 and later: cp.async fills a pipeline in shared memory, ldmatrix and
// mma.sync.m16n8k16 empty it. One output tile per block, or one split of it. m may be anything; n must be
// a multiple of 8 and k of TILE_K (gemm.py checks).
//
// As a consumer it waits for A only, k-block by k-block, inside the pipeline: one warp prefetches the next
// semaphores at the top of a main-loop step and waits just before the barrier which that step has
// anyway. B is never held up. As a producer it posts after the tile's stores. A tile whose wait ran out of time is NaN.

#include <generated.cuh>

#include <cusync/wait_schedule.cuh>
#include <kernels/gemm/sm80/tensor_core.cuh>
#include <kernels/gemm/sm80/tile_config.cuh>
#include <kernels/gemm/sm80/tile_loader.cuh>
#include <kernels/gemm/sm80/warp_tile.cuh>

using Sync = cusync::Stage<generated::stage>;
using SyncParams = cusync::StageParams<generated::stage>;

// The sum over this block's k-blocks, NaN where a wait was aborted. Leaves all copies finished and the pipeline free.
template <class S, class Warp>
__device__ __forceinline__ void accumulate(
    Warp& warp, const Sync& stage, const GemmParams& p, const cusync::Tile& tile, unsigned shared, int first, int last) {
    // Option: B, which waits for nobody, is loaded while the first semaphores are polled.
    constexpr bool reorders_loads = generated::stage::reorders_loads;
    const int warp_index = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int a_row = (warp_index / S::warps_n) * S::warp_m + (lane & 15);
    const int b_chunk = (warp_index % S::warps_n) * S::warp_n / 8 + (lane >> 4);
    const unsigned a_lane = swizzled<S::a_row>(a_row, lane >> 4);
    const unsigned b_lane = (lane & 15) * S::b_row + (((b_chunk & ~7) | ((b_chunk ^ lane) & 7)) << 4);
    const bool is_waiter = warp_index == 0;
    TileLoader<S> loader(p, tile, shared, first);
    cusync::ScheduleWait<Sync> input(stage, tile);

    const int ahead = S::pipeline_depth - 1, filled = min(ahead, last - first);
    // The k-blocks loaded here and the one that the first main-loop step loads: later ones are waited for a step ahead.
    if (is_waiter) input.prefetch(first + ahead);
    if constexpr (reorders_loads) {
        for (int i = 0; i < filled; ++i) loader.all_of_b(i * S::slot_bytes);
    }
    if (is_waiter) input.wait(first + ahead);
    __syncthreads();  // hands the first warp's acquire of A's first k-blocks on to all threads
    for (int i = 0; i < ahead; ++i) {
        if (!reorders_loads && i < filled) loader.all_of_b(i * S::slot_bytes);
        if (i < filled) loader.all_of_a(i * S::slot_bytes);
        commit_copies();
    }
    wait_copies<S::pipeline_depth - 2>();
    __syncthreads();

    warp.fill(0.0f);
    warp.template load<0, 0>(shared, a_lane, b_lane);
    constexpr int ring = S::pipeline_depth * S::slot_bytes;
    int read_offset = 0, write_offset = ahead * S::slot_bytes;
    for (int k_block = first; k_block < last; ++k_block) {
        const bool is_loading = k_block + ahead < last;
        each<S::steps>([&](auto step) {
            constexpr int s = step.value;
            if constexpr (s == (reorders_loads ? 0 : S::steps - 1)) {
                if (is_waiter) input.prefetch(k_block + S::pipeline_depth);
            }
            if constexpr (s == S::steps - 1) {
                // Before the barrier which the ring needs anyway: what the next step will load of A.
                if (is_waiter && k_block + S::pipeline_depth < last) input.wait(k_block + S::pipeline_depth);
                wait_copies<S::pipeline_depth - 2>();
                __syncthreads();
                read_offset = read_offset + S::slot_bytes == ring ? 0 : read_offset + S::slot_bytes;
            }
            warp.template load<(s + 1) % 2, (s + 1) % S::steps>(shared + read_offset, a_lane, b_lane);
            if constexpr (s < S::steps - 1) {
                if (is_loading) loader.template load_part<s, S::steps - 1>(write_offset);
            }
            if constexpr (s == S::steps - 2) {
                commit_copies();
                write_offset = write_offset + S::slot_bytes == ring ? 0 : write_offset + S::slot_bytes;
            }
            warp.multiply(s % 2);
        });
    }
    wait_copies<0>();
    if constexpr (generated::stage::input_count > 0) {
        // The barrier that the pipeline needs anyway tells all threads what the first warp knows.
        if (__syncthreads_or(is_waiter && input.is_aborted())) warp.fill(not_a_number());
    } else {
        __syncthreads();
    }
}

// Adds up the splits of one tile in their order, so that the result does not depend on which came last. Returns whether
// this block is the last and now holds the whole sum.
template <class S, class Warp>
__device__ __forceinline__ bool reduce_splits(Warp& warp, const GemmParams& p, const cusync::Tile& tile, int splits) {
    constexpr int quads = S::frags_m * S::frags_n;
    float4* const all = reinterpret_cast<float4*>(p.partials) +
                        static_cast<long long>(tile.linear) * splits * quads * S::threads + threadIdx.x;
    float4* const mine = all + tile.z * quads * S::threads;
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        const float* sum = warp.sum[q / S::frags_n][q % S::frags_n];
        mine[q * S::threads] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    __shared__ unsigned done_before;
    // Block barrier before the ticket's release: it publishes all threads' partial sums.
    __syncthreads();
    if (cusync::is_leader()) done_before = cusync::fetch_add_acq_rel(p.tickets + tile.linear, 1);
    // And after its acquire: all threads may read the other splits' sums.
    __syncthreads();
    if (done_before != static_cast<unsigned>(splits - 1)) return false;
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        float* sum = warp.sum[q / S::frags_n][q % S::frags_n];
        float4 total = all[q * S::threads];
        for (int z = 1; z < splits; ++z) {
            const float4 part = all[(z * quads + q) * S::threads];
            total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
        }
        sum[0] = total.x, sum[1] = total.y, sum[2] = total.z, sum[3] = total.w;
    }
    return true;
}

// Rounds, passes each warp's part through its own piece of shared memory, and stores whole rows.
template <class S, bool IS_BF16, bool HAS_GELU, class Warp>
__device__ __forceinline__ void store(Warp& warp, const GemmParams& p, const cusync::Tile& tile, unsigned char* shared) {
    const int warp_index = threadIdx.x / 32, lane = threadIdx.x & 31;
    unsigned char* const piece = shared + warp_index * S::warp_m * S::c_row;
#pragma unroll
    for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
        for (int j = 0; j < S::frags_n; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float low = warp.sum[i][j][half * 2], high = warp.sum[i][j][half * 2 + 1];
                if constexpr (HAS_GELU) low = gelu(low), high = gelu(high);
                const int row = i * 16 + half * 8 + lane / 4;
                *reinterpret_cast<unsigned*>(piece + swizzled<S::c_row>(row, j) + (lane & 3) * 4) =
                    pack<IS_BF16>(low, high);
            }
    __syncwarp();
    constexpr int chunks = S::c_row / 16, rows_per_pass = 32 / chunks;
    const int chunk = lane % chunks;
    const int column = tile.x * S::tile_n + (warp_index % S::warps_n) * S::warp_n + chunk * 8;
    const int top = tile.y * S::tile_m + (warp_index / S::warps_n) * S::warp_m;
#pragma unroll
    for (int pass = 0; pass < S::warp_m / rows_per_pass; ++pass) {
        const int row = pass * rows_per_pass + lane / chunks;
        if (top + row >= p.m || column >= p.n) continue;
        *reinterpret_cast<uint4*>(p.c + static_cast<long long>(top + row) * p.n + column) =
            *reinterpret_cast<const uint4*>(piece + swizzled<S::c_row>(row, chunk));
    }
}

template <class S, int MIN_BLOCKS, bool IS_BF16, bool HAS_GELU>
__global__ void __launch_bounds__(S::threads, MIN_BLOCKS)
    gemm(const __grid_constant__ SyncParams sync, const __grid_constant__ GemmParams p) {
    extern __shared__ __align__(128) unsigned char shared[];
    Sync stage(sync);
    const cusync::Tile tile = stage.begin();
    const int k_blocks = p.k / S::tile_k, splits = sync.generated.slices;
    const int first = k_blocks * tile.z / splits, last = k_blocks * (tile.z + 1) / splits;

    WarpTile<S, IS_BF16> warp;
    accumulate<S>(warp, stage, p, tile, static_cast<unsigned>(__cvta_generic_to_shared(shared)), first, last);
    bool is_whole = true;
    if (splits > 1) is_whole = reduce_splits<S>(warp, p, tile, splits);
    if (is_whole) {
        stage.before_stores(tile, cusync::is_leader());
        store<S, IS_BF16, HAS_GELU>(warp, p, tile, shared);
    }
    stage.finish(tile, is_whole);
}
