// A bounded queue of many producers and consumers, in one launch: each slot has a turn number (Vyukov's queue).
#include <cuda/atomic>

struct Slot {
    cuda::atomic<unsigned, cuda::thread_scope_device> turn;
    unsigned payload[3];
};

struct Queue {
    Slot* slots;
    unsigned mask;
    cuda::atomic<unsigned, cuda::thread_scope_device>* head;
    cuda::atomic<unsigned, cuda::thread_scope_device>* tail;
};

__device__ void push(Queue q, unsigned a, unsigned b, unsigned c) {
    unsigned ticket = q.tail->fetch_add(1, cuda::memory_order_relaxed);
    Slot& slot = q.slots[ticket & q.mask];
    while (slot.turn.load(cuda::memory_order_acquire) != ticket) {
    }
#if TURN_BEFORE_PAYLOAD
    slot.turn.store(ticket + 1, cuda::memory_order_release);
    slot.payload[0] = a, slot.payload[1] = b, slot.payload[2] = c;
#else
    slot.payload[0] = a, slot.payload[1] = b, slot.payload[2] = c;
#if RELAXED_TURN
    slot.turn.store(ticket + 1, cuda::memory_order_relaxed);
#else
    slot.turn.store(ticket + 1, cuda::memory_order_release);
#endif
#endif
}

__device__ unsigned pop(Queue q) {
    unsigned ticket = q.head->fetch_add(1, cuda::memory_order_relaxed);
    Slot& slot = q.slots[ticket & q.mask];
#if RELAXED_LOOK
    while (slot.turn.load(cuda::memory_order_relaxed) != ticket + 1) {
#else
    while (slot.turn.load(cuda::memory_order_acquire) != ticket + 1) {
#endif
        __nanosleep(16);
    }
    unsigned sum = slot.payload[0] * 3 + slot.payload[1] * 5 + slot.payload[2];
    slot.turn.store(ticket + q.mask + 1, cuda::memory_order_release);
    return sum;
}

extern "C" __global__ void slot_queue(Queue q, const unsigned* in, unsigned* out, unsigned each) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x & 1) {
        for (unsigned i = 0; i < each; i++) {
            unsigned x = in[(blockIdx.x >> 1) * each + i];
            push(q, x, x + 1, x ^ 7);
        }
    } else {
        unsigned total = 0;
        for (unsigned i = 0; i < each; i++) total += pop(q);
        out[blockIdx.x >> 1] = total;
    }
}
