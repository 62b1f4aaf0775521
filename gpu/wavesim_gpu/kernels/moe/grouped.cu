// Grouped GEMMs of a mixture of experts, persistent: C (rows, columns) = activation(A (rows, k) x B (expert of the row)^T). One
// product a launch, or gate-up and down in one, where a down tile waits for the gate-up tiles of its own rows only.
#include <cusync/dependent_launch.cuh>
#include <kernels/moe/grouped_store.cuh>

using GateUp = GroupedPart<Form<Activation::swiglu, Order::column, false, true>, false>;
using Down = GroupedPart<Form<Activation::none, Order::column>, true>;

template <class S, class... Parts>
__device__ __forceinline__ void run_grouped(const Parts&... parts) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    const Shared<S> shared(bytes);
    if (threadIdx.x == 0) {
        shared.template init<false>();
        ((tma::prefetch(parts.p.a), tma::prefetch(parts.p.b), tma::prefetch(parts.p.c), tma::prefetch(parts.p.c_rows)), ...);
    }
    __syncthreads();  // the barriers are there
    constexpr int moved = S::warpgroups == 2;  // column-major operands take more registers, as in the GEMM's block.cuh
    const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4 - 1;
    if (group < 0) {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::producer_registers - 16 * moved));
        if (warp == 0) {
            if (tma::is_elected()) GroupedProducer<S>(shared).run(parts...);
        } else if (warp <= S::warpgroups) {
            GroupedStore<S>(shared, warp - 1).run(parts...);
        }
    } else {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::mma_registers + 8 * moved));
        MmaWarpgroup<S, true, Residual::none>(shared, group).run(parts...);
    }
    __syncwarp();
    __syncthreads();  // all warps have done with shared memory
    // With semaphores nothing else waits for the grid before; what follows this one must find that all have left.
    if (threadIdx.x == 0) cusync::wait_for_previous_grid();
}

template <class S>
__global__ void __launch_bounds__(S::threads, 1) moe_gate_up(const __grid_constant__ GroupedParams p) {
    run_grouped<S>(GateUp(p, 0));
}

template <class S>
__global__ void __launch_bounds__(S::threads, 1) moe_down(const __grid_constant__ GroupedParams p) {
    run_grouped<S>(Down(p, 0));
}

// Tiles of the down product wait only for tiles that were taken before: no deadlock, however many blocks are resident.
template <class S>
__global__ void __launch_bounds__(S::threads, 1) moe_experts(
    const __grid_constant__ GroupedParams gate_up, const __grid_constant__ GroupedParams down) {
    run_grouped<S>(GateUp(gate_up, 0), Down(down, 1));
}
