// Memory: panels read as a GEMM's producers read them, sets of growing size read at random places, and one line at a time.

#include <cusync/clock.cuh>

__device__ __forceinline__ void load_async(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

template <int PENDING>
__device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

struct PanelParams {
    const char* base;
    const int* first;       // per block, the k-block that it begins with
    ulonglong2* durations;  // per block: its first and last nanosecond
    size_t row_bytes;
    int rows, k_blocks, depth;  // of a panel: rows, k-blocks of 128 bytes; k-blocks in flight, at most 4
    int work_cycles;            // between two k-blocks, as a GEMM's multiply-adds
};

// Each block reads a panel of its own: `rows` rows, 128 bytes of each at a time, `depth` k-blocks in flight.
extern "C" __global__ void panels(const __grid_constant__ PanelParams p) {
    extern __shared__ __align__(128) char shared[];
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const char* panel = p.base + static_cast<size_t>(blockIdx.x) * p.rows * p.row_bytes;
    const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 16, rows_at_once = blockDim.x / 8;
    const unsigned long long began = cusync::time_ns();
    int k = p.first[blockIdx.x];
#pragma unroll 1
    for (int i = 0; i < p.k_blocks; ++i) {
        const unsigned slot = to + i % p.depth * p.rows * 128;
#pragma unroll 4
        for (int r = row; r < p.rows; r += rows_at_once)
            load_async(slot + r * 128 + column, panel + r * p.row_bytes + static_cast<size_t>(k) * 128 + column);
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (p.depth == 4) wait_async<3>();
        if (p.depth == 3) wait_async<2>();
        if (p.depth == 2) wait_async<1>();
        if (p.depth == 1) wait_async<0>();
        __syncthreads();
        const unsigned long long arrived = cusync::clock_cycles();
        while (cusync::clock_cycles() - arrived < p.work_cycles) {
        }
        k = k + 1 == p.k_blocks ? 0 : k + 1;
    }
    wait_async<0>();
    __syncthreads();
    if (threadIdx.x == 0) p.durations[blockIdx.x] = make_ulonglong2(began, cusync::time_ns());
}

// Every warp reads chunks of 2 KB at random places: of the whole set, or of its block's own part of it.
extern "C" __global__ void random_reads(const uint4* base, unsigned chunks, int is_private, int rounds, unsigned seed,
                                        ulonglong2* durations, unsigned* sink) {
    const unsigned part = is_private ? chunks / gridDim.x : chunks;
    const uint4* from = base + static_cast<size_t>(is_private ? blockIdx.x * part : 0) * 128;
    const unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    unsigned state = (warp + 1) * 2654435761u ^ seed, found = 0;
    const unsigned long long began = cusync::time_ns();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        const uint4* chunk = from + static_cast<size_t>(__umulhi(state * 2654435769u, part)) * 128 + threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint4 value = __ldcg(chunk + 32 * j);
            found ^= value.x ^ value.y ^ value.z ^ value.w;
        }
    }
    if (found == 0x12345678u) *sink = found;
    __syncthreads();
    if (threadIdx.x == 0) durations[blockIdx.x] = make_ulonglong2(began, cusync::time_ns());
}

// Every block reads the whole set, chunk after chunk, round and round; block i begins an i-th of the set further on, so
// that what is read comes again after all of the set was. `rounds` chunks for each warp.
extern "C" __global__ void cyclic_reads(const uint4* base, unsigned chunks, int rounds, ulonglong2* durations,
                                        unsigned* sink) {
    const unsigned warps = blockDim.x / 32;
    unsigned chunk = static_cast<unsigned>(static_cast<unsigned long long>(chunks) * blockIdx.x / gridDim.x) + threadIdx.x / 32;
    unsigned found = 0;
    const unsigned long long began = cusync::time_ns();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        while (chunk >= chunks) chunk -= chunks;
        const uint4* from = base + static_cast<size_t>(chunk) * 128 + threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint4 value = __ldcg(from + 32 * j);
            found ^= value.x ^ value.y ^ value.z ^ value.w;
        }
        chunk += warps;
    }
    if (found == 0x12345678u) *sink = found;
    __syncthreads();
    if (threadIdx.x == 0) durations[blockIdx.x] = make_ulonglong2(began, cusync::time_ns());
}

// The cycles once a loaded value is there: the comparison has to wait for it.
__device__ __forceinline__ unsigned long long clock_after(unsigned value) {
    unsigned long long now;
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0xdeadbeef; @p trap; mov.u64 %0, %%clock64; }"
                 : "=l"(now)
                 : "r"(value)
                 : "memory");
    return now;
}

// One thread of one block reads `count` lines one after the other, `rounds` times: cycles of each read of the last round.
// The other blocks leave, so that the reader's SM is the one that block `reader` was given. Coherent reads go to where
// the line belongs; others may find a copy nearer by.
extern "C" __global__ void latencies(const unsigned* lines, int count, unsigned apart, int rounds, unsigned reader,
                                     int is_coherent, unsigned* cycles, unsigned* sms) {
    if (blockIdx.x != reader || threadIdx.x != 0) return;
    unsigned last = 0;
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < count; ++i) {
            const unsigned* line = lines + static_cast<size_t>(i) * apart + last;
            const unsigned long long began = cusync::clock_cycles();
            last = is_coherent ? cusync::load_relaxed(line) : __ldcg(line);  // reads 0
            cycles[reader * count + i] = static_cast<unsigned>(clock_after(last) - began);
        }
    }
    sms[reader] = cusync::sm_id();
}
