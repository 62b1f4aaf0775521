// The sum of a tile whose K chunks are shared out over several blocks: by split-K in slices of equal length, by Stream-K
// as the shares happen to fall.
#pragma once

#include <kernels/sm90/shared.cuh>
#include <kernels/sm80/tensor_core.cuh>

// Of a tile's slices by the block that adds them up, until it gives up.
constexpr unsigned most_polls = 1u << 23;

// A math thread's part of an output tile, in registers.
template <class S>
using Sums = float[S::frags_m][S::tile_n / 2];

// Release, GPU scope: publishes what the block barrier just before has shown this thread.
__device__ __forceinline__ void add_release(unsigned* counter, unsigned value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// All math threads of the block.
template <class S>
__device__ __forceinline__ void math_barrier() {
    asm volatile("bar.sync 1, %0;" ::"n"(S::math_warps * 32) : "memory");
}

template <class S, int COUNT>
__device__ __forceinline__ void add_parts(float (&total)[COUNT], const float4* from, int slices, int stride) {
#pragma unroll 1
    for (; slices > 0; --slices, from += stride) {
#pragma unroll
        for (int i = 0; i < COUNT / 4; ++i) {
            const float4 part = from[i * S::math_warps * 32];
            total[4 * i] += part.x, total[4 * i + 1] += part.y, total[4 * i + 2] += part.z, total[4 * i + 3] += part.w;
        }
    }
}

// Loads in flight while slices are added up: a divisor of the groups, as large as the registers allow.
constexpr int batch_of(int groups, int most) { return groups % most == 0 ? most : batch_of(groups, most - 1); }

// This slice's sum becomes that of all: those before it, itself, those after it. A batch of loads is in flight.
template <class S>
__device__ __forceinline__ void add_slices(Sums<S>& sums, const float4* all, int own, int slices, int stride) {
    constexpr int groups = S::tile_n / 8, batch = batch_of(groups, S::warpgroups * S::frags_m * groups <= 48 ? 8 : 4);
    each<S::frags_m * groups / batch>([&](auto index) {
        constexpr int first = index.value * batch;
        float total[4 * batch];
#pragma unroll
        for (int i = 0; i < 4 * batch; ++i) total[i] = 0.0f;
        float* const sum = sums[first / groups] + first % groups * 4;
        const float4* from = all + first * S::math_warps * 32;
        add_parts<S>(total, from, own, stride);
#pragma unroll
        for (int i = 0; i < 4 * batch; ++i) total[i] += sum[i];
        add_parts<S>(total, from + (own + 1) * stride, slices - own - 1, stride);
#pragma unroll
        for (int i = 0; i < 4 * batch; ++i) sum[i] = total[i];
    });
}

// The first slices to come leave their sums in global memory; the last adds them to its own, in slice order, so
// that the result does not depend on which came last. Returns whether this block is the last. Only slices that have
// come already are waited for, so that it is no matter where the others are.
template <class S>
__device__ __forceinline__ bool reduce_slices(
    const GemmSm90Params& p, cusync::ErrorBuffer* errors, const Shared<S>& shared, const TileNote& note, Sums<S>& sums) {
    constexpr int quads = S::frags_m * S::tile_n / 8, threads = S::math_warps * 32;
    const int thread = static_cast<int>(threadIdx.x) - 128, slices = note.slices;
    unsigned* const ticket = p.tickets + note.ticket;  // slices that came, and above bit 16 those that left a sum
    float4* const all =
        reinterpret_cast<float4*>(p.partials) + static_cast<long long>(note.sums) * quads * threads + thread;
    if (thread == 0) shared.control().came_before = cusync::take_ticket(ticket) & 0xffff;
    math_barrier<S>();
    const bool is_last = shared.control().came_before == slices - 1;
    if (!is_last) {
        float4* const mine = all + note.slice * quads * threads;
#pragma unroll
        for (int q = 0; q < quads; ++q) {
            const float* sum = sums[q / (S::tile_n / 8)] + q % (S::tile_n / 8) * 4;
            mine[q * threads] = make_float4(sum[0], sum[1], sum[2], sum[3]);
        }
        // Barrier before the release: it publishes all math threads' sums.
        math_barrier<S>();
        if (thread == 0) add_release(ticket, 1u << 16);
        return false;
    }
    if (thread == 0) {
        // Polls take 0.25 us and more each: some seconds. The host then finds the run aborted, and its sums are void.
        for (unsigned polls = 0; cusync::load_relaxed(ticket) >> 16 != static_cast<unsigned>(slices - 1); ++polls) {
            if (polls < most_polls) continue;
            atomicExch(&errors->aborted, 1u);
            break;
        }
        cusync::acquire_fence();
        if constexpr (S::is_stream_k) *ticket = 0;  // nobody looks at it any more in this launch
    }
    // After the acquire: all may read the other slices' sums.
    math_barrier<S>();
    add_slices<S>(sums, all, note.slice, slices, quads * threads);
    return true;
}
