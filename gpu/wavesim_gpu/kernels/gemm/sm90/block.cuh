// A thread block: its warps in their roles, for one stage of a pipeline or for several, one after the other: one
// producer warp, an MMA warpgroup per 64 or 128 rows of the tile, and an epilogue warp for each of these.
#pragma once

#include <cusync/dependent_launch.cuh>
#include <kernels/gemm/sm90/bias.cuh>
#include <kernels/gemm/sm90/epilogue.cuh>
#include <kernels/gemm/sm90/epilogue_warp.cuh>
#include <kernels/gemm/sm90/mma.cuh>
#include <kernels/gemm/sm90/producer.cuh>
#include <kernels/gemm/sm90/rope.cuh>
#include <kernels/gemm/sm90/stream_k.cuh>
#include <kernels/gemm/sm90/work_index.cuh>

// Registers per thread of the MMA warpgroups, and of the other, which gives them up.
template <class S, class... Parts>
struct Registers {
    static constexpr bool needs_more = S::warpgroups == 2 && (!Parts::Form::fits_registers || ...);
    static constexpr int mma = S::mma_registers + (needs_more ? 8 : 0);
    static constexpr int producer = S::producer_registers - (needs_more ? 16 : 0);
    static_assert(S::warpgroups == 1 || 128 * (producer + S::warpgroups * mma) <= S::threads * S::start_registers);
};

template <class... Parts>
constexpr bool has_residual = (Parts::Form::has_residual || ...);

// Whether the producer warp is the last to use the counters, when it has issued its last loads: of a short form that posts
// nothing. It then retires the block, while the sums are still being made.
template <class... Parts>
constexpr bool retires_early = ((Parts::Form::is_short && Parts::Generated::output_count == 0) && ...);

template <class First, class...>
constexpr Residual residual_of = First::Form::residual;

template <class First, class... Others>
__device__ __forceinline__ bool begins_call(const First& first, const Others&...) { return first.sync.sync.call.begins; }

template <class S, bool IS_BF16, class... Parts>
__device__ __forceinline__ void run_block(const Shared<S>& shared, const Parts&... parts) {
    static_assert(!has_residual<Parts...> || sizeof...(Parts) == 1, "all stages hand over epilogue buffers alike");
    // Under programmatic dependent launch the next kernel may start as soon as there is room; else this does nothing.
    const bool begins = begins_call(parts...);
    if (!begins) cusync::launch_dependents();
    if (threadIdx.x == 0) {
        shared.template init<has_residual<Parts...>>();
        ((tma::prefetch(parts.p.a), tma::prefetch(parts.p.b), tma::prefetch(parts.p.c)), ...);
    }
    cluster_barrier<S>();
    if (begins) {
        // A call's first kernel, launched before what is ahead of it in the stream has ended: that may still read or
        // write any operand, counter or scratch of this call. No thread has touched one yet, and none does, nor does
        // the next kernel get leave to start, before it has ended.
        cusync::wait_for_previous_grid();
        cusync::launch_dependents();
    }
    const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4 - 1;
    if (group < 0) {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers<S, Parts...>::producer));
        if (warp == 0) {
            ProducerState<S> state;
            (ProducerWarp<S, Parts>(parts, shared, state).run(), ...);
            state.publish_end(shared);
            if constexpr (retires_early<Parts...>) {
                if (threadIdx.x == 0) (cusync::retire_block(parts.sync.sync), ...);
            }
        } else if (warp <= S::warpgroups) {
            EpilogueWarp<S>(shared, warp - 1).run(parts...);
        }
    } else {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers<S, Parts...>::mma));
        MmaWarpgroup<S, IS_BF16, residual_of<Parts...>>(shared, group).run(parts...);
    }
    // Neither block of a cluster may exit while the other still loads into it or arrives at its barriers.
    __syncwarp();
    if constexpr (S::cluster > 1) {
        cluster_barrier<S>();
    } else {
        __syncthreads();
    }
}
