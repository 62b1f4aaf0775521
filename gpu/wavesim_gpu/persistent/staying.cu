// What blocks that stay do in small: a grid-stride loop, a barrier of the grid, tasks dealt out or fetched.

#include <persistent/waiting.cuh>

__device__ __forceinline__ float4 sum(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// out = a + b, `count` groups of four. A block per tile: launched with a thread for each group.
extern "C" __global__ void add_by_tiles(const float4* a, const float4* b, float4* out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = sum(a[i], b[i]);
}

// The same by however many blocks are launched.
extern "C" __global__ void add_by_stride(const float4* a, const float4* b, float4* out, unsigned count) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) out[i] = sum(a[i], b[i]);
}

extern "C" __global__ void nothing() {}

// Only barriers, launched cooperatively.
extern "C" __global__ void barriers(const __grid_constant__ Progress progress, unsigned count) {
    for (unsigned passed = 1; passed <= count; ++passed) {
        if (!grid_barrier(progress, passed)) return;
    }
}

// A task takes its time and is counted; one thread of a block stands for all.
__device__ __forceinline__ void do_task(const unsigned* task_ns, unsigned* done, unsigned task) {
    const unsigned long long began = cusync::time_ns();
    while (cusync::time_ns() - began < task_ns[task]) {}
    cusync::add_relaxed(done + task, 1);
}

extern "C" __global__ void tasks_by_stride(const unsigned* task_ns, unsigned* done, unsigned tasks) {
    for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) do_task(task_ns, done, task);
}

// `next` is 0 before. Relaxed: a number is all that is handed out.
extern "C" __global__ void tasks_by_queue(const unsigned* task_ns, unsigned* done, unsigned tasks, unsigned* next) {
    for (unsigned task; (task = cusync::fetch_add_relaxed(next, 1)) < tasks;) do_task(task_ns, done, task);
}
