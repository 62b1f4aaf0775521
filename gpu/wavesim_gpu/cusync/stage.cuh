// One stage of a pipeline, seen from inside one of its thread blocks. Which tile comes at which position, what it
// posts and what its producers' tiles are worth waiting for comes from a generated header (`wavesim gen`):
//
//     #include "mlp.cuh"                                  // generated: struct mlp::gemm2 and what it reads
//     ... const __grid_constant__ cusync::StageParams<mlp::gemm2> sync ...      // a kernel parameter
//     cusync::Stage<mlp::gemm2> stage(sync);
//     const cusync::Tile tile = stage.begin();            // which tile is mine (and: this stage has started)
//     const bool is_there = stage.wait(0, x, y);          // until tile (x, y) of producer 0 is there
//     ... read the producer's tile, write mine, or NaN where it is not there ...
//     stage.finish(tile);                                 // my tile is there
//
// begin, wait and finish are called by all threads of the block. What they are made of has no barriers and is called
// by one thread, for kernels whose warps have roles of their own or whose blocks compute one tile after another.
// A kernel with a software pipeline waits through cusync/wait_schedule.cuh, from one warp.
#pragma once

#include <cusync/call.cuh>
#include <cusync/recorder.cuh>
#include <cusync/watch.cuh>

namespace cusync {

// The one thread of the block that fetches positions, posts and records.
__device__ __forceinline__ bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

// One step of a wait schedule: before work item `at`, tile (x, y) of producer `input` must be there. Lists are padded
// to a multiple of 32 with at least one closing step, at = INT_MAX and input = -1.
struct __align__(16) WaitStep {
    int at, input, x, y;
};

// What every kernel of a pipeline gets, whatever it computes: 104 bytes, filled by wavesim_gpu/cusync/layout.py.
struct SyncParams {
    unsigned* counters;         // as the generated header numbers them: started blocks per stage, ..., semaphores
    ErrorBuffer* errors;
    TileRecord* records;        // one per tile and split, by position; unused unless WAVESIM_RECORD
    unsigned long long limit_ns;
    const WaitStep* schedule;   // lists of steps sorted by `at`
    const int* schedule_first;  // y * splits + z -> its first step; null: nothing to wait for
    int stage, stage_count;
    // Where the kernels put the counters back to zero themselves: how many there are, the last one counting the blocks
    // retired, and the blocks of all stages. Else 0: the host does it before each run.
    int counter_count, block_count;
    Call call;
};
static_assert(sizeof(SyncParams) == 104, "layout.py packs 104 bytes");

// What a waiter needs of them.
__device__ __forceinline__ Watch watch_of(const SyncParams& sync) {
    return {sync.errors, sync.counters, sync.limit_ns, sync.stage_count};
}

// One thread calls it when its block will use the counters no more. The last block of all stages puts them back to
// zero: a run then leaves them as it found them, and no memset has to come before the next. Acquire and release: the
// zeros come after all uses. Of a library call it also says so where a wait gave up.
__device__ __forceinline__ void retire_block(const SyncParams& sync) {
    if (sync.counter_count == 0) return;
    unsigned* const retired = sync.counters + sync.counter_count - 1;
    if (fetch_add_acq_rel(retired, 1) != static_cast<unsigned>(sync.block_count - 1)) return;
    if (sync.call.slot != nullptr) end_call(sync.call, sync.errors);
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
    int x, y, z;     // column, row, split of K
    int linear;      // y * columns + x
    int position;    // how many blocks of this stage started before
};

// A counter and the value at which a producer's tile is there.
struct Awaited {
    int counter;
    unsigned value;
};

// How a kernel uses its stage; a kernel whose blocks compute several tiles, or whose warps have roles, has its own.
struct OneTilePerBlock {
    static constexpr int record_lines = 1;             // tiles that a block may have begun and not finished
    static constexpr bool spins_in_line = false;       // see Stage::spin
    static constexpr bool tiles_may_lie_outside = false;  // of the grid: linear < 0
};

template <class Generated_, class Use = OneTilePerBlock>
class Stage {
public:
    using Generated = Generated_;

    __device__ __forceinline__ explicit Stage(const StageParams<Generated>& params) : params_(params) {}

    // ---- One thread calls these; they hold no barrier. ----

    // The next position in the tile order: fetched from a counter (dynamic tile scheduling), or this block's number in
    // the grid where tiles come in the order in which blocks are issued. It also tells wait-kernels that the stage has
    // started.
    __device__ __forceinline__ int fetch_position() const {
        if constexpr (Generated::draws_position) {
            return static_cast<int>(fetch_add_relaxed(counters() + Generated::started, 1));
        }
        if constexpr (Generated::counts_started) add_relaxed(counters() + Generated::started, 1);
        return static_cast<int>(blockIdx.x);
    }

    // How many positions there are. Persistent kernels are done at the first position that is none.
    __device__ __forceinline__ int positions() const { return params_.generated.blocks(); }

    // Any thread may ask. Splits of a tile are neighbours in the order.
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

    // Spins until a counter has reached its value; false if the run is aborted. Fence after it. In line where a call
    // would cost more: beside wgmma, one that is not inlined takes the registers that the calling convention asks for
    // from the whole kernel, and the sums of a 128 x 256 tile no longer fit.
    __device__ __forceinline__ bool spin(const Awaited& fact, const Tile& tile) const {
        const Watch watch = watch_of(params_.sync);
        const Identity who{params_.sync.stage, tile.x, tile.y, tile.z};
        if constexpr (Use::spins_in_line) return watch.spin_here(fact.counter, fact.value, who);
        return watch.spin(fact.counter, fact.value, who);
    }

    // Until a producer's tile is there: this thread's later reads see it. False if the run is aborted. Ordinary loads
    // only; before TMA loads add fence.proxy.async.global. `line`: the record that the waiting is written to.
    __device__ __forceinline__ bool wait_for(const Awaited& fact, const Tile& tile, int line = 0) const {
        if constexpr (mutant == Mutant::no_wait) return true;
        // Acquire: where the first try_wait sees the value, it is all that a wait costs.
        if (load_acquire(counters() + fact.counter) >= fact.value) return true;
        recorder_.begin_wait(line);
        const bool is_there = spin(fact, tile);
        recorder_.end_wait(line);
        load_acquire(counters() + fact.counter);  // spinning was relaxed; cheaper than a fence amid others' stores
        return is_there;
    }

    // The tile is there: every store that this thread made, or was shown by a barrier just before, is published. After
    // TMA stores first wait until they have been written (cp.async.bulk.wait_group 0).
    __device__ __forceinline__ void post(const Tile& tile) const {
        params_.generated.each_post({tile.x, tile.y, tile.z}, [&](int counter, bool is_only_poster) {
            cusync::post(counters() + counter, is_only_poster);
        });
    }

    // The first step of a tile's wait schedule, or null where it waits for nothing. Any thread may ask.
    __device__ __forceinline__ const WaitStep* first_step(const Tile& tile) const {
        if constexpr (Use::tiles_may_lie_outside) {
            if (tile.linear < 0) return nullptr;
        }
        if (params_.sync.schedule_first == nullptr) return nullptr;
        return params_.sync.schedule + params_.sync.schedule_first[tile.y * params_.generated.slices + tile.z];
    }

    // Before the tile's first store. Mutants post here, too early, by the thread for which is_poster is true; tests put
    // delays here, longer ones in later columns, so that posts come far apart. Nothing in a normal build.
    __device__ __forceinline__ void before_stores(const Tile& tile, bool is_poster) const {
        if constexpr (mutant == Mutant::early_post) {
            if (is_poster) post(tile);
        }
        if constexpr (delay_ns > 0 && Generated::output_count > 0) pause_ns(delay_ns * (1 + tile.x));
    }

    // Records when a tile began, how long it waited and when it ended. Nothing in a normal build.
    __device__ __forceinline__ const TileRecorder<Use::record_lines>& recorder() const { return recorder_; }
    __device__ __forceinline__ void record_end(const Tile& tile, int line = 0) const {
        recorder_.end(params_.sync.records + tile.position, params_.sync.stage, tile.x, tile.y, tile.z, line);
    }

    // ---- All threads of the block call these. ----

    // Fetches the block's tile, once per block. Where positions are block numbers, no thread waits for another.
    __device__ __forceinline__ Tile begin() {
        if (is_leader()) recorder_.begin();
        if (Generated::input_count > 0 && is_leader()) are_inputs_there() = true;
        if constexpr (!Generated::draws_position) {
            if (is_leader()) fetch_position();
            return tile_ = tile_at(static_cast<int>(blockIdx.x));
        }
        __shared__ int shared_position;
        if (is_leader()) shared_position = fetch_position();
        __syncthreads();
        return tile_ = tile_at(shared_position);
    }

    // Until tile (x, y) of producer `input` is there. False if the run is aborted, from then on for the whole block: what
    // it writes must be NaN. Under stream sync nothing is waited for.
    __device__ __forceinline__ bool wait(int input, int x, int y) const {
        if constexpr (Generated::input_count == 0) return true;
        if (is_leader() && !wait_for(awaited(input, x, y), tile_)) are_inputs_there() = false;
        // Block barrier: hands the leader's acquire, and what it found, on to the other threads.
        __syncthreads();
        return are_inputs_there();
    }

    // After wait, in a kernel whose blocks each wait for tiles that no other block waits for: the semaphore back to zero
    // for the next run, so that blocks need not be counted as they retire_block. Where the wait was aborted the posts may
    // still come: what they will have added is taken away beforehand. Not for semaphores that posts are stored to.
    __device__ __forceinline__ void reset_semaphore(int input, int x, int y, bool is_there) const {
        if constexpr (Generated::input_count == 0) return;
        if (!is_leader()) return;
        const Awaited fact = awaited(input, x, y);
        if (is_there) {
            store_relaxed(counters() + fact.counter, 0);
        } else {
            add_relaxed(counters() + fact.counter, 0u - fact.value);
        }
    }

    // My tile is there, after the stores of all threads. With is_whole false, for a split whose sums another block's
    // split takes up, nothing is posted.
    __device__ __forceinline__ void finish(const Tile& tile, bool is_whole = true) const {
        // Block barrier: all threads' stores come before the leader's release.
        __syncthreads();
        if (!is_leader()) return;
        if constexpr (mutant != Mutant::early_post) {
            if (is_whole) post(tile);
        }
        record_end(tile);
        retire_block(params_.sync);
    }

private:
    __device__ __forceinline__ unsigned* counters() const { return params_.sync.counters; }

    // The leader alone writes it, before block barriers, and never from false to true: later waits of the block cannot
    // hide an earlier one that was aborted from threads that are slow to look.
    static __device__ __forceinline__ bool& are_inputs_there() {
        __shared__ bool are_there;
        return are_there;
    }

    const StageParams<Generated>& params_;
    TileRecorder<Use::record_lines> recorder_;
    Tile tile_;
};

}  // namespace cusync
