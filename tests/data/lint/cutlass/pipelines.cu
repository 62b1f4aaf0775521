// CUTLASS's asynchronous pipelines (TMA and cp.async) and its dependent launch, in kernels of our own.
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/grid_dependency_control.h>
#include <cutlass/cutlass.h>
#include <cutlass/pipeline/pipeline.hpp>

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>

constexpr int depth = 4;
using Pipeline = cutlass::PipelineTmaAsync<depth>;

struct Storage {
    alignas(128) float buffers[depth][256];
    typename Pipeline::SharedStorage pipeline;
};

extern "C" __global__ void __launch_bounds__(256) tma_pipeline(const float* in, float* out, int count) {
    extern __shared__ __align__(128) char memory[];
    Storage& storage = *reinterpret_cast<Storage*>(memory);
    typename Pipeline::Params params;
    params.transaction_bytes = 1024;
    bool is_producer = threadIdx.x >= 128;
    params.role = is_producer ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
    params.is_leader = threadIdx.x == 128;
    params.num_consumers = 128;
    Pipeline pipeline(storage.pipeline, params, cute::Shape<cute::_1, cute::_1, cute::_1>{});
    __syncthreads();
    cutlass::arch::wait_on_dependent_grids();
    if (is_producer) {
        auto state = cutlass::make_producer_start_state<Pipeline>();
        if (threadIdx.x == 128)
            for (int k = 0; k < count; k++) {
                pipeline.producer_acquire(state);
                cute::SM90_BULK_COPY_G2S::copy(in + (blockIdx.x * count + k) * 256, pipeline.producer_get_barrier(state),
                                               storage.buffers[state.index()], 1024);
                ++state;
            }
        return;
    }
    typename Pipeline::PipelineState state;
    float sum = 0;
    for (int k = 0; k < count; k++) {
        pipeline.consumer_wait(state);
        sum += storage.buffers[state.index()][threadIdx.x] + storage.buffers[state.index()][threadIdx.x + 128];
        pipeline.consumer_release(state);
        ++state;
    }
    cutlass::arch::launch_dependent_grids();
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
