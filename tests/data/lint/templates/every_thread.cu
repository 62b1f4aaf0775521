// Each thread posts for itself and each waits for itself: no block barrier is needed on either side.
#include "forms.cuh"

#if TYPE_half
using Value = unsigned short;
#elif TYPE_double
using Value = double;
#else
using Value = float;
#endif

extern "C" __global__ void produce_each(const Value* in, Value* data, unsigned* ready) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
#if POST_BEFORE_STORES
    post(&ready[at], 1);
    data[at] = in[at];
#else
    data[at] = in[at];
    post(&ready[at], 1);
#endif
}

extern "C" __global__ void consume_each(const Value* data, Value* out, unsigned* ready) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
#if LOAD_ABOVE_WAIT
    Value early = *const_cast<const volatile Value*>(&data[at]);
    wait_at_least(&ready[at], 1);
    out[at] = early;
#else
    wait_at_least(&ready[at], 1);
#if NON_COHERENT_LOAD
    out[at] = __ldg(&data[at]);
#else
    out[at] = data[at];
#endif
#endif
}
