// Semaphores as somebody would write them who has never seen wavesim: counters in global memory that finished tiles
// add to, and that one thread polls while its block stands at a barrier. Nothing of ../../cusync is used.
#pragma once

// What a kernel posts and waits for; foreign/kernels.py fills it in. Null pointers: it does not.
struct Flags {
    unsigned* posts;             // counter of tile (x, y): y * post_columns + x % post_columns
    const unsigned* waits;       // the same of the producer: y * wait_columns + x % wait_columns
    unsigned* started;           // set by the first block, for `hold`
    unsigned* next;              // the next tile of a persistent kernel
    unsigned* failed;            // set by a wait that ran out of time
    unsigned long long limit_ns;
    int post_columns, wait_columns;  // 1: a counter per tile row; else one per tile
    int awaited;                 // the counter's value once all that it stands for is stored
    int producer_tile_m, producer_tile_n, producer_rows;
    int group;                   // tile rows in a group of the tile order
    int is_early;                // by dependent launch: the kernel behind may start, this one started ahead of its turn
};

struct Place {
    int x, y;
};

// Position in the order of launch to tile: groups of tile rows, column by column in each; groups of one are row by row.
__device__ __forceinline__ Place place_of(int position, int columns, int rows, int group) {
    const int per_group = group * columns, first = position / per_group * group;
    const int height = min(rows - first, group), inside = position % per_group;
    return {inside / height, first + inside % height};
}

__device__ __forceinline__ unsigned long long now_ns() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

__device__ __forceinline__ unsigned load_acquire(const unsigned* address) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// One thread's: until the counter is there, or time is up, here or in another block.
__device__ inline void poll(const Flags& flags, const unsigned* counter, unsigned awaited) {
    const unsigned long long began = now_ns();
    while (load_acquire(counter) < awaited) {
        if (now_ns() - began > flags.limit_ns || *static_cast<volatile unsigned*>(flags.failed) != 0) {
            atomicExch(flags.failed, 1u);
            return;
        }
    }
}

// One thread's: until column x of the producer's tile rows under rows [top, end) of the matrix is stored.
__device__ inline void poll_rows(const Flags& flags, int x, int top, int end) {
    const int last = min((end - 1) / flags.producer_tile_m, flags.producer_rows - 1);
    for (int y = top / flags.producer_tile_m; y <= last; ++y) {
        poll(flags, flags.waits + y * flags.wait_columns + x % flags.wait_columns, flags.awaited);
    }
}

// All threads of the block, before its first tile.
__device__ __forceinline__ void begin_kernel(const Flags& flags) {
#if __CUDA_ARCH__ >= 900
    if (flags.is_early) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    if (flags.started != nullptr && blockIdx.x == 0 && threadIdx.x == 0) atomicExch(flags.started, 1u);
}

// Behind a barrier that all stores of the block precede: one thread publishes them.
__device__ __forceinline__ void post(const Flags& flags, int x, int y) {
    if (flags.posts == nullptr || threadIdx.x != 0) return;
    __threadfence();  // release: what the barrier has ordered before this thread is visible before the count
    atomicAdd(flags.posts + y * flags.post_columns + x % flags.post_columns, 1u);
}

// What follows on the stream waits for this kernel alone; one block that waits for the kernel before makes it both.
__device__ __forceinline__ void end_kernel(const Flags& flags) {
#if __CUDA_ARCH__ >= 900
    if (flags.is_early && blockIdx.x == gridDim.x - 1) asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
