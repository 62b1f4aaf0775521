// A tile of a weight product on mma: A is sixteen rows of weights in a slot, B the batch's x. Lane (g, q) takes 16 bytes of
// rows g and g + 8 and of x from column 8q on; that orders the columns of both alike, and a dot product has no order.
#pragma once

#include <kernels/decode/step.cuh>

__device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// One math warp's place in the ring and in the buffers of sums. The groups take slots by turns, so that several slots are worked
// at: a slot alone takes a few hundred cycles of waiting for its barrier, for shared memory and for one mma after the other.
struct MathWarp {
    RingPlace place;
    mbarrier::Place<sum_buffers> buffer;
    unsigned long long weights_ns = 0, sums_ns = 0;  // waited for them, in recording builds

    __device__ __forceinline__ unsigned long long now() const { return WAVESIM_RECORD ? cusync::time_ns() : 0; }
    __device__ __forceinline__ int group() const { return threadIdx.x / 32 / group_warps; }
    __device__ __forceinline__ int number() const { return threadIdx.x / 32 % group_warps; }
    // How many slots ahead the group's next one is.
    __device__ __forceinline__ int ahead() const {
        const int slots = group() - place.slot % groups;
        return slots < 0 ? slots + groups : slots;
    }
    __device__ __forceinline__ RingPlace place_ahead(int slots) const {
        RingPlace there = place;
        there.advance(slots);
        return there;
    }
    __device__ __forceinline__ void await_slot(RingPlace at, Reader& reader) {
        const unsigned long long began = now();
        if (!await_phase(shared::full(at.slot), at.parity, waits_for_weights, at.slot)) reader.is_late = true;
        weights_ns += now() - began;
    }
    __device__ __forceinline__ void await_sum_buffer(Reader& reader) {
        const unsigned long long began = now();
        if (!await_phase(shared::sum_free(buffer.slot), buffer.parity ^ 1, waits_for_sums, buffer.slot)) reader.is_late = true;
        sums_ns += now() - began;
    }
    // What the slot held has been read into registers.
    __device__ __forceinline__ static void free_slot(RingPlace at) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier::arrive(shared::empty(at.slot));
    }
};

// Blocks of 32 columns of one slot: this warp's share of `blocks`.
template <int ROWS>
__device__ __forceinline__ void multiply_slot(
    float (&even)[4], float (&odd)[4], const unsigned char* slot, const unsigned char* x, int number, int blocks) {
    constexpr int width = shape::slot_columns * (tile_rows / ROWS), most = (width / 32 + group_warps - 1) / group_warps;
#pragma unroll 4
    for (int i = 0; i < most; ++i) {
        const int block = number + i * group_warps;
        if (block >= blocks) break;
        const uint4 top = *reinterpret_cast<const uint4*>(slot + 64 * block);
        const uint4 b = *reinterpret_cast<const uint4*>(x + 64 * block);
        uint4 bottom = make_uint4(0, 0, 0, 0);
        if constexpr (ROWS == tile_rows) bottom = *reinterpret_cast<const uint4*>(slot + row_place(8, width) + 64 * block);
        mma(even, top.x, bottom.x, top.y, bottom.y, b.x, b.y);
        mma(odd, top.z, bottom.z, top.w, bottom.w, b.z, b.w);
    }
}

// What a warp has of a tile.
struct Sums {
    float even[4] = {}, odd[4] = {};
};

// `columns` of a tile of ROWS rows, those whose input is in shared memory. The warps of a group share the columns of a slot.
template <int ROWS>
__device__ __forceinline__ void accumulate(Sums& sums, MathWarp& warp, Reader& reader, int tile, int columns) {
    constexpr int width = shape::slot_columns * (tile_rows / ROWS);
    const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const unsigned char* x = reinterpret_cast<const unsigned char*>(shared::x() + g % shape::batch * x_row) + 16 * q;
    const Turn turn(tile, columns, width);
    for (int i = warp.ahead(); i < turn.slots; i += groups) {
        const RingPlace at = warp.place_ahead(i);
        const int first = turn.after(i) * width;
        warp.await_slot(at, reader);
        if constexpr (cusync::mutant == cusync::Mutant::early_post) warp.free_slot(at);
        const unsigned char* slot = shared::slot(at.slot) + row_place(g, width) + 16 * q;
        if (columns - first >= width) multiply_slot<ROWS>(sums.even, sums.odd, slot, x + 2 * first, warp.number(), width / 32);
        else multiply_slot<ROWS>(sums.even, sums.odd, slot, x + 2 * first, warp.number(), (columns - first) / 32);
        if constexpr (cusync::mutant != cusync::Mutant::early_post) warp.free_slot(at);
    }
    warp.place.advance(turn.slots);
}

// Each warp leaves its sums of a tile for an epilogue warp.
template <int ROWS>
__device__ __forceinline__ void leave(const Sums& of, MathWarp& warp, Reader& reader) {
    const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    warp.await_sum_buffer(reader);
    float* sums = shared::sums() + (warp.buffer.slot * math_warps + threadIdx.x / 32) * tile_rows * shape::batch;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int column = 2 * q + i;
        if (column >= shape::batch) continue;
        sums[g * shape::batch + column] = of.even[i] + of.odd[i];
        if constexpr (ROWS == tile_rows) sums[(g + 8) * shape::batch + column] = of.even[i + 2] + of.odd[i + 2];
    }
    __syncwarp();
    if (lane == 0) mbarrier::arrive(shared::summed(warp.buffer.slot));
    warp.buffer.advance();
}

template <int ROWS>
__device__ __forceinline__ void multiply(MathWarp& warp, Reader& reader, int tile, int columns) {
    Sums sums;
    accumulate<ROWS>(sums, warp, reader, tile, columns);
    leave<ROWS>(sums, warp, reader);
}
