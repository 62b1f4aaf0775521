// Split-K with a ticket per tile: whoever draws the last ticket sums the slabs. In the style of libcu++.
#include <cuda/atomic>

struct Split {
    float* slabs;
    unsigned* tickets;
    float* out;
    unsigned tile_elements;
};

#if RELAXED_TICKET_RELEASE
constexpr auto ticket_order = cuda::memory_order_acquire;
#elif RELAXED_TICKET_ACQUIRE
constexpr auto ticket_order = cuda::memory_order_release;
#else
constexpr auto ticket_order = cuda::memory_order_acq_rel;
#endif
#if BLOCK_TICKET
constexpr auto ticket_scope = cuda::thread_scope_block;
#else
constexpr auto ticket_scope = cuda::thread_scope_device;
#endif

__device__ bool draw_last(unsigned* ticket, unsigned splits) {
    __shared__ bool is_last;
#if !UNJOINED_STORES
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        cuda::atomic_ref<unsigned, ticket_scope> drawn(*ticket);
        is_last = drawn.fetch_add(1, ticket_order) == splits - 1;
    }
    __syncthreads();
    return is_last;
}

extern "C" __global__ void __launch_bounds__(256) ticket_reduce(Split s, const float* in, unsigned depth) {
    unsigned at = blockIdx.x * s.tile_elements + threadIdx.x, pitch = gridDim.x * s.tile_elements;
    float sum = 0;
    for (unsigned k = blockIdx.y; k < depth; k += gridDim.y) sum = fmaf(in[k * pitch + at], 0.5f, sum);
    s.slabs[blockIdx.y * pitch + at] = sum;
    if (!draw_last(s.tickets + blockIdx.x, gridDim.y)) return;
    float total = 0;
    for (unsigned split = 0; split < gridDim.y; split++) total += s.slabs[split * pitch + at];
    s.out[at] = total;
}
