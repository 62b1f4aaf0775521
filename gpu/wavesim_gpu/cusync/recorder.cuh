// What one tile did, recorded by the kernels of this project: the records of record/wavesim_recorder.cuh, kept in shared
// memory until the tile ends and then stored at the tile's position. Compiled out, it is an empty type.
#pragma once

#include <cusync/clock.cuh>

namespace cusync {

using wavesim::TileRecord;

// Lines in shared memory, not registers: held across a main loop these would slow the kernel down. One thread calls each
// function; a line is one tile of the block, begun and not yet ended.
template <int LINES = 1>
class TileRecorder {
public:
    __device__ __forceinline__ void begin(int line = 0) const {
#if WAVESIM_RECORD
        record(line).begin(time_ns(), clock_cycles());
#endif
    }

    // Around a wait.
    __device__ __forceinline__ void begin_wait(int line = 0) const {
#if WAVESIM_RECORD
        record(line).begin_wait();
#endif
    }
    __device__ __forceinline__ void end_wait(int line = 0) const {
#if WAVESIM_RECORD
        record(line).end_wait();
#endif
    }

    __device__ __forceinline__ void end(TileRecord* to, int stage, int x, int y, int z, int line = 0) const {
#if WAVESIM_RECORD
        record(line).end(stage, x, y, z);
        *to = record(line);
#endif
    }

#if WAVESIM_RECORD
private:
    static __device__ __forceinline__ TileRecord& record(int line) {
        __shared__ TileRecord records[LINES];
        return records[line];
    }
#endif
};

}  // namespace cusync
