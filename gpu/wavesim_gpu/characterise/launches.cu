// Kernels with next to no work: what lies between them is the launches'.

#include <cusync/clock.cuh>

// Per block: when its first instruction ran, and its last.
extern "C" __global__ void span(ulonglong2* stamps, unsigned long long work_ns) {
    if (threadIdx.x != 0) return;
    const unsigned long long began = cusync::time_ns();
    if (work_ns > 0) cusync::pause_ns(work_ns);
    stamps[blockIdx.x] = make_ulonglong2(began, cusync::time_ns());
}

// The same under programmatic dependent launch: the first stamp is the return of the wait for the kernel before.
extern "C" __global__ void dependent_span(ulonglong2* stamps, unsigned long long work_ns) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (threadIdx.x != 0) return;
    const unsigned long long began = cusync::time_ns();
    if (work_ns > 0) cusync::pause_ns(work_ns);
    stamps[blockIdx.x] = make_ulonglong2(began, cusync::time_ns());
}

// The timer's value each time that it was another one.
extern "C" __global__ void timer_values(unsigned long long* values, int count) {
    unsigned long long last = cusync::time_ns();
    for (int i = 0; i < count;) {
        const unsigned long long now = cusync::time_ns();
        if (now == last) continue;
        values[i++] = last = now;
    }
}
