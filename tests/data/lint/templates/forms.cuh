// Waits and posts in the forms in which the field writes them. WAIT_..., POST_... and SCOPE_... choose a form; a
// fault (NO_ACQUIRE, NARROW_POST, ...) leaves out or changes one thing in it.
#pragma once

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#if SCOPE_sys
#define SCOPE sys
#define FENCE_AT_SCOPE __threadfence_system()
#else
#define SCOPE gpu
#define FENCE_AT_SCOPE __threadfence()
#endif

// Peers and the host need the system's scope, other blocks the GPU's: either can be one too narrow.
#if NARROW_WAIT
#define WAIT_SCOPE cta
#define WAIT_FENCE __threadfence_block()
#elif GPU_SCOPE_WAIT
#define WAIT_SCOPE gpu
#define WAIT_FENCE __threadfence()
#else
#define WAIT_SCOPE SCOPE
#define WAIT_FENCE FENCE_AT_SCOPE
#endif
#if NARROW_POST
#define POST_SCOPE cta
#define POST_FENCE __threadfence_block()
#elif GPU_SCOPE_POST
#define POST_SCOPE gpu
#define POST_FENCE __threadfence()
#else
#define POST_SCOPE SCOPE
#define POST_FENCE FENCE_AT_SCOPE
#endif

#if NO_ACQUIRE
#define ACQUIRE relaxed
#else
#define ACQUIRE acquire
#endif
#if NO_RELEASE
#define RELEASE relaxed
#else
#define RELEASE release
#endif

// One look at the flag. `needs_fence` says that the form acquires by a fence after the loop.
#if WAIT_volatile
constexpr bool needs_fence = true;
__device__ __forceinline__ unsigned look(unsigned* flag) { return *reinterpret_cast<volatile unsigned*>(flag); }
#elif WAIT_atomic_add
constexpr bool needs_fence = true;
__device__ __forceinline__ unsigned look(unsigned* flag) { return atomicAdd(flag, 0); }
#elif WAIT_atomic_cas
constexpr bool needs_fence = true;
__device__ __forceinline__ unsigned look(unsigned* flag) { return atomicCAS(flag, ~0u, ~0u); }
#elif WAIT_relaxed
constexpr bool needs_fence = true;
__device__ __forceinline__ unsigned look(unsigned* flag) {
    unsigned seen;
    asm volatile("ld.relaxed." TEXT(SCOPE) ".global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    return seen;
}
#elif WAIT_atom_acquire
constexpr bool needs_fence = false;
__device__ __forceinline__ unsigned look(unsigned* flag) {
    unsigned seen;
    asm volatile("atom.add." TEXT(ACQUIRE) "." TEXT(WAIT_SCOPE) ".global.u32 %0, [%1], 0;"
                 : "=r"(seen) : "l"(flag) : "memory");
    return seen;
}
#elif WAIT_generic_acquire
constexpr bool needs_fence = false;
__device__ __forceinline__ unsigned look(unsigned* flag) {
    unsigned seen;
    asm volatile("ld." TEXT(ACQUIRE) "." TEXT(WAIT_SCOPE) ".u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    return seen;
}
#else  // WAIT_ld_acquire
constexpr bool needs_fence = false;
__device__ __forceinline__ unsigned look(unsigned* flag) {
#if WEAK_POLL
    return *flag;
#else
    unsigned seen;
    asm volatile("ld." TEXT(ACQUIRE) "." TEXT(WAIT_SCOPE) ".global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    return seen;
#endif
}
#endif

__device__ __forceinline__ void acquire_after_loop() {
#if !NO_ACQUIRE && !FENCE_BEFORE_POLL
    if constexpr (needs_fence) WAIT_FENCE;
#endif
}

// Returns once the flag holds `value` or more; what its poster had stored may then be read.
__device__ __forceinline__ void wait_at_least(unsigned* flag, unsigned value) {
#if NO_WAIT
    return;
#endif
#if FENCE_BEFORE_POLL
    WAIT_FENCE;
#endif
#if LOOK_ONCE
    if (look(flag) < value) __nanosleep(1000);
#elif BACKOFF_nanosleep
    while (look(flag) < value) __nanosleep(20);
#elif BACKOFF_bounded
    for (unsigned tries = 0; look(flag) < value;)
        if (++tries == 100000000u) __trap();
#else
    while (look(flag) < value) {
    }
#endif
    acquire_after_loop();
}

// Returns once the flag holds exactly `value`.
__device__ __forceinline__ void wait_equal(unsigned* flag, unsigned value) {
#if NO_WAIT
    return;
#endif
#if FENCE_BEFORE_POLL
    WAIT_FENCE;
#endif
#if LOOK_ONCE
    if (look(flag) != value) __nanosleep(1000);
#else
    while (look(flag) != value) {
    }
#endif
    acquire_after_loop();
}

// Adds to the flag, or stores into it, so that whoever acquires the value sees what this thread has stored or was
// shown by a block barrier. The forms that store are for flags with one poster.
__device__ __forceinline__ void post(unsigned* flag, unsigned value) {
#if NO_POST
    return;
#endif
#if POST_fence_add || POST_fence_volatile || POST_fence_exch || POST_fence_relaxed
#if !NO_RELEASE && !FENCE_AFTER_POST
    POST_FENCE;
#endif
#endif
#if POST_fence_add
    atomicAdd(flag, value);
#elif POST_fence_volatile
    *reinterpret_cast<volatile unsigned*>(flag) = value;
#elif POST_fence_exch
    atomicExch(flag, value);
#elif POST_fence_relaxed
    asm volatile("red.relaxed." TEXT(SCOPE) ".global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#elif POST_st_release
    asm volatile("st." TEXT(RELEASE) "." TEXT(POST_SCOPE) ".global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#elif POST_atom_release
    unsigned before;
    asm volatile("atom.add." TEXT(RELEASE) "." TEXT(POST_SCOPE) ".global.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(flag), "r"(value) : "memory");
#else  // POST_red_release
    asm volatile("red." TEXT(RELEASE) "." TEXT(POST_SCOPE) ".global.add.u32 [%0], %1;"
                 ::"l"(flag), "r"(value) : "memory");
#endif
#if FENCE_AFTER_POST
    POST_FENCE;
#endif
}
