// What waiting on a semaphore that is ready costs a GEMM main loop, by where it waits. Nothing of this is a kernel of
// ours: tiles of 128 x 128, k-blocks of 32, mma.sync, operands packed by k-block so that any engine loads them.
// DEPTH k-blocks are in shared memory. EVERY `every` k-blocks one thread polls a semaphore that is ready.
#include <bench/labs/wait_costs_mma.cuh>

// Mean ns of one of `count` dependent polls, or loads of 16 bytes, by one thread of each block.
template <int WHAT>
__global__ void latency(const int* ready, const char* data, size_t bytes, int count, float* out_ns) {
    extern __shared__ __align__(128) char shared[];
    if (threadIdx.x) return;
    size_t at = (size_t)blockIdx.x * 4096;
    int seen = 0;
    unsigned long long begin = global_ns();
    for (int i = 0; i < count; ++i) {
        if (WHAT == 0) {
            seen = acquire(ready + (i + seen - 1) % 64);
        } else {
            load_async(shared, data + at % bytes);
            wait_loads<0>();
            at += *(volatile int*)shared + 132 * 4096 + 128;
        }
    }
    out_ns[blockIdx.x] = (float)(global_ns() - begin) / count;
    if (seen == 7) out_ns[0] = at;
}

// The whole block waits: one thread polls, then a barrier. DRAINED: nothing is in flight when it does so, and the
// pipeline fills again after it; otherwise the wait stands before the load, DEPTH - 1 k-blocks ahead of their use.
template <int DEPTH, bool DRAINED>
__global__ void __launch_bounds__(256) at_barrier(
    const char* a, const char* b, float* out, const int* ready, int k_blocks, int every, int columns) {
    extern __shared__ __align__(128) char shared[];
    const char* from_a = a + (size_t)(blockIdx.x / columns) * k_blocks * A_BYTES;
    const char* from_b = b + (size_t)(blockIdx.x % columns) * k_blocks * B_BYTES;
    float sums[4][4][4] = {};
    auto wait = [&](int k) {
        if (threadIdx.x == 0) while (acquire(ready + k / every % 64) < 1) {}
        __syncthreads();
    };
    auto fill = [&](int k) {
        if (k < k_blocks) load_block(shared + k % DEPTH * (A_BYTES + B_BYTES), from_a + (size_t)k * A_BYTES, from_b + (size_t)k * B_BYTES);
        commit_loads();
    };
    int loaded = 0;
    int limit = k_blocks;  // of what may be loaded before the next wait
    for (int k = 0; k < k_blocks; ++k) {
        if (DRAINED) {
            if (every && k % every == 0) { wait(k); limit = k + every; }
            // One group of loads per k-block, be it an empty one, so that the wait below knows how many may be left.
            for (int ahead = k == 0 || (every && k % every == 0) ? 0 : DEPTH - 1; ahead < DEPTH; ++ahead)
                if (k + ahead < limit) fill(loaded++); else commit_loads();
        } else {
            for (; loaded < k + DEPTH; fill(loaded++)) if (every && loaded < k_blocks && loaded % every == 0) wait(loaded);
        }
        wait_loads<DEPTH - 1>();
        __syncthreads();
        multiply(shared + k % DEPTH * (A_BYTES + B_BYTES), sums);
        __syncthreads();
    }
    store(out, sums);
}

// A warp that only loads polls, DEPTH k-blocks ahead of the eight that compute.
template <int DEPTH, bool FENCED>
__global__ void __launch_bounds__(288) at_producer(
    const char* a, const char* b, float* out, const int* ready, int k_blocks, int every, int columns) {
    extern __shared__ __align__(128) char shared[];
    __shared__ __align__(8) unsigned long long full[DEPTH], empty[DEPTH];
    if (threadIdx.x == 0) for (int i = 0; i < DEPTH; ++i) { init_barrier(full + i, 1); init_barrier(empty + i, 256); }
    fence_barrier_init();
    __syncthreads();
    if (threadIdx.x >= 256) {
        if (threadIdx.x > 256) return;
        const char* from_a = a + (size_t)(blockIdx.x / columns) * k_blocks * A_BYTES;
        const char* from_b = b + (size_t)(blockIdx.x % columns) * k_blocks * B_BYTES;
        for (int k = 0; k < k_blocks; ++k) {
            int at = k % DEPTH, turn = k / DEPTH;
            if (turn) wait_barrier(empty + at, (turn - 1) & 1);
            if (every && k % every == 0) {
                while (acquire(ready + k / every % 64) < 1) {}
                if (FENCED) fence_proxy();
            }
            char* to = shared + at * (A_BYTES + B_BYTES);
            expect_bytes(full + at, A_BYTES + B_BYTES);
            copy_bulk(to, from_a + (size_t)k * A_BYTES, A_BYTES, full + at);
            copy_bulk(to + A_BYTES, from_b + (size_t)k * B_BYTES, B_BYTES, full + at);
        }
        return;
    }
    float sums[4][4][4] = {};
    for (int k = 0; k < k_blocks; ++k) {
        int at = k % DEPTH;
        wait_barrier(full + at, k / DEPTH & 1);
        multiply(shared + at * (A_BYTES + B_BYTES), sums);
        arrive_barrier(empty + at);
    }
    store(out, sums);
}
