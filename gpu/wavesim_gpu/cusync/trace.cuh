// What one thread block did, on one line: where, when, how long it spun. With CUSYNC_RECORD unset the
// recorder is an empty type and timed runs carry none of it.
#pragma once

#include <cusync/clock.cuh>

#ifndef CUSYNC_RECORD
#define CUSYNC_RECORD 0
#endif

namespace cusync {

// 48 bytes; wavesim_gpu/layout.py reads it.
struct BlockRecord {
    unsigned long long start_ns, end_ns;
    unsigned long long cycles;
    unsigned wait_ns, wait_cycles;
    int tile, slice, sm, position;
};

// Held by the one thread per block that also waits and posts.
class Recorder {
public:
    __device__ __forceinline__ void start() {
#if CUSYNC_RECORD
        start_ns_ = time_ns();
        start_cycles_ = cycles();
#endif
    }

    __device__ __forceinline__ void begin_wait() {
#if CUSYNC_RECORD
        wait_began_ns_ = time_ns();
        wait_began_cycles_ = cycles();
#endif
    }

    __device__ __forceinline__ void end_wait() {
#if CUSYNC_RECORD
        wait_ns_ += static_cast<unsigned>(time_ns() - wait_began_ns_);
        wait_cycles_ += static_cast<unsigned>(cycles() - wait_began_cycles_);
#endif
    }

    __device__ __forceinline__ void finish(BlockRecord* records, int position, int tile, int slice) const {
#if CUSYNC_RECORD
        records[position] = {start_ns_, time_ns(), cycles() - start_cycles_, wait_ns_, wait_cycles_,
                             tile, slice, static_cast<int>(sm_id()), position};
#endif
    }

private:
#if CUSYNC_RECORD
    unsigned long long start_ns_ = 0, start_cycles_ = 0, wait_began_ns_ = 0, wait_began_cycles_ = 0;
    unsigned wait_ns_ = 0, wait_cycles_ = 0;
#endif
};

}  // namespace cusync
