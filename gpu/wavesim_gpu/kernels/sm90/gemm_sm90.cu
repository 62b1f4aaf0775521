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
// Two dependent products in one launch (both_sm90): blocks take the tiles of the first, then those of the second. The
// ring and the notes run on, so that the second's B is loaded while the first's last tile is multiplied:
//
//   loading warp      | tile of stage 1: ... | of stage 2: B0 B1 .wait. A0 A1 | ...
//   math warpgroup 0  |     ## k0 ## k1 ## ... ## last ## out     | ## k0 ## ...
//
// In sm90/:
//   shape.cuh   what the host chooses
//   block.cuh   the warps of a block in their roles; shared.cuh: what they share
//   loader.cuh  the loading warp; turns.cuh: which tile is next; stream_k.cuh: how K is dealt out
//   math.cuh    a math warpgroup; slices.cuh: sums of several blocks; epilogue.cuh: what becomes of the sums
//   storer.cuh  a storing warp
//   mbarrier.cuh, tma.cuh, wgmma.cuh: the instructions

#include <generated.cuh>

#include <kernels/sm90/block.cuh>
#include <kernels/sm90/shape.cuh>
#include <kernels/sm90/shared.cuh>

// `Generated`: the stage's struct in the generated header.
template <class S, bool IS_BF16, Activation ACTIVATION, class Generated>
__global__ void __launch_bounds__(S::threads, 1)
    gemm_sm90(const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ GemmSm90Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    run_block<S, IS_BF16>(Shared<S>(bytes), Part<Generated, ACTIVATION>(sync, p));
    if (threadIdx.x == 0) {
        // With semaphores nothing else waits for the grid before; what follows this one must find that all have left.
        cusync::wait_for_previous();
        cusync::leave(sync.sync);
    }
}

// Both products have one shape. Tiles of the second wait only for tiles that were taken before: no deadlock.
template <class S, bool IS_BF16, Activation FIRST_ACTIVATION, class First, Activation SECOND_ACTIVATION, class Second>
__global__ void __launch_bounds__(S::threads, 1) both_sm90(
    const __grid_constant__ cusync::StageParams<First> first_sync, const __grid_constant__ GemmSm90Params first_p,
    const __grid_constant__ cusync::StageParams<Second> second_sync, const __grid_constant__ GemmSm90Params second_p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    run_block<S, IS_BF16>(Shared<S>(bytes), Part<First, FIRST_ACTIVATION>(first_sync, first_p),
                          Part<Second, SECOND_ACTIVATION>(second_sync, second_p));
    if (threadIdx.x == 0) cusync::leave(first_sync.sync);
}
