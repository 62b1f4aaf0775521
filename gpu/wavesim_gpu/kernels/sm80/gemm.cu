// C (m, n) = activation(A (m, k) x B (k, n)), all row-major, fp16 or bf16 in and out, fp32 inside.
// Portable tensor cores, sm_80 and later: cp.async fills a ring of shared-memory stages, ldmatrix and
// mma.sync.m16n8k16 empty it. One output tile per block and split-K slice. m may be anything; n must be
// a multiple of 8 and k of TILE_K (gemm.py checks).
//
// As a consumer it waits for A only, chunk by chunk, inside the pipeline: one warp asks for the next
// semaphores at the top of a main-loop step and settles just before the barrier which that step has
// anyway. B is never held up. As a producer it posts after the tile's stores.

#include <generated.cuh>

#include <cusync/wait_schedule.cuh>
#include <kernels/sm80/tensor_core.cuh>

using Sync = cusync::Stage<generated::stage>;
using SyncParams = cusync::StageParams<generated::stage>;

struct GemmParams {
    const unsigned short* a;
    const unsigned short* b;
    unsigned short* c;
    float* partials;    // (tile, slice, TILE_M * TILE_N), in the order the threads hold them
    unsigned* tickets;  // one per tile: slices that are done
    int m, n, k;
};

// Byte offset of 16-byte chunk `chunk` in row `row` of a shared tile with ROW_BYTES a row. The chunk
// number is XORed with the row so that eight rows of one column fall into different banks.
template <int ROW_BYTES>
__device__ __forceinline__ int swizzled(int row, int chunk) {
    const int turn = ROW_BYTES == 64 ? (row >> 1) & 3 : row & 7;
    return row * ROW_BYTES + ((chunk ^ turn) << 4);
}

template <int TILE_M_, int TILE_N_, int TILE_K_, int WARPS_M_, int WARPS_N_, int STAGES_>
struct TileConfig {
    static constexpr int tile_m = TILE_M_, tile_n = TILE_N_, tile_k = TILE_K_, stages = STAGES_;
    static constexpr int warps_m = WARPS_M_, warps_n = WARPS_N_;
    static constexpr int threads = warps_m * warps_n * 32;
    static constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n;
    static constexpr int frags_m = warp_m / 16, frags_n = warp_n / 8, steps = tile_k / 16;
    static constexpr int a_bytes = tile_m * tile_k * 2, b_bytes = tile_k * tile_n * 2;
    static constexpr int stage_bytes = a_bytes + b_bytes;
    static constexpr int a_row = tile_k * 2, b_row = tile_n * 2, c_row = warp_n * 2;
    // Rows that one pass of all threads copies, and passes per chunk.
    static constexpr int a_step = threads / (tile_k / 8), a_passes = tile_m / a_step;
    static constexpr int b_step = threads / (tile_n / 8), b_passes = tile_k / b_step;
    static_assert(a_step % 8 == 0 && b_step % 8 == 0, "a thread's swizzle must not change between passes");
    static_assert(steps % 2 == 0 && frags_n % 2 == 0 && stages >= 3, "fragments are double-buffered");
    static_assert(warp_n <= 64 && (tile_k == 32 || tile_k == 64), "fragment offsets must stay inside the swizzle");
    static_assert(tile_m * tile_n * 2 <= stages * stage_bytes, "the output is staged where the ring was");
};

// Copies chunks of A and B from global to shared memory, pass by pass: one pass moves 16 bytes per thread. The two
// pointers step from pass to pass, and after a chunk's last pass stand at the next chunk's first.
template <class S>
class Loader {
public:
    // first_chunk: where this slice's K range starts.
    __device__ __forceinline__ Loader(const GemmParams& p, const cusync::Tile& tile, unsigned shared, int first_chunk) {
        const int a_row = threadIdx.x / (S::tile_k / 8), a_chunk = threadIdx.x % (S::tile_k / 8);
        const int b_row = threadIdx.x / (S::tile_n / 8), b_chunk = threadIdx.x % (S::tile_n / 8);
        const int row = tile.y * S::tile_m + a_row, column = tile.x * S::tile_n + b_chunk * 8;
        const long long k0 = static_cast<long long>(first_chunk) * S::tile_k;
        a_ = reinterpret_cast<const char*>(p.a + static_cast<long long>(row) * p.k + k0 + a_chunk * 8);
        b_ = reinterpret_cast<const char*>(p.b + (k0 + b_row) * p.n + column);
        a_pass_ = S::a_step * p.k * 2;
        b_pass_ = S::b_step * p.n * 2;
        rows_left_ = p.m - row;
        b_size_ = column < p.n ? 16 : 0;
        a_to_ = shared + swizzled<S::a_row>(a_row, a_chunk);
        b_to_ = shared + S::a_bytes + b_row * S::b_row + (((b_chunk & ~7) | ((b_chunk ^ b_row) & 7)) << 4);
    }

    // Rows past m are filled with zeros; their address is formed but never read. Passes in order.
    template <int PASS>
    __device__ __forceinline__ void load_a(int slot_offset) {
        const int size = PASS * S::a_step < rows_left_ ? 16 : 0;
        copy_async(a_to_ + slot_offset + PASS * S::a_step * S::a_row, a_, size);
        a_ += PASS < S::a_passes - 1 ? a_pass_ : S::tile_k * 2 - (S::a_passes - 1) * a_pass_;
    }

    template <int PASS>
    __device__ __forceinline__ void load_b(int slot_offset) {
        copy_async(b_to_ + slot_offset + PASS * S::b_step * S::b_row, b_, b_size_);
        b_ += b_pass_;
    }

    // Part `part` of `parts` of one chunk, so that the copies can be spread over a main-loop step.
    template <int PART, int PARTS>
    __device__ __forceinline__ void load_part(int slot_offset) {
        each<S::b_passes>([&](auto pass) {
            if constexpr (pass.value * PARTS / S::b_passes == PART) load_b<pass.value>(slot_offset);
        });
        each<S::a_passes>([&](auto pass) {
            if constexpr (pass.value * PARTS / S::a_passes == PART) load_a<pass.value>(slot_offset);
        });
    }

    __device__ __forceinline__ void all_of_a(int slot_offset) {
        each<S::a_passes>([&](auto pass) { load_a<pass.value>(slot_offset); });
    }

    __device__ __forceinline__ void all_of_b(int slot_offset) {
        each<S::b_passes>([&](auto pass) { load_b<pass.value>(slot_offset); });
    }

private:
    const char *a_, *b_;
    unsigned a_to_, b_to_;
    int a_pass_, b_pass_, rows_left_, b_size_;
};

// The warp's share of the tile: fragments of A and B for two k-steps, and the sums.
template <class S, bool IS_BF16>
struct WarpTile {
    unsigned a[2][S::frags_m][4];
    unsigned b[2][S::frags_n][2];
    float sum[S::frags_m][S::frags_n][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
            for (int j = 0; j < S::frags_n; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;
    }

    // Fragments of k-step STEP of the chunk in the slot at shared address `slot`. `a_lane` and `b_lane` are this
    // lane's offsets for step 0 and fragment 0: since the swizzle is an XOR, other steps of A and other fragments of B
    // are an XOR away, and all else is a constant offset.
    template <int HALF, int STEP>
    __device__ __forceinline__ void load(unsigned slot, unsigned a_lane, unsigned b_lane) {
        const unsigned a_from = slot + (a_lane ^ (STEP * 32));
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i) load_matrices(a[HALF][i], a_from + i * 16 * S::a_row);
#pragma unroll
        for (int j = 0; j < S::frags_n / 2; ++j) {
            unsigned pair[4];
            load_matrices_transposed(pair, slot + S::a_bytes + (b_lane ^ (j * 32)) + STEP * 16 * S::b_row);
            b[HALF][2 * j][0] = pair[0], b[HALF][2 * j][1] = pair[1];
            b[HALF][2 * j + 1][0] = pair[2], b[HALF][2 * j + 1][1] = pair[3];
        }
    }

    __device__ __forceinline__ void multiply(int half) {
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
            for (int j = 0; j < S::frags_n; ++j) {
                const int column = i & 1 ? S::frags_n - 1 - j : j;  // back and forth: neighbours share B
                multiply_accumulate<IS_BF16>(sum[i][column], a[half][i], b[half][column]);
            }
    }
};

// The sum over this block's chunks. Leaves all copies finished and the ring free.
template <class S, class Warp>
__device__ __forceinline__ void accumulate(
    Warp& warp, const Sync& stage, const GemmParams& p, const cusync::Tile& tile, unsigned shared, int first, int last) {
    // Option: B, which nobody has to be waited for, is loaded while the first semaphores are asked for.
    constexpr bool reorders_loads = generated::stage::reorders_loads;
    const int warp_index = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int a_row = (warp_index / S::warps_n) * S::warp_m + (lane & 15);
    const int b_chunk = (warp_index % S::warps_n) * S::warp_n / 8 + (lane >> 4);
    const unsigned a_lane = swizzled<S::a_row>(a_row, lane >> 4);
    const unsigned b_lane = (lane & 15) * S::b_row + (((b_chunk & ~7) | ((b_chunk ^ lane) & 7)) << 4);
    const bool is_waiter = warp_index == 0;
    Loader<S> loader(p, tile, shared, first);
    cusync::ScheduleWait<Sync> input(stage, tile);

    const int ahead = S::stages - 1, filled = min(ahead, last - first);
    // The chunks loaded here and the one that the first main-loop step loads: later ones are settled a step ahead.
    if (is_waiter) input.prefetch(first + ahead);
    if constexpr (reorders_loads) {
        for (int i = 0; i < filled; ++i) loader.all_of_b(i * S::stage_bytes);
    }
    if (is_waiter) input.wait(first + ahead);
    __syncthreads();  // hands the first warp's acquire of A's first chunks on to all threads
    for (int i = 0; i < ahead; ++i) {
        if (!reorders_loads && i < filled) loader.all_of_b(i * S::stage_bytes);
        if (i < filled) loader.all_of_a(i * S::stage_bytes);
        commit_copies();
    }
    wait_copies<S::stages - 2>();
    __syncthreads();

    warp.clear();
    warp.template load<0, 0>(shared, a_lane, b_lane);
    constexpr int ring = S::stages * S::stage_bytes;
    int read_offset = 0, write_offset = ahead * S::stage_bytes;
    for (int chunk = first; chunk < last; ++chunk) {
        const bool is_loading = chunk + ahead < last;
        each<S::steps>([&](auto step) {
            constexpr int s = step.value;
            if constexpr (s == (reorders_loads ? 0 : S::steps - 1)) {
                if (is_waiter) input.prefetch(chunk + S::stages);
            }
            if constexpr (s == S::steps - 1) {
                // Before the barrier which the ring needs anyway: what the next step will load of A.
                if (is_waiter && chunk + S::stages < last) input.wait(chunk + S::stages);
                wait_copies<S::stages - 2>();
                __syncthreads();
                read_offset = read_offset + S::stage_bytes == ring ? 0 : read_offset + S::stage_bytes;
            }
            warp.template load<(s + 1) % 2, (s + 1) % S::steps>(shared + read_offset, a_lane, b_lane);
            if constexpr (s < S::steps - 1) {
                if (is_loading) loader.template load_part<s, S::steps - 1>(write_offset);
            }
            if constexpr (s == S::steps - 2) {
                commit_copies();
                write_offset = write_offset + S::stage_bytes == ring ? 0 : write_offset + S::stage_bytes;
            }
            warp.multiply(s % 2);
        });
    }
    wait_copies<0>();
    __syncthreads();
}

// Adds up the slices of one tile in slice order, so that the result does not depend on which slice came
// last. Returns whether this block is the last and now holds the whole sum.
template <class S, class Warp>
__device__ __forceinline__ bool reduce_splits(Warp& warp, const GemmParams& p, const cusync::Tile& tile, int slices) {
    constexpr int quads = S::frags_m * S::frags_n;
    float4* const all = reinterpret_cast<float4*>(p.partials) +
                        static_cast<long long>(tile.linear) * slices * quads * S::threads + threadIdx.x;
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
    // And after its acquire: all threads may read the other slices' sums.
    __syncthreads();
    if (done_before != static_cast<unsigned>(slices - 1)) return false;
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        float* sum = warp.sum[q / S::frags_n][q % S::frags_n];
        float4 total = all[q * S::threads];
        for (int z = 1; z < slices; ++z) {
            const float4 part = all[(z * quads + q) * S::threads];
            total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
        }
        sum[0] = total.x, sum[1] = total.y, sum[2] = total.z, sum[3] = total.w;
    }
    return true;
}

// Rounds, stages each warp's part through its own piece of shared memory, and stores whole rows.
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
    const int chunks = p.k / S::tile_k, slices = sync.generated.slices;
    const int first = chunks * tile.z / slices, last = chunks * (tile.z + 1) / slices;

    WarpTile<S, IS_BF16> warp;
    accumulate<S>(warp, stage, p, tile, static_cast<unsigned>(__cvta_generic_to_shared(shared)), first, last);
    bool is_whole = true;
    if (slices > 1) is_whole = reduce_splits<S>(warp, p, tile, slices);
    if (is_whole) {
        stage.before_stores(tile, cusync::is_leader());
        store<S, IS_BF16, HAS_GELU>(warp, p, tile, shared);
    }
    stage.finish(tile, is_whole);
}
