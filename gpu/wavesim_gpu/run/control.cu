// The small kernels around the real ones: hold a stream until other stages have started, and pass time.

#include <cusync/stage.cuh>

struct WaitKernelParams {
    int producers[2];
    int producer_count;
    unsigned long long* times;  // start and end, when recorded; or null
};

// One block, before a consumer on its stream: returns once every producer's first block has started, so
// that the consumer's blocks are issued after the producers'. It says nothing about data.
extern "C" __global__ void wait_for_start(const __grid_constant__ cusync::SyncParams sync,
                                          const __grid_constant__ WaitKernelParams p) {
    if (threadIdx.x != 0) return;
    const unsigned long long began = cusync::time_ns();
    const cusync::Watch watch = cusync::watch_of(sync);
    for (int i = 0; i < p.producer_count; ++i) {
        // Relaxed spin and no fence: nothing is read on the strength of it. Where it gives up, the consumer's blocks find
        // out by themselves.
        watch.spin(p.producers[i], 1, {sync.stage, -1, -1, -1});
    }
    if (p.times != nullptr) {
        p.times[0] = began;
        p.times[1] = cusync::time_ns();
    }
}

// One thread that keeps a stream busy, so that the host can queue work behind it.
extern "C" __global__ void pass_time(unsigned long long duration_ns) { cusync::pause_ns(duration_ns); }
