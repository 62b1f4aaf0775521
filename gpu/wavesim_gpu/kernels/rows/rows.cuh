// What row kernels have in common: tiles of whole rows, one after the other, 16 bytes a load, a row held in registers by
// a warp or by the block. A tile waits for all of its rows at once.
#pragma once

#include <cusync/dependent_launch.cuh>
#include <cusync/previous_grid.cuh>
#include <cusync/tile_stage.cuh>
#include <kernels/gemm/sm90/activation.cuh>

constexpr int vector_elements = 8;  // of 16 bits, in one load

// Which rows a tile has: `row_blocks` tiles of tile_m rows, the last perhaps in part, cover the `length` rows of a
// sequence; y counts them through all sequences.
struct RowTiles {
    int length, row_blocks, tile_m;
    int is_persistent;  // blocks take tiles until there are none, instead of one each
    int is_dependent;   // launched before the kernel ahead of it has ended
};

struct RowRange {
    int sequence, first, end;  // rows of the sequence, half-open

    __device__ __forceinline__ RowRange(const RowTiles& tiles, int y) {
        sequence = y / tiles.row_blocks;
        first = (y - sequence * tiles.row_blocks) * tiles.tile_m;
        end = min(first + tiles.tile_m, tiles.length);
    }
};

// A matrix of 16-bit elements, row-major; `stride` is from one row to the next, in elements, a multiple of 8.
struct RowMatrix {
    unsigned short* data;
    long long stride;

    __device__ __forceinline__ uint4* row(long long index, long long column = 0) const {
        return reinterpret_cast<uint4*>(data + index * stride + column);
    }
};

// A row in registers, spread over THREADS_PER_ROW neighbouring threads: vector i of thread t is the row's vector
// i * THREADS_PER_ROW + t.
template <int THREADS_, int THREADS_PER_ROW_, int VECTORS_>
struct RowConfig {
    static constexpr int threads = THREADS_, threads_per_row = THREADS_PER_ROW_, vectors = VECTORS_;
    static constexpr int rows_at_once = threads / threads_per_row, elements = vectors * vector_elements;
    // 16 KB of loads in flight for each of two operands take 40 threads' registers of 1,024.
    static constexpr int blocks_per_sm = threads <= 768 ? 768 / threads : 1;
    static_assert(threads_per_row == 32 || threads_per_row == threads, "a warp or the block shares a row");

    static __device__ __forceinline__ int thread_of_row() { return static_cast<int>(threadIdx.x) % threads_per_row; }
    static __device__ __forceinline__ int row_of_block() { return static_cast<int>(threadIdx.x) / threads_per_row; }
};

// Vectors from `count` on are zeros.
template <class C>
__device__ __forceinline__ void load_row(uint4 (&to)[C::vectors], const uint4* from, int count) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        const int at = i * C::threads_per_row + C::thread_of_row();
        to[i] = at < count ? from[at] : make_uint4(0, 0, 0, 0);
    }
}

template <class C>
__device__ __forceinline__ void store_row(uint4* to, const uint4 (&from)[C::vectors], int count) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) {
        const int at = i * C::threads_per_row + C::thread_of_row();
        if (at < count) to[at] = from[i];
    }
}

// NaN in fp16 and in bf16, for rows whose wait was aborted.
template <class C>
__device__ __forceinline__ void poison_row(uint4 (&row)[C::vectors]) {
#pragma unroll
    for (int i = 0; i < C::vectors; ++i) row[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
}

// Anew in every pass over a row: the compiler must not keep the floats instead, which take twice the registers.
template <bool IS_BF16>
__device__ __forceinline__ void unpack_vector(const uint4& vector, float (&values)[vector_elements]) {
    unsigned pairs[4] = {vector.x, vector.y, vector.z, vector.w};
    asm volatile("" : "+r"(pairs[0]), "+r"(pairs[1]), "+r"(pairs[2]), "+r"(pairs[3]));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack<IS_BF16>(pairs[i]);
        values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
    }
}

template <bool IS_BF16>
__device__ __forceinline__ uint4 pack_vector(const float (&values)[vector_elements]) {
    return make_uint4(pack<IS_BF16>(values[0], values[1]), pack<IS_BF16>(values[2], values[3]),
                      pack<IS_BF16>(values[4], values[5]), pack<IS_BF16>(values[6], values[7]));
}

struct Sum {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Maximum {
    static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

// Reduces over the threads that share a row, in an order that does not depend on timing. All of them call it.
template <class C>
class RowReduction {
public:
    template <class Operation>
    __device__ __forceinline__ float reduce(float value) {
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) value = Operation::of(value, __shfl_xor_sync(0xffffffffu, value, lanes));
        if constexpr (C::threads_per_row == 32) {
            return value;
        } else {
            return across_warps<Operation>(value);
        }
    }

private:
    // One barrier is enough: what a reduction reads is written again by the second after it, behind the barrier between.
    template <class Operation>
    __device__ __forceinline__ float across_warps(float value) {
        constexpr int warps = C::threads / 32;
        __shared__ float of_warps[2][warps];
        float* const there = of_warps[turn_];
        turn_ ^= 1;
        if ((threadIdx.x & 31) == 0) there[threadIdx.x / 32] = value;
        __syncthreads();
        float whole = there[0];
#pragma unroll
        for (int warp = 1; warp < warps; ++warp) whole = Operation::of(whole, there[warp]);
        return whole;
    }

    int turn_ = 0;
};

// Calls body(tile, is_there) with each tile of this block, once all that it reads is there; with is_there false where it
// never came: what the body then writes must be NaN. All threads of the block.
template <class Generated, class Body>
__device__ __forceinline__ void for_each_tile(
    const cusync::StageParams<Generated>& sync, const RowTiles& tiles, Body&& body) {
    __shared__ int position;
    __shared__ bool is_there;
    using Stage = cusync::TileStage<Generated>;
    const Stage stage(sync);
    bool awaits_grid = tiles.is_dependent && Generated::input_count == 0;
    int fetched = cusync::is_leader() ? stage.fetch_position() : 0;
    do {
        if (cusync::is_leader()) position = fetched;
        __syncthreads();
        if (position >= stage.positions()) break;
        const cusync::Tile tile = stage.tile_at(position);
        if (cusync::is_leader()) stage.recorder().begin();
        if (threadIdx.x < 32) {
            cusync::ScheduleWait<Stage> input(stage, tile);
            input.prefetch(0);
            input.wait(0);
            if (cusync::is_leader()) is_there = !input.is_aborted();
        }
        if (awaits_grid) cusync::wait_for_previous_grid();
        awaits_grid = false;
        // Block barrier: hands the first warp's acquire, and what it found, on to the other threads.
        __syncthreads();
        if (tiles.is_persistent && cusync::is_leader()) fetched = stage.fetch_position();  // known when the tile is done
        stage.before_stores(tile, cusync::is_leader());
        body(tile, is_there);
        // Block barrier: all threads' stores come before the leader's release.
        __syncthreads();
        if (cusync::is_leader()) {
            if constexpr (cusync::mutant != cusync::Mutant::early_post) stage.post(tile);
            stage.record_end(tile);
        }
    } while (tiles.is_persistent);
    if (cusync::is_leader()) {
        // With semaphores nothing else waits for the grid before.
        cusync::end_after_previous_grid();
        cusync::retire_block(sync.sync);
    }
}
