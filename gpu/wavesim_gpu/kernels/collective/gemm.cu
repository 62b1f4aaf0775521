// A GEMM whose tiles leave for other GPUs as they are made, or whose A comes from them tile by tile: the Hopper GEMM of
// kernels/gemm/sm90 with the part of kernels/collective/gemm_part.cuh. What arrives is added up by reduce.cu; what is to be multiplied is
// sent by send.cu. Of a call's kernels each may start when all blocks of the one before have (dependent launch), so those
// that wait never keep SMs from those that they wait for.
//
//   rank 0   GEMM   | tile 0 -> 0 | tile 1 -> rank 1 | tile 2 -> 0 | ...      -> r: stored to rank r, and posted there
//            reduce |         ... wait: tile 0 of ranks 0 and 1 | add | store to 0 and 1, post there | tile 2 ...
//   rank 1   GEMM   | tile 0 -> rank 0 | tile 1 -> 1 | tile 2 -> rank 0 | ...
//            reduce |         ... wait: tile 1 of ranks 0 and 1 | add | store to 0 and 1, post there | tile 3 ...
//
// Of two ranks the epilogue can add as well, and there is no other kernel:
//
//   rank 0   GEMM   | tiles of rank 1 -> rank 1 ......... | wait: tile of rank 1 | add | store to 0 and 1, post | copy 1's
//   rank 1   GEMM   | tiles of rank 0 -> rank 0 ......... | wait: tile of rank 0 | add | store to 0 and 1, post | copy 0's

#include <generated.cuh>

#include <kernels/collective/gemm_part.cuh>

// `Generated`: the stage's struct in the generated header. Form: a PeerForm.
template <class S, bool IS_BF16, class Form, class Generated>
__global__ void __launch_bounds__(S::threads, 1)
    gemm_with_peers(const __grid_constant__ cusync::StageParams<Generated> sync,
                    const __grid_constant__ typename Form::Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    const PeerPart<Generated, Form> part(sync, p);
    if constexpr (adds_what_comes<typename Form::Params>) {
        if (threadIdx.x == 0) peers::enter_block(p.c.peers);
    }
    run_block<S, IS_BF16>(Shared<S>(bytes), part);
    if constexpr (adds_what_comes<typename Form::Params>) {
        // The MMA warps copy: they have kept their registers.
        constexpr int others = S::threads - 32 * S::mma_warps;
        peers::take_sums(p.c, part.stage.epoch(), static_cast<int>(threadIdx.x) - others, 32 * S::mma_warps);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        // What follows this grid must find that the one before has ended too.
        cusync::wait_for_previous_grid();
        cusync::retire_block(sync.sync);
        peers::retire_block<adds_what_comes<typename Form::Params>>(peers_of(p), part.stage.epoch());
    }
}
