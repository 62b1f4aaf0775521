// The Hopper GEMM as one of several kernels that follow each other by dependent launch and wait for each other's tiles.
// Its blocks leave as they end: one of them alone waits for the kernel before. In gemm_sm90.cu all do, which between two
// products costs nothing; in a chain blocks whose tiles came early would keep their SMs from the kernels after them.

#include <generated.cuh>

#include <cusync/previous_grid.cuh>
#include <kernels/gemm/sm90/block.cuh>
#include <kernels/gemm/sm90/shared_memory.cuh>
#include <kernels/gemm/sm90/tile_config.cuh>

template <class S, bool IS_BF16, class Form, class Generated>
__global__ void __launch_bounds__(S::threads, 1)
    gemm_sm90(const __grid_constant__ cusync::StageParams<Generated> sync,
              const __grid_constant__ typename Form::Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    run_block<S, IS_BF16>(Shared<S>(bytes), Part<Generated, Form>(sync, p));
    if (threadIdx.x == 0) {
        cusync::end_after_previous_grid();
        if constexpr (!retires_early<Part<Generated, Form>>) cusync::retire_block(sync.sync);
    }
}
