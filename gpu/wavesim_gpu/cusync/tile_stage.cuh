// A stage whose tiles each have a wait schedule of their own, where what a tile reads depends on its column too: a head
// of attention, a block of rows. The tiles of a GEMM's row share one, stage.cuh.
#pragma once

#include <cusync/wait_schedule.cuh>

namespace cusync {

template <class Generated, class Use = OneTilePerBlock>
class TileStage : public Stage<Generated, Use> {
public:
    __device__ __forceinline__ explicit TileStage(const StageParams<Generated>& params)
        : Stage<Generated, Use>(params), params_(params) {}

    // The first step of a tile's wait schedule, or null where it waits for nothing: schedule_first is by tile and split.
    __device__ __forceinline__ const WaitStep* first_step(const Tile& tile) const {
        if (params_.sync.schedule_first == nullptr || tile.linear < 0) return nullptr;
        return params_.sync.schedule + params_.sync.schedule_first[tile.linear * params_.generated.slices + tile.z];
    }

    // What a counter shows now, with acquire: where it is the awaited value, what was posted may be read.
    __device__ __forceinline__ unsigned acquired_value(int counter) const {
        return load_acquire(params_.sync.counters + counter);
    }

private:
    const StageParams<Generated>& params_;
};

// How a block waits before it reads: ScheduleWait<TileStage<...>>(stage, tile).prefetch(item), .wait(item).
template <class Generated, class Use = OneTilePerBlock>
using TileWait = ScheduleWait<TileStage<Generated, Use>>;

}  // namespace cusync
