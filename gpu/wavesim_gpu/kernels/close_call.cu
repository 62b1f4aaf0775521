// The last kernel of a library call: it says that the call is over, and where a wait gave up it overwrites the whole
// result with NaN and copies what the waiters wrote to where the host reads it without asking the GPU.

#include <cusync/watch.cuh>

// In pinned host memory, one per call under way: wavesim_gpu/runtime/calls.py, CALL_SLOT.
struct CallSlot {
    unsigned finished;  // 1 once the call, or a replay of it, is over
    unsigned failures;  // how many of its replays failed; of a call that is no graph's 0 or 1
    cusync::ErrorBuffer errors;
};
static_assert(sizeof(CallSlot) == 8 + sizeof(cusync::ErrorBuffer), "calls.py packs it without gaps");

// One block. `result`: `count` fp16 or bf16 elements; 0x7fff is NaN in both. A host that sees `finished` sees `failures`
// and the report too, and one that sees `bell`, which tells it to look at the slots, sees `finished`.
extern "C" __global__ void close_call(const cusync::ErrorBuffer* errors, CallSlot* slot, unsigned* bell,
                                      unsigned short* result, unsigned long long count) {
    const bool has_failed = errors->aborted != 0;  // the kernels that write it have ended
    if (has_failed) {
        for (unsigned long long i = threadIdx.x; i < count; i += blockDim.x) result[i] = 0x7fff;
        const unsigned* const from = reinterpret_cast<const unsigned*>(errors);
        unsigned* const to = reinterpret_cast<unsigned*>(&slot->errors);
        for (int i = threadIdx.x; i < static_cast<int>(sizeof(cusync::ErrorBuffer) / 4); i += blockDim.x) to[i] = from[i];
    }
    // Block barrier, then fences to the host: each of these stores is seen after those before it.
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence_system();
    if (has_failed) slot->failures += 1;  // replays of one graph follow each other: nobody else writes here
    __threadfence_system();
    slot->finished = 1;
    __threadfence_system();
    if (has_failed) *bell = 1;
}
