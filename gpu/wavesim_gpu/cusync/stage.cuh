// One stage of a pipeline, seen from inside one of its thread blocks. Which tile comes at which position, what it
// posts and what its producers' tiles are worth waiting for comes from a generated header (`wavesim gen`):
//
//     #include "mlp.cuh"                                  // generated: struct mlp::gemm2 and what it reads
//     ... const __grid_constant__ cusync::StageParams<mlp::gemm2> sync ...      // a kernel parameter
//     cusync::Stage<mlp::gemm2> stage(sync);
//     const cusync::Tile tile = stage.begin();            // which tile is mine (and: this stage has started)
//     stage.wait(0, x, y);                                // until tile (x, y) of producer 0 is there
//     ... read the producer's tile, write mine ...
//     stage.finish(tile);                                 // my tile is there
//
// begin, wait and finish are called by all threads of the block. What they are made of has no barriers and is called
// by one thread, for kernels whose warps have roles of their own or whose blocks compute one tile after another.
// A kernel with a software pipeline waits through cusync/schedule.cuh, from one warp.
#pragma once

#include <cusync/semaphore.cuh>
#include <cusync/trace.cuh>

namespace cusync {

// One step of a wait schedule: before work item `at`, tile (x, y) of producer `input` must be there. Lists are padded
// to a multiple of 32 with at least one closing step, at = INT_MAX and input = -1.
struct __align__(16) WaitStep {
    int at, input, x, y;
};

// What every kernel of a pipeline gets, whatever it computes: 64 bytes, filled by wavesim_gpu/layout.py.
struct SyncParams {
    unsigned* counters;         // as the generated header numbers them: started blocks per stage, ..., semaphores
    ErrorBuffer* errors;
    BlockRecord* records;       // one per block; unread unless CUSYNC_RECORD
    unsigned long long limit_ns;
    const WaitStep* schedule;   // lists of steps sorted by `at`
    const int* schedule_first;  // y * slices + z -> its first step; null: nothing to wait for
    int stage, stage_count;
    // Where the kernels put the counters back to zero themselves: how many there are, the last one counting the blocks
    // that have left, and the blocks of all stages. Else 0: the host does it before each run.
    int counter_count, block_count;
};
static_assert(sizeof(SyncParams) == 64, "layout.py packs 64 bytes");

// One thread calls it when its block will use the counters no more. The last block of all stages puts them back to
// zero: a run then leaves them as it found them, and no memset has to come before the next. Acquire and release: the
// zeros come after all uses.
__device__ __forceinline__ void leave(const SyncParams& sync) {
    if (sync.counter_count == 0) return;
    if (take_ticket(sync.counters + sync.counter_count - 1) != static_cast<unsigned>(sync.block_count - 1)) return;
    uint4* const quads = reinterpret_cast<uint4*>(sync.counters);
    for (int i = 0; i < sync.counter_count / 4; ++i) quads[i] = make_uint4(0, 0, 0, 0);
}

// A kernel parameter. `generated` holds the grids if they are known at run time only, and is empty otherwise.
template <class Generated>
struct StageParams {
    SyncParams sync;
    Generated generated;
};

struct Tile {
    int x, y, z;     // column, row, split-K slice
    int linear;      // y * columns + x
    int position;    // how many blocks of this stage started before
};

// A counter and the value at which a producer's tile is there.
struct Awaited {
    int counter;
    unsigned value;
};

// RECORD_LINES: tiles that one block may have begun and not finished, when recorded (persistent kernels: 2).
template <class Generated_, int RECORD_LINES = 1>
class Stage {
public:
    using Generated = Generated_;

    __device__ __forceinline__ explicit Stage(const StageParams<Generated>& params) : params_(params) {}

    // ---- One thread calls these; they hold no barrier. ----

    // The next position in the tile order: drawn from a counter, or this block's number in the grid where the order
    // is the one in which blocks are issued. It also tells wait-kernels that the stage has started.
    __device__ __forceinline__ int next_position() const {
        if constexpr (Generated::draws_position) {
            return static_cast<int>(take_position(counters() + Generated::started));
        }
        if constexpr (Generated::counts_started) count_start(counters() + Generated::started);
        return static_cast<int>(blockIdx.x);
    }

    // How many positions there are. Persistent kernels are done at the first position that is none.
    __device__ __forceinline__ int positions() const { return params_.generated.blocks(); }

    // Any thread may ask. Slices of a tile are neighbours in the order.
    __device__ __forceinline__ Tile tile_at(int position) const {
        const auto place = params_.generated.tile_at(position);
        return {place.x, place.y, place.z, place.y * params_.generated.columns + place.x, position};
    }

    // What tile (x, y) of producer `input` posts, and the value to wait for.
    __device__ __forceinline__ Awaited awaited(int input, int x, int y) const {
        const auto fact = params_.generated.awaited(input, x, y);
        return {fact.counter, static_cast<unsigned>(fact.value)};
    }

    // What a counter shows now. Relaxed: fence before acting on it.
    __device__ __forceinline__ unsigned value(int counter) const { return load_relaxed(counters() + counter); }

    // Spins until a counter has reached its value; false if the run is aborted. Fence after it.
    __device__ __forceinline__ bool spin(const Awaited& fact, const Tile& tile) const {
        const Watch watch{params_.sync.errors, counters(), params_.sync.limit_ns, params_.sync.stage_count};
        return watch.spin(fact.counter, fact.value, {params_.sync.stage, tile.x, tile.y, tile.z});
    }

    // Until a producer's tile is there: this thread's later reads see it. Ordinary loads only; before TMA loads
    // add fence.proxy.async.global. `line`: the record that the waiting is written to.
    __device__ __forceinline__ void wait_for(const Awaited& fact, const Tile& tile, int line = 0) const {
        if constexpr (mutant == Mutant::no_wait) return;
        // Acquire: where the first look sees the value, it is all that a wait costs.
        if (load_acquire(counters() + fact.counter) >= fact.value) return;
        const WaitStart began = recorder_.begin_wait();
        spin(fact, tile);
        recorder_.end_wait(began, line);
        load_acquire(counters() + fact.counter);  // spinning was relaxed; cheaper than a fence amid others' stores
    }

    // The tile is there: every store that this thread made, or was shown by a barrier just before, is published. After
    // TMA stores first wait until they have been written (cp.async.bulk.wait_group 0).
    __device__ __forceinline__ void post(const Tile& tile) const {
        params_.generated.each_post({tile.x, tile.y, tile.z}, [&](int counter, bool is_only_poster) {
            cusync::post(counters() + counter, is_only_poster);
        });
    }

    // The first step of a tile's wait schedule, or null. Any thread may ask.
    __device__ __forceinline__ const WaitStep* first_step(const Tile& tile) const {
        if (params_.sync.schedule_first == nullptr) return nullptr;
        return params_.sync.schedule + params_.sync.schedule_first[tile.y * params_.generated.slices + tile.z];
    }

    // Where mutants post too early and where delays go in, longer ones in later columns, so that posts come far
    // apart; nothing in a normal build. Before the tile's first store.
    __device__ __forceinline__ void before_stores(const Tile& tile) const {
        if constexpr (mutant == Mutant::early_post) {
            if (is_leader()) post(tile);
        }
        if constexpr (delay_ns > 0 && Generated::output_count > 0) pause_ns(delay_ns * (1 + tile.x));
    }

    // Notes when a tile began, how long it waited, and (at the position) when it ended: record().start(line), then
    // record().finish(records(), tile.position, tile.linear, tile.z, line). Nothing in a normal build.
    __device__ __forceinline__ const Recorder<RECORD_LINES>& recorder() const { return recorder_; }
    __device__ __forceinline__ BlockRecord* records() const { return params_.sync.records; }

    // ---- All threads of the block call these. ----

    // Takes the next position in the tile order, once per block. Where none is drawn, no thread waits for another.
    __device__ __forceinline__ Tile begin() {
        if (is_leader()) recorder_.start();
        if constexpr (!Generated::draws_position) {
            if (is_leader()) next_position();
            return tile_ = tile_at(static_cast<int>(blockIdx.x));
        }
        __shared__ int shared_position;
        if (is_leader()) shared_position = next_position();
        __syncthreads();
        return tile_ = tile_at(shared_position);
    }

    // Until tile (x, y) of producer `input` is there. Under stream sync nothing is waited for.
    __device__ __forceinline__ void wait(int input, int x, int y) const {
        if constexpr (Generated::input_count == 0) return;
        if (is_leader()) wait_for(awaited(input, x, y), tile_);
        // Block barrier: hands the leader's acquire on to the other threads.
        __syncthreads();
    }

    // After wait, in a kernel whose blocks each wait for tiles that no other block waits for: the semaphore back to zero
    // for the next run, so that blocks need not be counted as they leave.
    __device__ __forceinline__ void put_back(int input, int x, int y) const {
        if constexpr (Generated::input_count == 0) return;
        if (is_leader()) store_relaxed(counters() + awaited(input, x, y).counter, 0);
    }

    // My tile is there, after the stores of all threads. With is_last_slice false (an earlier split-K slice)
    // nothing is posted.
    __device__ __forceinline__ void finish(const Tile& tile, bool is_last_slice = true) const {
        // Block barrier: all threads' stores come before the leader's release.
        __syncthreads();
        if (!is_leader()) return;
        if constexpr (mutant != Mutant::early_post) {
            if (is_last_slice) post(tile);
        }
        recorder_.finish(records(), tile.position, tile.linear, tile.z);
        leave(params_.sync);
    }

private:
    __device__ __forceinline__ unsigned* counters() const { return params_.sync.counters; }

    const StageParams<Generated>& params_;
    Recorder<RECORD_LINES> recorder_;
    Tile tile_;
};

}  // namespace cusync
