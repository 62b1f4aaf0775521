// One stage of a pipeline, seen from inside one of its thread blocks:
//
//     cusync::Stage stage(sync);                 // sync: a cusync::StageParams kernel parameter
//     const cusync::Tile tile = stage.begin();   // which tile is mine (and: this stage has started)
//     stage.wait(0, tile.x, tile.y);             // until tile (x, y) of producer 0 is there
//     ... read the producer's tile, write mine ...
//     stage.finish(tile);                        // my tile is there
//
// begin, wait and finish are called by all threads of the block; a kernel with a software pipeline
// waits through cusync/schedule.cuh instead, from one warp, before a barrier that it has anyway.
#pragma once

#include <cusync/semaphore.cuh>
#include <cusync/trace.cuh>

namespace cusync {

constexpr int max_inputs = 2;
constexpr int max_outputs = 4;

// One step of a wait schedule: before work item `at`, `semaphore` must have reached `awaited`. Lists are
// padded to a multiple of 32 with at least one closing step, at = INT_MAX and awaited = 0.
struct __align__(16) WaitStep {
    int at, semaphore, awaited, reserved;
};

// A kernel parameter, 152 bytes, filled by wavesim_gpu/layout.py. Tables come from the host, so any tile
// order and any policy reaches the device the same way. Semaphore numbers index one pool.
struct StageParams {
    unsigned* semaphores;
    unsigned* tile_counter;            // null: a block's position is its blockIdx.x (stream sync)
    const unsigned* issued;            // tile counters of all stages
    const int* order;                  // position -> y * grid_x + x; null: row-major
    ErrorBuffer* errors;
    BlockRecord* records;              // one per block; unread unless CUSYNC_RECORD
    unsigned long long limit_ns;
    const int2* inputs[max_inputs];    // producer tile -> {semaphore, awaited}; null: nothing to wait for
    const int* outputs[max_outputs];   // own tile -> semaphore
    const WaitStep* schedule;          // lists of steps sorted by `at`
    const int* schedule_first;         // y * grid_z + z -> its first step; null: nothing to wait for
    int input_columns[max_inputs];     // grid_x of each producer
    int grid_x, grid_y, grid_z;        // columns, rows, split-K slices
    int stage, stage_count, output_count;
};
static_assert(sizeof(StageParams) == 152, "layout.py packs 152 bytes");

struct Tile {
    int x, y, z;     // column, row, split-K slice
    int linear;      // y * grid_x + x
    int position;    // how many blocks of this stage started before
};

class Stage {
public:
    __device__ __forceinline__ explicit Stage(const StageParams& params) : params_(params) {}

    // Takes the next position in the tile order. Slices of a tile are neighbours in that order.
    // All threads call it, once. The counter's step also tells wait-kernels that the stage has started.
    __device__ __forceinline__ Tile begin() {
        __shared__ int shared_position;
        recorder_.start();
        if (is_leader()) {
            shared_position = params_.tile_counter ? static_cast<int>(take_position(params_.tile_counter))
                                                   : static_cast<int>(blockIdx.x);
        }
        __syncthreads();
        Tile tile;
        tile.position = shared_position;
        const int place = tile.position / params_.grid_z;
        tile.z = tile.position - place * params_.grid_z;
        tile.linear = params_.order ? params_.order[place] : place;
        tile.y = tile.linear / params_.grid_x;
        tile.x = tile.linear - tile.y * params_.grid_x;
        tile_ = tile;
        return tile;
    }

    // Until tile (x, y) of producer `input` is there. All threads call it.
    __device__ __forceinline__ void wait(int input, int x, int y) {
        if (is_leader() && params_.inputs[input] != nullptr) {
            const int2 fact = params_.inputs[input][y * params_.input_columns[input] + x];
            if (!has_reached(fact.x, fact.y)) {
                const WaitStart began = recorder_.begin_wait();
                spin(fact.x, fact.y);
                recorder_.end_wait(began);
            }
            acquire_fence();  // after the relaxed load that saw the value: turns the pair into an acquire
        }
        // Block barrier: hands the leader's acquire on to the other threads.
        __syncthreads();
    }

    // What a semaphore shows now. Relaxed: fence before acting on it.
    __device__ __forceinline__ unsigned value(int semaphore) const { return load_relaxed(params_.semaphores + semaphore); }

    __device__ __forceinline__ bool has_reached(int semaphore, unsigned awaited) const {
        if constexpr (mutant == Mutant::no_wait) return true;
        return value(semaphore) >= awaited;
    }

    // Spins until a semaphore has reached a value; false if the run is aborted. One thread; fence after it.
    __device__ __forceinline__ bool spin(int semaphore, unsigned awaited) const {
        const Watch watch{params_.errors, params_.issued, params_.limit_ns, params_.stage_count};
        const Identity who{params_.stage, tile_.x, tile_.y, tile_.z};
        return watch.spin(params_.semaphores + semaphore, semaphore, awaited, who);
    }

    // Notes how long waits take.
    __device__ __forceinline__ const Recorder& recorder() const { return recorder_; }

    // The first step of this tile's wait schedule, or null.
    __device__ __forceinline__ const WaitStep* first_step() const {
        if (params_.schedule_first == nullptr) return nullptr;
        return params_.schedule + params_.schedule_first[tile_.y * params_.grid_z + tile_.z];
    }

    // Where mutants post too early and where delays go in, longer ones in later columns, so that posts come far
    // apart; nothing in a normal build. Call before the tile's first store.
    __device__ __forceinline__ void before_stores() {
        if constexpr (mutant == Mutant::early_post) post_all();
        if constexpr (delay_ns > 0) {
            if (params_.output_count > 0) pause_ns(delay_ns * (1 + tile_.x));
        }
    }

    // My tile is there. All threads call it, after their stores. With is_last_slice false (an earlier
    // split-K slice) nothing is posted.
    __device__ __forceinline__ void finish(const Tile& tile, bool is_last_slice = true) {
        // Block barrier: all threads' stores come before the leader's release.
        __syncthreads();
        if constexpr (mutant != Mutant::early_post) {
            if (is_last_slice) post_all();
        }
        recorder_.finish(params_.records, tile.position, tile.linear, tile.z);
    }

private:
    __device__ __forceinline__ void post_all() {
        if (!is_leader()) return;
        for (int i = 0; i < params_.output_count; ++i) {
            post(params_.semaphores + params_.outputs[i][tile_.linear]);
        }
    }

    const StageParams& params_;
    Recorder recorder_;
    Tile tile_;
};

}  // namespace cusync
