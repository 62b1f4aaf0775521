// What one thread block did, on one line: where, when, how long it spun. With CUSYNC_RECORD unset the
// recorder is an empty type and timed runs carry none of it.
#pragma once

#include <cusync/clock.cuh>

#ifndef CUSYNC_RECORD
#define CUSYNC_RECORD 0
#endif

namespace cusync {

// The one thread of the block that takes positions, posts and records.
__device__ __forceinline__ bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

// 48 bytes; wavesim_gpu/layout.py reads it.
struct BlockRecord {
    unsigned long long start_ns, end_ns;
    unsigned long long cycles;
    unsigned wait_ns, wait_cycles;
    int tile, slice, sm, position;
};

// When a wait began.
struct WaitStart {
#if CUSYNC_RECORD
    unsigned long long ns, cycles;
#endif
};

// Keeps its lines in shared memory: registers held across a main loop would slow the kernel down. One thread calls
// each function; a line is one tile of the block, begun and not yet finished.
template <int LINES = 1>
class Recorder {
public:
    __device__ __forceinline__ void start(int line = 0) const {
#if CUSYNC_RECORD
        record(line) = {time_ns(), 0, cycles(), 0, 0, 0, 0, static_cast<int>(sm_id()), 0};
#endif
    }

    __device__ __forceinline__ WaitStart begin_wait() const {
#if CUSYNC_RECORD
        return {time_ns(), cycles()};
#else
        return {};
#endif
    }

    __device__ __forceinline__ void end_wait(const WaitStart& began, int line = 0) const {
#if CUSYNC_RECORD
        record(line).wait_ns += static_cast<unsigned>(time_ns() - began.ns);
        record(line).wait_cycles += static_cast<unsigned>(cycles() - began.cycles);
#endif
    }

    __device__ __forceinline__ void finish(BlockRecord* records, int position, int tile, int slice, int line = 0) const {
#if CUSYNC_RECORD
        BlockRecord done = record(line);
        done.end_ns = time_ns();
        done.cycles = cycles() - done.cycles;
        done.tile = tile, done.slice = slice, done.position = position;
        records[position] = done;
#endif
    }

#if CUSYNC_RECORD
private:
    static __device__ __forceinline__ BlockRecord& record(int line) {
        __shared__ BlockRecord records[LINES];
        return records[line];
    }
#endif
};

}  // namespace cusync
