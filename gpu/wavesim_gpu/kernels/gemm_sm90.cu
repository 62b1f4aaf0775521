// C = activation(A (m, k) x B (k, n)), all row-major, fp16 or bf16 in and out, fp32 inside. Hopper only (sm_90a): the
// copy engine brings the operands, wgmma multiplies them, the copy engine takes the result away.
//
// One thread block per SM, its warps specialised:
//
//   loading warp      | B0 B1 B2 B3 .wait. A0 A1 A2 A3 | A4+B4 ...            | next tile: B0 B1 ...
//                     |     ring of stages in shared memory, a full and an empty barrier each
//   math warpgroup 0  |                    ## k0 ## k1 ## ... ## last ## out  | ## k0 ## ...
//   math warpgroup 1  |                       ## k0 ## k1 ## ... ## last ## out | ## k0 ...
//                     |     two staging slots per warpgroup, a full and an empty barrier each
//   storing warp 0, 1 |                                                 store, store, complete: post
//
// Nobody waits for more than the slot it needs. While one warpgroup rounds and stages its part of the output, the
// other has the tensor cores for itself, as far as the ring reaches, and the loading warp is in the next tile already:
// in a persistent launch neither the epilogue nor the start of a tile shows.
//
// As a consumer it waits for A only, in the loading warp, with B already on its way. As a producer it posts when the
// copy engine has completed the tile's stores. The two blocks of a cluster take neighbours in the tile order; where these
// share a column, or a row, each block loads half of B, or of A, into both.
//
// In sm90/:
//   shape.cuh   what the host chooses
//   shared.cuh  what the warps share
//   loader.cuh  the loading warp; turns.cuh: which tile is next; stream_k.cuh: how K is dealt out
//   math.cuh    a math warpgroup; slices.cuh: sums of several blocks; epilogue.cuh: what becomes of the sums
//   storer.cuh  a storing warp
//   mbarrier.cuh, tma.cuh, wgmma.cuh: the instructions

#include <kernels/sm90/epilogue.cuh>
#include <kernels/sm90/loader.cuh>
#include <kernels/sm90/math.cuh>
#include <kernels/sm90/shape.cuh>
#include <kernels/sm90/shared.cuh>
#include <kernels/sm90/storer.cuh>
#include <kernels/sm90/stream_k.cuh>
#include <kernels/sm90/turns.cuh>

template <class S, bool IS_BF16, Activation ACTIVATION>
__global__ void __launch_bounds__(S::threads, 1)
    gemm_sm90(const __grid_constant__ SyncParams sync, const __grid_constant__ GemmSm90Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    using Math = MathGroup<S, IS_BF16, ACTIVATION>;
    const Shared<S> shared(bytes);
    const Stage stage(sync);
    // Under programmatic dependent launch the next kernel may start as soon as there is room; else it says nothing.
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (threadIdx.x == 0) {
        shared.init();
        tma::prefetch(p.a), tma::prefetch(p.b), tma::prefetch(p.c);
    }
    cluster_barrier<S>();
    const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4 - 1;
    if (group < 0) {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::other_registers));
        if (warp == 0) {
            Loader<S>(sync, stage, p, shared).run();
        } else if (warp <= S::warpgroups) {
            Storer<S, Math::pieces>(stage, p, shared, warp - 1).run();
        }
    } else {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::math_registers));
        Math(p, shared, group).run();
    }
    // Neither block may leave while the other still loads into it or arrives at its barriers.
    __syncwarp();
    if constexpr (S::cluster > 1) {
        cluster_barrier<S>();
    } else {
        __syncthreads();
    }
    if (threadIdx.x == 0) cusync::leave(sync.sync);
}
