// Asynchronous copies of the operands from global memory into the pipeline in shared memory.
#pragma once

#include <cusync/stage.cuh>
#include <kernels/gemm/sm80/tensor_core.cuh>
#include <kernels/gemm/sm80/tile_config.cuh>

// Copies k-blocks of A and B from global to shared memory, pass by pass: one pass moves 16 bytes per thread. The two
// pointers step from pass to pass, and after a k-block's last pass stand at the next one's first.
template <class S>
class TileLoader {
public:
    // first_k_block: where this split's K range starts.
    __device__ __forceinline__ TileLoader(const GemmParams& p, const cusync::Tile& tile, unsigned shared, int first_k_block) {
        const int a_row = threadIdx.x / (S::tile_k / 8), a_chunk = threadIdx.x % (S::tile_k / 8);
        const int b_row = threadIdx.x / (S::tile_n / 8), b_chunk = threadIdx.x % (S::tile_n / 8);
        const int row = tile.y * S::tile_m + a_row, column = tile.x * S::tile_n + b_chunk * 8;
        const long long k0 = static_cast<long long>(first_k_block) * S::tile_k;
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

    // Part `part` of `parts` of one k-block, so that the copies can be spread over a main-loop step.
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
