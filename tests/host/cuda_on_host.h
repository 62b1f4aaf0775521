// What CUDA gives a kernel, for a host compiler: a warp is one thread of the host, its first lane. So lanes of a warp
// cannot race with each other here, and __syncwarp means nothing; warps and blocks can.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#define WAVESIM_RECORD 0
#define WAVESIM_WAIT_LIMIT_NS host::limit_ns
#define __CUDACC__
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

using std::max;
using std::min;

struct dim3 {
    unsigned x = 0, y = 0, z = 0;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

inline thread_local dim3 threadIdx, blockIdx, blockDim{1, 1, 1}, gridDim{1, 1, 1};

namespace host {

inline unsigned long long seed = 1, limit_ns = 20'000'000'000ull;  // of a wait in which nothing moves
inline std::atomic<unsigned long long> operations{0}, rounds{0};
// What is dropped, by the function that it is in: "fetch_add_acq_rel release" is one order of an instruction,
// "add_release whole" the instruction, "finish" a barrier or a fence.
inline const char* dropped = "";

// All of so many threads, again and again. Not std::barrier: that one tells threads of other barriers more than it should,
// by what all waits of the library share.
class Barrier {
public:
    void expect(unsigned count) { pthread_barrier_init(&barrier_, nullptr, count); }
    // True for one of them.
    bool wait() { return pthread_barrier_wait(&barrier_) == PTHREAD_BARRIER_SERIAL_THREAD; }

private:
    pthread_barrier_t barrier_;
};

// Per thread of the host: its random numbers, what it has counted, and the barrier of its block.
struct Thread {
    unsigned long long random = 1, operations = 0, at_pause = 0;  // operations when it last paused in a wait
    const unsigned* relaxed[8] = {};  // addresses of its latest relaxed loads, for a fence
    unsigned relaxed_count = 0;
    Barrier* block = nullptr;
    Barrier* mma_warps = nullptr;  // of the block
    Barrier* blocks_of_cluster = nullptr;
    unsigned place = 0;  // of the block among those that are resident
    unsigned cluster = 1, rank = 0, shared_base = 0;
    std::atomic<bool>* vote = nullptr;  // of the block: somebody said no
    ~Thread() { host::operations.fetch_add(operations, std::memory_order_relaxed); }
};
inline thread_local Thread self;

// A __shared__ variable: one for each resident block.
constexpr unsigned most_blocks = 8;
template <class T, class Tag>
T& of_block() {
    static T each[most_blocks];
    return each[self.place];
}

inline void begin_thread(unsigned long long number) { self.random = (seed * 0x9e3779b97f4a7c15ull + number) | 1; }

// Before each primitive: now and then another thread comes first.
inline void step() {
    ++self.operations;
    unsigned long long& r = self.random;
    r ^= r << 13, r ^= r >> 7, r ^= r << 17;
    if ((r & 127) == 0) sched_yield();
    if ((r & 1023) == 1) {
        for (unsigned i = r >> 32 & 4095; i > 0; --i) asm volatile("");
    }
}

// Whether the order of that kind is dropped, of what has only one any.
inline bool is_dropped(const char* site, const char* kind = "") {
    if (*dropped == '\0') return false;
    const std::string_view at(dropped), name(site);
    if (!at.starts_with(name)) return false;
    return at.size() == name.size() || (at[name.size()] == ' ' && at.substr(name.size() + 1) == kind);
}

inline bool is_left_out(const char* site) {
    if (*dropped == '\0') return false;
    const std::string_view at(dropped), name(site);
    return at.size() == name.size() + 6 && at.starts_with(name) && at.ends_with(" whole");
}

inline void barrier(const char* site, Barrier* of) {
    step();
    if (!is_dropped(site)) of->wait();
}

// Whether it is true of all warps of the block. The later barriers let nobody be a vote ahead.
inline bool barrier_and(const char* site, bool is_true) {
    step();
    if (is_dropped(site)) return is_true;
    if (!is_true) self.vote->store(true, std::memory_order_relaxed);
    self.block->wait();
    const bool are_all = !self.vote->load(std::memory_order_relaxed);
    self.block->wait();
    self.vote->store(false, std::memory_order_relaxed);
    self.block->wait();
    return are_all;
}

}  // namespace host

#define __syncthreads() host::barrier(__func__, host::self.block)
#define __syncthreads_and(is_true) host::barrier_and(__func__, is_true)
#define __syncthreads_or(is_true) (!host::barrier_and(__func__, !(is_true)))
inline void __syncwarp(unsigned = 0) {}
// In a wait, after up to three operations that have found nothing: they do not count.
inline void __nanosleep(unsigned) {
    unsigned long long &all = host::self.operations, &before = host::self.at_pause;
    all -= std::min(3ull, before < all ? all - before : all);
    before = all;
    sched_yield();
}
inline unsigned __ballot_sync(unsigned, bool is_true) { return is_true ? 1 : 0; }
inline bool __all_sync(unsigned, bool is_true) { return is_true; }
template <class T>
T __shfl_sync(unsigned, T value, int, int = 32) { return value; }
template <class T>
T __shfl_xor_sync(unsigned, T value, int) { return value; }
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline std::size_t __cvta_generic_to_shared(const void* at) { return reinterpret_cast<std::size_t>(at); }
inline float __int_as_float(int bits) { float f; std::memcpy(&f, &bits, 4); return f; }
inline float __uint_as_float(unsigned bits) { return __int_as_float(static_cast<int>(bits)); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }

// Relaxed, as CUDA's own are.
inline unsigned atomicAdd(unsigned* at, unsigned value) {
    host::step();
    return std::atomic_ref(*at).fetch_add(value, std::memory_order_relaxed);
}
inline unsigned atomicExch(unsigned* at, unsigned value) {
    host::step();
    return std::atomic_ref(*at).exchange(value, std::memory_order_relaxed);
}
inline unsigned atomicCAS(unsigned* at, unsigned old, unsigned value) {
    host::step();
    std::atomic_ref(*at).compare_exchange_strong(old, value, std::memory_order_relaxed);
    return old;
}
// To the host, which looks after the run: the stores before it are plain here and come before the run's end.
inline void __threadfence_system() {}
