// A library call on the device: how its last block tells the host, where a wait gave up, with no kernel after it.
//
// Why it may put everything back: a block retires after its last post, ticket and report, behind the barrier that ends
// its work and with release; the last one to retire acquires all of that. So nothing of the call is still on its way.
// What comes next in the stream uses the same counters only after this grid has ended: an ordinary launch begins then,
// and a first kernel that is launched early waits for it before it reads or writes anything (`begins`, below) and only
// then lets its own dependents start.
#pragma once

#include <cusync/watch.cuh>

namespace cusync {

// In pinned host memory, one for all calls over one state: wavesim_gpu/runtime/calls.py, slot_type. What follows it there:
// unsigned numbers[number_capacity], of the calls that failed; ErrorBuffer errors[error_capacity], of the latest of them.
struct CallSlot {
    unsigned failures;  // so far; written last, by one block at a time
    unsigned number_capacity, error_capacity, reserved;
};

struct Call {
    CallSlot* slot;   // null outside of library calls
    unsigned* bell;   // pinned: 1 tells the host to look at the slots
    uint4* result;    // of the whole call
    unsigned long long result_quads;  // of 16 bytes
    unsigned number;  // of the call, among those over its state
    int begins;       // whether this kernel is the call's first and is launched before the one ahead of it has ended
};
static_assert(sizeof(Call) == 40, "layout.py packs 40 bytes");

// NaN in the whole result, whatever was written there (0x7fff is one in fp16 and in bf16), and a report to the host.
// Each of its stores is seen after those before a fence. By one thread: it is rare, and other threads may have left.
__device__ __forceinline__ void report_failure(const Call& call, const ErrorBuffer* errors) {
    constexpr unsigned two_nans = 0x7fff7fff;
#pragma unroll 1
    for (unsigned long long i = 0; i < call.result_quads; ++i) {
        call.result[i] = make_uint4(two_nans, two_nans, two_nans, two_nans);
    }
    CallSlot* const slot = call.slot;
    const unsigned failures = slot->failures;
    unsigned* const numbers = reinterpret_cast<unsigned*>(slot + 1);
    numbers[failures % slot->number_capacity] = call.number;
    ErrorBuffer* const kept = reinterpret_cast<ErrorBuffer*>(numbers + slot->number_capacity);
    unsigned* const to = reinterpret_cast<unsigned*>(kept + failures % slot->error_capacity);
    const unsigned* const from = reinterpret_cast<const unsigned*>(errors);
#pragma unroll 1
    for (int i = 0; i < static_cast<int>(sizeof(ErrorBuffer) / sizeof(unsigned)); ++i) to[i] = load_relaxed(from + i);
    __threadfence_system();
    *static_cast<volatile unsigned*>(&slot->failures) = failures + 1;
    __threadfence_system();
    *static_cast<volatile unsigned*>(call.bell) = 1;
}

// By the last block of a call to retire: the error buffer is then as the next call needs it.
__device__ __forceinline__ void end_call(const Call& call, ErrorBuffer* errors) {
    if (load_relaxed(&errors->aborted) != 0) {
        report_failure(call, errors);
        errors->aborted = errors->waiter_count = 0;
    }
    errors->ended = call.number;
}

}  // namespace cusync
