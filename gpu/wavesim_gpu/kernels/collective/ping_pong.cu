// One thread on each of two GPUs: they post round numbers to each other and note when, each on its own clock. So the host
// knows between which two moments of one clock a moment of the other lies.

#include <kernels/collective/semaphores.cuh>

struct PingPongParams {
    const unsigned* own;            // where the other posts
    unsigned* other;
    unsigned long long* times;      // by round: posted and answered on the GPU that begins; seen on the other
    unsigned long long limit_ns;    // of a wait; then all later times stay as they are
    int rounds, begins;
};
static_assert(sizeof(PingPongParams) == 40, "layout.py packs 40 bytes");

__device__ __forceinline__ bool wait_for_round(const PingPongParams& p, unsigned round) {
    const unsigned long long began = cusync::time_ns();
    // Acquire: the clock is read after the post was seen.
    while (peers::load_acquire(p.own) != round) {
        if (cusync::time_ns() - began > p.limit_ns) return false;
    }
    return true;
}

extern "C" __global__ void ping_pong(const __grid_constant__ PingPongParams p) {
    for (int i = 0; i < p.rounds; ++i) {
        const unsigned round = static_cast<unsigned>(i) + 1;
        if (p.begins) {
            const unsigned long long posted = cusync::time_ns();
            peers::store_release(p.other, round);
            if (!wait_for_round(p, round)) return;
            p.times[2 * i] = posted, p.times[2 * i + 1] = cusync::time_ns();
        } else {
            if (!wait_for_round(p, round)) return;
            p.times[i] = cusync::time_ns();
            peers::store_release(p.other, round);
        }
    }
}
