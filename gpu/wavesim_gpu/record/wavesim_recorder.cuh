// Records what every tile of your kernel did: stage, tile, SM, nanoseconds, cycles and time waited. One file,
// no other needed, for nvcc, NVRTC and kernels in the manner of CUTLASS:
//
//     #include "wavesim_recorder.cuh"
//
//     __global__ void matmul(..., void* recording) {         // null: nothing is recorded
//         wavesim::Recorder recorder(recording);
//         recorder.begin();                                   // first line
//         ...
//         recorder.begin_wait(); while (...) {} recorder.end_wait();   // around a wait, if there is one
//         ...
//         __syncthreads();                                    // all warps are done
//         recorder.end(stage, tile_x, tile_y);                // last line
//     }
//
// A persistent kernel calls begin and end once per tile. One thread records: the block's first, or the one
// for which begin's argument is true; it also calls the others. Between begin and end a record's number is
// all that lives in registers, and no shared memory is used. With WAVESIM_RECORD defined as 0 nothing is left.
//
// The buffer is one header of 64 bytes, then `capacity` records of 64 bytes, aligned to 16. Make the header with
// wavesim::recording_header(capacity) and copy it to the buffer's start before every run: that empties it. Tiles
// beyond the capacity are counted and not written; a buffer without the header's magic number is not written to
// but for its count.
#pragma once

#ifndef WAVESIM_RECORD
#define WAVESIM_RECORD 1
#endif

namespace wavesim {

constexpr unsigned recording_magic = 0x52435357u;  // "WSCR"
constexpr unsigned recording_version = 1;

// "memory" keeps the compiler from moving loads and stores across a look at the clock.
__device__ __forceinline__ unsigned long long time_ns() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

__device__ __forceinline__ unsigned long long clock_cycles() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
    return value;
}

__device__ __forceinline__ unsigned sm_id() {
    unsigned value;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(value));
    return value;
}

// wavesim_gpu/record/layout.py reads both structures.
struct __align__(16) RecordingHeader {
    unsigned magic, capacity, count, version;
    unsigned reserved[12];
};

// What one tile did, wherever the record is kept: Recorder keeps it in the buffer that the user gives, our own kernels
// keep it in shared memory until the tile ends. One thread calls the functions.
struct __align__(16) TileRecord {
    unsigned long long start_ns, start_cycles;
    unsigned long long end_ns, end_cycles;  // 0: begun and not ended
    int stage, x, y, z;
    unsigned wait_ns, wait_cycles, sm, threads;

    __device__ __forceinline__ void begin(unsigned long long ns, unsigned long long cycles) {
        start_ns = ns, start_cycles = cycles, end_ns = 0, end_cycles = 0;
        wait_ns = 0, wait_cycles = 0, sm = sm_id(), threads = blockDim.x * blockDim.y * blockDim.z;
    }

    // Sums are kept modulo 2^32 in memory, so that no register is held meanwhile: a difference of two clocks comes out
    // right.
    __device__ __forceinline__ void begin_wait() {
        atomicAdd(&wait_ns, 0u - static_cast<unsigned>(time_ns()));
        atomicAdd(&wait_cycles, 0u - static_cast<unsigned>(clock_cycles()));
    }
    __device__ __forceinline__ void end_wait() {
        atomicAdd(&wait_ns, static_cast<unsigned>(time_ns()));
        atomicAdd(&wait_cycles, static_cast<unsigned>(clock_cycles()));
    }

    __device__ __forceinline__ void end(int of_stage, int at_x, int at_y, int at_z) {
        end_ns = time_ns(), end_cycles = clock_cycles();
        stage = of_stage, x = at_x, y = at_y, z = at_z;
    }
};
static_assert(sizeof(RecordingHeader) == 64 && sizeof(TileRecord) == 64, "layout.py reads 64 bytes each");

__host__ __device__ constexpr unsigned long long recording_bytes(unsigned capacity) {
    return sizeof(RecordingHeader) + capacity * static_cast<unsigned long long>(sizeof(TileRecord));
}

__host__ __device__ constexpr RecordingHeader recording_header(unsigned capacity) {
    return {recording_magic, capacity, 0, recording_version, {}};
}

class Recorder {
public:
    __device__ __forceinline__ explicit Recorder(void* recording)
#if WAVESIM_RECORD
        : buffer_(static_cast<char*>(recording)) {
    }
#else
    {
        (void)recording;
    }
#endif

    // The tile starts now.
    __device__ __forceinline__ void begin() { begin((threadIdx.x | threadIdx.y | threadIdx.z) == 0); }

    // The same, with another thread as the one that records.
    __device__ __forceinline__ void begin(bool is_recorder) {
#if WAVESIM_RECORD
        number_ = none;
        if (buffer_ == nullptr || !is_recorder) return;
        const unsigned long long ns = time_ns(), cycles = clock_cycles();
        // The header's load and the count's step go out together, so that begin costs one trip to the L2.
        const RecordingHeader& header = *reinterpret_cast<const RecordingHeader*>(buffer_);
        const uint2 known = *reinterpret_cast<const uint2*>(&header.magic);
        const unsigned number = atomicAdd(reinterpret_cast<unsigned*>(buffer_ + 8), 1u);
        if (known.x != recording_magic || number >= known.y) return;
        number_ = number;
        record().begin(ns, cycles);
#endif
    }

    // Around a wait.
    __device__ __forceinline__ void begin_wait() {
#if WAVESIM_RECORD
        if (number_ != none) record().begin_wait();
#endif
    }

    __device__ __forceinline__ void end_wait() {
#if WAVESIM_RECORD
        if (number_ != none) record().end_wait();
#endif
    }

    // The tile ends now. Call it after a block barrier, so that no warp is still at work.
    __device__ __forceinline__ void end(int stage, int x, int y = 0, int z = 0) {
#if WAVESIM_RECORD
        if (number_ != none) record().end(stage, x, y, z);
#else
        (void)stage, (void)x, (void)y, (void)z;
#endif
    }

#if WAVESIM_RECORD
private:
    static constexpr unsigned none = 0xffffffffu;

    __device__ __forceinline__ TileRecord& record() const {
        return reinterpret_cast<TileRecord*>(buffer_ + sizeof(RecordingHeader))[number_];
    }

    char* buffer_;
    unsigned number_ = none;
#endif
};

}  // namespace wavesim
