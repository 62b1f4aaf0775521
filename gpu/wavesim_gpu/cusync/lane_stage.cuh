// One stage of a pipeline, seen by single threads of a kernel whose warps have roles: the questions that cusync::Stage
// answers, answered in line. Beside wgmma a call that is not costs the whole kernel its registers: the compiler keeps
// what the calling convention asks for, and the sums of a 128 x 256 tile no longer fit.
#pragma once

#include <cusync/stage.cuh>

namespace cusync {

template <class Generated, int RECORD_LINES>
class LaneStage {
public:
    __device__ __forceinline__ explicit LaneStage(const StageParams<Generated>& params) : params_(params) {}

    // The next position in the tile order, and: this stage has started.
    __device__ __forceinline__ int next_position() const {
        if constexpr (Generated::draws_position) {
            return static_cast<int>(take_position(counters() + Generated::started));
        }
        if constexpr (Generated::counts_started) count_start(counters() + Generated::started);
        return static_cast<int>(blockIdx.x);
    }

    __device__ __forceinline__ int positions() const { return params_.generated.blocks(); }

    __device__ __forceinline__ Tile tile_at(int position) const {
        const auto place = params_.generated.tile_at(position);
        return {place.x, place.y, place.z, place.y * params_.generated.columns + place.x, position};
    }

    // The first step of a tile's wait schedule, or null; also null for a tile outside the grid (linear < 0).
    __device__ __forceinline__ const WaitStep* first_step(const Tile& tile) const {
        if (tile.linear < 0 || params_.sync.schedule_first == nullptr) return nullptr;
        return params_.sync.schedule + params_.sync.schedule_first[tile.y * params_.generated.slices + tile.z];
    }

    // What tile (x, y) of producer `input` posts, and the value to wait for; nothing, always there, for input -1.
    __device__ __forceinline__ Awaited awaited(int input, int x, int y) const {
        if (input < 0) return {0, 0};
        const auto fact = params_.generated.awaited(input, x, y);
        return {fact.counter, static_cast<unsigned>(fact.value)};
    }

    // What a counter shows now. Relaxed: fence before acting on it.
    __device__ __forceinline__ unsigned value(int counter) const { return load_relaxed(counters() + counter); }

    // Spins until a counter has reached its value; false if the run is aborted. Fence after it.
    __device__ __forceinline__ bool spin(const Awaited& fact, const Tile& tile) const {
        const Watch watch{params_.sync.errors, counters(), params_.sync.limit_ns, params_.sync.stage_count};
        return watch.spin_here(fact.counter, fact.value, {params_.sync.stage, tile.x, tile.y, tile.z});
    }

    // The tile is there: what this thread stored, or was shown stored, is published.
    __device__ __forceinline__ void post(const Tile& tile) const {
        params_.generated.each_post({tile.x, tile.y, tile.z}, [&](int counter, bool is_only_poster) {
            cusync::post(counters() + counter, is_only_poster);
        });
    }

    // Where delays go in for tests, longer ones in later columns; nothing in a normal build.
    __device__ __forceinline__ void delay(const Tile& tile) const {
        if constexpr (delay_ns > 0 && Generated::output_count > 0) pause_ns(delay_ns * (1 + tile.x));
    }

    __device__ __forceinline__ const Recorder<RECORD_LINES>& recorder() const { return recorder_; }
    __device__ __forceinline__ BlockRecord* records() const { return params_.sync.records; }

private:
    __device__ __forceinline__ unsigned* counters() const { return params_.sync.counters; }

    const StageParams<Generated>& params_;
    Recorder<RECORD_LINES> recorder_;
};

}  // namespace cusync
