// A persistent megakernel: a scheduler block writes tasks into a ring and posts the tail; workers draw a task number,
// wait for the tail to pass it, read the task, run it and post its event.
#include "forms.cuh"

struct Task {
    unsigned kind, tile, waits_for, needed;
};

extern "C" __global__ void megakernel(const Task* program, Task* ring, unsigned* tail, unsigned* head, unsigned* events,
                                      float* data, unsigned tasks) {
    if (blockIdx.x == 0) {
        if (threadIdx.x != 0) return;
#pragma unroll 1
        for (unsigned i = 0; i < tasks; i++) {
#if POST_BEFORE_STORES
            post(tail, 1);
            ring[i] = program[i];
#else
            ring[i] = program[i];
            post(tail, 1);
#endif
        }
        return;
    }
    __shared__ unsigned number;
    for (;;) {
        if (threadIdx.x == 0) number = atomicAdd(head, 1);
        __syncthreads();
        unsigned mine = number;
        if (mine >= tasks) return;
        if (threadIdx.x == 0) wait_at_least(tail, mine + 1);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
        Task task = ring[mine];
        if (threadIdx.x == 0) wait_at_least(&events[task.waits_for], task.needed);
        __syncthreads();
        float value = data[task.waits_for * 128 + threadIdx.x];
        data[task.tile * 128 + threadIdx.x] = value * task.kind;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) post(&events[task.tile], 1);
        __syncthreads();
    }
}
