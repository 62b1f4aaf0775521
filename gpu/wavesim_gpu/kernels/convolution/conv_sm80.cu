// C (pixels, filters) = relu(convolution of images A (images, height, width, channels) + bias + residual), fp16 or bf16 in
// and out, fp32 inside; the filters are (filters, taps, channels). An implicit GEMM on portable tensor cores, sm_80 and
// later: its rows are output pixels, its k-blocks what one filter tap reads of TILE_K channels (im2col.cuh). cp.async
// gathers them, 16 bytes of a pixel at a time; what lies in the padding, past the channels or past the last image is zero.
//
// As a consumer it waits for A k-block by k-block, so tap by tap, by one warp ahead of the loads. As a producer it posts
// after the tile's stores. A tile whose wait ran out of time is NaN.

#include <generated.cuh>

#include <cusync/tile_stage.cuh>
#include <kernels/convolution/im2col.cuh>
#include <kernels/gemm/sm80/tensor_core.cuh>
#include <kernels/gemm/sm80/tile_config.cuh>
#include <kernels/gemm/sm80/warp_tile.cuh>

struct ConvSm80Params {
    const unsigned short* a;  // a pixel's channels, a_stride elements from one pixel to the next
    const unsigned short* b;
    const unsigned short* bias;      // null: none
    const unsigned short* residual;  // as C; null: none
    unsigned short* c;
    float* partials;    // (tile, split, TILE_M * TILE_N), in the order the threads hold them
    unsigned* tickets;  // one per tile: splits that are done
    long long a_stride, b_stride, c_stride, residual_stride;
    Im2col im2col;
    int images, height, width, channels;
    int taps, outputs, filters, has_relu;
};
static_assert(sizeof(ConvSm80Params) == 160, "conv_sm80.py packs 160 bytes");

// Copies k-blocks of pixels and of filters to shared memory: a pass of all threads moves 16 bytes each. The pixels that a
// thread's rows begin at stay the same for all taps.
template <class S>
class ConvLoader {
public:
    __device__ __forceinline__ ConvLoader(const ConvSm80Params& p, const cusync::Tile& tile)
        : p_(p), row_(threadIdx.x / (S::tile_k / 8)), chunk_(threadIdx.x % (S::tile_k / 8)),
          first_filter_(tile.x * S::tile_n) {
#pragma unroll
        for (int pass = 0; pass < S::a_passes; ++pass) {
            const int output = tile.y * S::tile_m + row_ + pass * S::a_step;
            // Past the last image: a row that no tap reaches.
            pixels_[pass] = output < p.outputs ? pixel_of(p.im2col, output) : Pixel{0, -0x10000, 0};
        }
    }

    __device__ __forceinline__ void load(unsigned slot, int k_block) const {
        const Tap tap = tap_of(p_.im2col, k_block);
        const int channel = tap.channel_block * S::tile_k + chunk_ * 8;
        const bool has_channel = channel < p_.channels;
#pragma unroll
        for (int pass = 0; pass < S::a_passes; ++pass) {
            const int there = row_ + pass * S::a_step;
            const int h = pixels_[pass].row + tap.row, w = pixels_[pass].column + tap.column;
            const bool is_inside = has_channel && static_cast<unsigned>(h) < static_cast<unsigned>(p_.height) &&
                                   static_cast<unsigned>(w) < static_cast<unsigned>(p_.width);
            const long long pixel = (static_cast<long long>(pixels_[pass].image) * p_.height + h) * p_.width + w;
            const unsigned short* const from = is_inside ? p_.a + pixel * p_.a_stride + channel : p_.a;
            copy_async(slot + swizzled<S::a_row>(there, chunk_), from, is_inside ? 16 : 0);
        }
#pragma unroll
        for (int pass = 0; pass < S::tile_n / S::a_step; ++pass) {
            const int there = row_ + pass * S::a_step, filter = first_filter_ + there;
            const bool is_inside = has_channel && filter < p_.filters;
            const long long at = filter * p_.b_stride + static_cast<long long>(tap.number) * p_.channels + channel;
            copy_async(slot + S::a_bytes + swizzled<S::a_row>(there, chunk_), is_inside ? p_.b + at : p_.b,
                       is_inside ? 16 : 0);
        }
    }

private:
    static_assert(S::tile_n % S::a_step == 0, "filters are copied in whole passes");
    const ConvSm80Params& p_;
    const int row_, chunk_, first_filter_;
    Pixel pixels_[S::a_passes];
};

// A warp's share of the tile. B is stored as A is: a row of k for each filter.
template <class S, bool IS_BF16>
struct ConvWarp : WarpTile<S, IS_BF16> {
    unsigned a_lane, b_lane;  // this lane's offsets for step 0 and fragment 0

    __device__ __forceinline__ ConvWarp() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
        a_lane = swizzled<S::a_row>((warp / S::warps_n) * S::warp_m + (lane & 15), lane >> 4);
        b_lane = swizzled<S::a_row>((warp % S::warps_n) * S::warp_n + (lane & 7) + (lane >> 4) * 8, (lane >> 3) & 1);
    }

    template <int HALF, int STEP>
    __device__ __forceinline__ void load_step(unsigned slot) {
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
};

// The sum over k-blocks `first` up to, not including, `last`; NaN where a wait was aborted. Leaves all copies finished and
// the pipeline free.
template <class S, class Warp, class Stage>
__device__ __forceinline__ void accumulate(
    Warp& warp, const Stage& stage, const ConvSm80Params& p, const cusync::Tile& tile, unsigned shared, int first, int last) {
    constexpr int ahead = S::pipeline_depth - 1;
    const bool is_waiter = threadIdx.x < 32;
    cusync::ScheduleWait<Stage> input(stage, tile);
    const ConvLoader<S> loader(p, tile);
    const auto slot_of = [&](int k_block) { return shared + (k_block - first) % S::pipeline_depth * S::slot_bytes; };

    if (is_waiter) {
        input.prefetch(first + ahead - 1);
        input.wait(first + ahead - 1);
    }
    __syncthreads();  // hands the first warp's acquire of the first k-blocks on to all threads
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        if (first + i < last) loader.load(slot_of(first + i), first + i);
        commit_copies();
    }
    warp.fill(0.0f);
    for (int k_block = first; k_block < last; ++k_block) {
        const int next = k_block + ahead;
        if (is_waiter && next < last) {
            input.prefetch(next);
            input.wait(next);
        }
        wait_copies<ahead - 1>();
        // This k-block is in shared memory, the one before is used up, and what the next loads need is there.
        __syncthreads();
        if (next < last) loader.load(slot_of(next), next);
        commit_copies();
        const unsigned slot = slot_of(k_block);
        warp.template load_step<0, 0>(slot);
        each<S::steps>([&](auto step) {
            constexpr int s = step.value;
            if constexpr (s + 1 < S::steps) warp.template load_step<(s + 1) % 2, s + 1>(slot);
            warp.multiply(s % 2);
        });
    }
    // The residual's semaphores too, which the last k-block waits for.
    wait_copies<0>();
    if (__syncthreads_or(is_waiter && input.is_aborted())) warp.fill(not_a_number());
}

// Adds up the splits of one tile in their order, so that the result does not depend on which came last. Returns whether
// this block is the last and now holds the whole sum.
template <class S, class Warp>
__device__ __forceinline__ bool reduce_splits(Warp& warp, const ConvSm80Params& p, const cusync::Tile& tile, int splits) {
    constexpr int quads = S::frags_m * S::frags_n;
    float4* const all = reinterpret_cast<float4*>(p.partials) +
                        static_cast<long long>(tile.linear) * splits * quads * S::threads + threadIdx.x;
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        const float* sum = warp.sum[q / S::frags_n][q % S::frags_n];
        all[(tile.z * quads + q) * S::threads] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    __shared__ unsigned done_before;
    // Block barrier before the ticket's release: it publishes all threads' partial sums.
    __syncthreads();
    if (cusync::is_leader()) done_before = cusync::fetch_add_acq_rel(p.tickets + tile.linear, 1);
    // And after its acquire: all threads may read the other splits' sums.
    __syncthreads();
    if (done_before != static_cast<unsigned>(splits - 1)) return false;
    warp.fill(0.0f);
    for (int z = 0; z < splits; ++z) {
#pragma unroll
        for (int q = 0; q < quads; ++q) {
            float* const sum = warp.sum[q / S::frags_n][q % S::frags_n];
            const float4 part = all[(z * quads + q) * S::threads];
            sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
        }
    }
    return true;
}

template <bool IS_BF16>
__device__ __forceinline__ float element(unsigned short bits) {
    if constexpr (IS_BF16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Adds the residual to two rounded outputs and rectifies them, as kernels of their own would. max.NaN keeps what came of
// an aborted wait visible.
template <bool IS_BF16>
__device__ __forceinline__ unsigned finished(unsigned pair, unsigned residual, bool has_residual, bool has_relu) {
    if constexpr (IS_BF16) {
        // An fma by one: sm_80 has no other sum of bf16.
        if (has_residual) asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(pair) : "r"(0x3f803f80u), "r"(residual));
        if (has_relu) asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));
    } else {
        if (has_residual) asm("add.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(residual));
        if (has_relu) asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));
    }
    return pair;
}

// Adds the bias, rounds, passes each warp's part through its own piece of shared memory, and stores whole rows.
template <class S, bool IS_BF16, class Warp>
__device__ __forceinline__ void store(
    const Warp& warp, const ConvSm80Params& p, const cusync::Tile& tile, unsigned char* shared) {
    const int warp_index = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int left = tile.x * S::tile_n + (warp_index % S::warps_n) * S::warp_n;
    unsigned char* const piece = shared + warp_index * S::warp_m * S::c_row;
#pragma unroll
    for (int j = 0; j < S::frags_n; ++j) {
        const int filter = left + j * 8 + (lane & 3) * 2;
        const bool has_bias = p.bias != nullptr && filter < p.filters;
        const float low = has_bias ? element<IS_BF16>(p.bias[filter]) : 0.0f;
        const float high = has_bias ? element<IS_BF16>(p.bias[filter + 1]) : 0.0f;
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* const sum = warp.sum[i][j] + half * 2;
                const int row = i * 16 + half * 8 + lane / 4;
                *reinterpret_cast<unsigned*>(piece + swizzled<S::c_row>(row, j) + (lane & 3) * 4) =
                    pack<IS_BF16>(sum[0] + low, sum[1] + high);
            }
    }
    __syncwarp();
    constexpr int chunks = S::c_row / 16, rows_per_pass = 32 / chunks;
    const int chunk = lane % chunks, column = left + chunk * 8;
    const int top = tile.y * S::tile_m + (warp_index / S::warps_n) * S::warp_m;
    const bool has_residual = p.residual != nullptr;
#pragma unroll
    for (int pass = 0; pass < S::warp_m / rows_per_pass; ++pass) {
        const int row = pass * rows_per_pass + lane / chunks;
        if (top + row >= p.outputs || column >= p.filters) continue;
        uint4 out = *reinterpret_cast<const uint4*>(piece + swizzled<S::c_row>(row, chunk)), add = make_uint4(0, 0, 0, 0);
        if (has_residual) add = *reinterpret_cast<const uint4*>(p.residual + (top + row) * p.residual_stride + column);
        out.x = finished<IS_BF16>(out.x, add.x, has_residual, p.has_relu);
        out.y = finished<IS_BF16>(out.y, add.y, has_residual, p.has_relu);
        out.z = finished<IS_BF16>(out.z, add.z, has_residual, p.has_relu);
        out.w = finished<IS_BF16>(out.w, add.w, has_residual, p.has_relu);
        *reinterpret_cast<uint4*>(p.c + (top + row) * p.c_stride + column) = out;
    }
}

// `Generated`: the stage's struct in the generated header.
template <class S, int MIN_BLOCKS, bool IS_BF16, class Generated>
__global__ void __launch_bounds__(S::threads, MIN_BLOCKS) convolve(
    const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ ConvSm80Params p) {
    extern __shared__ __align__(128) unsigned char shared[];
    cusync::TileStage<Generated> stage(sync);
    const cusync::Tile tile = stage.begin();
    const int k_blocks = p.taps * p.im2col.channel_blocks, splits = sync.generated.slices;
    const int first = k_blocks * tile.z / splits, last = k_blocks * (tile.z + 1) / splits;

    ConvWarp<S, IS_BF16> warp;
    accumulate<S>(warp, stage, p, tile, static_cast<unsigned>(__cvta_generic_to_shared(shared)), first, last);
    const bool is_whole = splits == 1 || reduce_splits<S>(warp, p, tile, splits);
    if (is_whole) {
        stage.before_stores(tile, cusync::is_leader());
        store<S, IS_BF16>(warp, p, tile, shared);
    }
    stage.finish(tile, is_whole);
}
