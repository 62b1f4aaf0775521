// O = softmax(scale Q K^T + mask) V for each head of each sequence, fp16 or bf16 in and out, fp32 inside. Hopper only
// (sm_90a): TMA loads Q, K and V, wgmma multiplies them, TMA stores O. The structure is FlashAttention-3's (Shah, Bikshandi,
// Zhang, Thakkar, Ramani and Dao, 2024); what is new is that it waits for blocks of K and V, and posts its tiles.
//
// A tile is 128 query rows of one head: grid x is the head, y the sequence and its block of rows. One thread block per
// SM, its warps specialised:
//
//   producer warp       | K0 Q K1 V0 K2 V1 .wait. K3 V2 ... | next tile: K0 Q ...
//                       |     Q; circular buffers of K and of V blocks; a full and an empty barrier per slot
//   MMA warpgroup 0     |     ## QK0 | softmax 0 | ## QK1 PV0 | softmax 1  | ... ## PV last | out | next tile
//   MMA warpgroup 1     |            | ## QK0 | softmax 0 | ## QK1 PV0 | softmax 1 | ... ## PV last | out
//                       |     64 rows of outputs per warpgroup in shared memory, a full and an empty barrier each
//   epilogue warps 0, 1 |                                                                 store, complete: post
//
// K blocks are walked in ascending order: the first need the rows of earlier tiles only, so that a tile may begin before
// all that it reads is there; the mask comes last. A tile's last block ends with its last query row: what lies behind is
// perhaps not written yet, and even where a weight is 0, 0 x NaN would be NaN. As a consumer the block waits in the producer warp, for one block of K
// and V after the other; as a producer it posts a tile when TMA has completed its stores.
//
// In sm90/:
//   tile.cuh                what the host chooses
//   shared_memory.cuh       what the warps share: Q, K, V, outputs, barriers, work tiles
//   producer.cuh            the producer warp: semaphore waits and TMA loads
//   mma.cuh                 an MMA warpgroup: softmax.cuh, ../dropout.cuh
//   epilogue_warp.cuh       an epilogue warp: TMA stores and posts
//   head_tma.cuh, wgmma_registers.cuh: the instructions that the GEMM has no need for

#include <generated.cuh>

#include <cusync/previous_grid.cuh>
#include <kernels/attention/sm90/epilogue_warp.cuh>
#include <kernels/attention/sm90/mma.cuh>
#include <kernels/attention/sm90/producer.cuh>

// `Generated`: the stage's struct in the generated header.
template <class S, bool IS_BF16, class Generated>
__global__ void __launch_bounds__(S::threads, 1) attention_sm90(
    const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ AttentionSm90Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    const Shared<S> shared(bytes);
    const typename ProducerWarp<S, Generated>::Stage stage(sync);
    // Under programmatic dependent launch the next kernel may start as soon as there is room; else this does nothing. A
    // library call's first kernel waits beforehand for what is ahead of it in the stream.
    const bool begins = sync.sync.call.begins;
    if (!begins) cusync::launch_dependents();
    if (threadIdx.x == 0) {
        shared.init();
        tma::prefetch(p.q), tma::prefetch(p.k), tma::prefetch(p.v), tma::prefetch(p.out);
    }
    __syncthreads();
    if (begins) {
        cusync::wait_for_previous_grid();
        cusync::launch_dependents();
    }
    const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4 - 1;
    if (group < 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::producer_registers));
        if (warp == 0) {
            ProducerWarp<S, Generated>(stage, p, shared).run();
        } else if (warp <= S::warpgroups) {
            EpilogueWarp<S>(p, shared, warp - 1).run(stage);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::mma_registers));
        MmaWarpgroup<S, IS_BF16>(p, shared, group).template run<(Generated::input_count > 0)>();
    }
    __syncwarp();
    __syncthreads();
    if (threadIdx.x == 0) {
        // With semaphores nothing else waits for the grid before.
        cusync::end_after_previous_grid();
        cusync::retire_block(sync.sync);
    }
}
