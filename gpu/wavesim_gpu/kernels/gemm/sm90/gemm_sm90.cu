// C = activation(A (m, k) x B (k, n) + bias), fp16 or bf16 in and out, fp32 inside; A and C row-major, B by rows or by
// columns. Hopper only (sm_90a): TMA loads the operands, wgmma multiplies them, TMA stores the result.
//
// One thread block per SM, its warps specialised:
//
//   producer warp       | B0 B1 B2 B3 .wait. A0 A1 A2 A3 | A4+B4 ...            | next tile: B0 B1 ...
//                       |     pipeline: a circular buffer in shared memory, a full and an empty barrier per slot
//   MMA warpgroup 0     |                    ## k0 ## k1 ## ... ## last ## out  | ## k0 ## ...
//   MMA warpgroup 1     |                       ## k0 ## k1 ## ... ## last ## out | ## k0 ...
//                       |     two epilogue buffers per warpgroup, a full and an empty barrier each
//   epilogue warps 0, 1 |                                                 store, store, complete: post
//
// No warp waits for more than the slot it needs. While one warpgroup rounds and writes its part of the output, the other
// has the tensor cores for itself, as far as the pipeline reaches, and the producer warp is in the next tile already: in
// a persistent launch neither the epilogue nor the start of a tile costs time.
//
// As a consumer it waits for A only, in the producer warp, with B already on its way. As a producer it posts when TMA
// has completed the tile's stores. The two blocks of a cluster compute neighbours in the tile order; where these share a
// column, or a row, each block loads half of B, or of A, into both (multicast).
//
// Two dependent products in one launch (fused_gemm_sm90, the fused persistent kernel): blocks compute the tiles of the
// first, then those of the second. Pipeline and work tiles carry over, so that the second's B is loaded while the
// first's last tile is multiplied:
//
//   producer warp       | tile of stage 1: ... | of stage 2: B0 B1 .wait. A0 A1 | ...
//   MMA warpgroup 0     |     ## k0 ## k1 ## ... ## last ## out     | ## k0 ## ...
//
// A convolution is the same kernel with another loader: A's rows are output pixels, and a k-block of A is what one filter
// tap reads for them of 64 channels. TMA gathers these pixels from the images (im2col). B are the filters, by columns.
//
// In sm90/:
//   tile_config.cuh         what the host chooses
//   block.cuh               the warps of a block in their roles
//   shared_memory.cuh       what they share: pipeline, epilogue buffers, work tiles, mailbox
//   producer.cuh            the producer warp: semaphore waits and TMA loads
//   work_index.cuh          which tile is next; stream_k.cuh: which k-blocks of it under Stream-K
//   mma.cuh                 an MMA warpgroup's main loop
//   splits.cuh              split-K and Stream-K: the sum of several blocks
//   epilogue.cuh            rounding and writing outputs; activation.cuh: what becomes of a sum; rope.cuh: of Q and K
//   epilogue_warp.cuh       an epilogue warp: TMA stores and posts
//   mbarrier.cuh, tma.cuh, wgmma.cuh: the instructions
//   ../convolution/im2col.cuh: which pixels, channels and weights a k-block of a convolution is

#include <generated.cuh>

#include <kernels/gemm/sm90/block.cuh>
#include <kernels/gemm/sm90/shared_memory.cuh>
#include <kernels/gemm/sm90/tile_config.cuh>

// `Generated`: the stage's struct in the generated header.
template <class S, bool IS_BF16, class Form, class Generated>
__global__ void __launch_bounds__(S::threads, 1)
    gemm_sm90(const __grid_constant__ cusync::StageParams<Generated> sync,
              const __grid_constant__ typename Form::Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    run_block<S, IS_BF16>(Shared<S>(bytes), Part<Generated, Form>(sync, p));
    if (threadIdx.x == 0) {
        // With semaphores nothing else waits for the grid before; what follows this one must find that all have left.
        cusync::wait_for_previous_grid();
        if constexpr (!retires_early<Part<Generated, Form>>) cusync::retire_block(sync.sync);
    }
}

// Both products have one tile shape. Tiles of the second wait only for tiles that were taken before: no deadlock.
template <class S, bool IS_BF16, class FirstForm, class First, class SecondForm, class Second>
__global__ void __launch_bounds__(S::threads, 1) fused_gemm_sm90(
    const __grid_constant__ cusync::StageParams<First> first_sync,
    const __grid_constant__ typename FirstForm::Params first_p,
    const __grid_constant__ cusync::StageParams<Second> second_sync,
    const __grid_constant__ typename SecondForm::Params second_p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    run_block<S, IS_BF16>(Shared<S>(bytes), Part<First, FirstForm>(first_sync, first_p),
                          Part<Second, SecondForm>(second_sync, second_p));
    if (threadIdx.x == 0) cusync::retire_block(first_sync.sync);
}
