// Waiting inside a software pipeline: one warp walks the tile's list of semaphores ahead of the loads. Its 32
// lanes poll 32 semaphores at once and one fence covers all that are there, so a tile whose producers have long
// finished pays for one wait, however fine the policy is.
#pragma once

#include <cusync/stage.cuh>

namespace cusync {

// Held by all lanes of one warp, which call prefetch and wait together; a block barrier must follow
// wait before other warps read what was waited for. LOOKS: so many times all lanes look with acquire before one of them
// waits alone; the look that sees what is awaited is then all that it costs.
template <class Stage, int LOOKS = 0>
class ScheduleWait {
public:
    // `line`: the tile's record, for kernels that have several tiles under way.
    __device__ __forceinline__ ScheduleWait(const Stage& stage, const Tile& tile, int line = 0)
        : stage_(stage), tile_(tile), line_(line), steps_(stage.first_step(tile)) {
        if (steps_ == nullptr || mutant == Mutant::no_wait) {
            ready_before_ = everything;
        } else {
            load_step();
        }
    }

    // Asks for what work item `item` needs, and for all that follows, without waiting for the answer.
    __device__ __forceinline__ void prefetch(int item) {
        if (LOOKS == 0 && item >= ready_before_) seen_ = stage_.value(fact_.counter);
    }

    // Whether a wait was aborted: what is made of the items must be NaN.
    __device__ __forceinline__ bool is_aborted() const { return ready_before_ == aborted; }

    // Whether everything that `item` needs is there already, and acquired.
    __device__ __forceinline__ bool has(int item) const { return item < ready_before_; }

    // Items below this one have all they need.
    __device__ __forceinline__ int ready_before() const { return ready_before_; }

    // The same after one look at its semaphores and those after it, without waiting.
    __device__ __forceinline__ bool try_wait(int item) {
        if constexpr (LOOKS > 0) return look(1, item);
        do seen_ = stage_.value(fact_.counter);
        while (advance() < 0 && item >= ready_before_);
        acquire_fence();
        return has(item);
    }

    // Returns once everything that `item` needs is there. After prefetch or try_wait of the same item.
    __device__ __forceinline__ void wait(int item) {
        if (item < ready_before_) return;
        if constexpr (LOOKS > 0) {
            if (look(1, item) || look_often(item)) return;
        }
        do {
            const int missing_lane = advance();
            if (missing_lane >= 0 && item >= ready_before_ && !spin(missing_lane)) {
                ready_before_ = aborted;  // drain, wait for nothing more
            }
            if (item >= ready_before_) seen_ = stage_.value(fact_.counter);
        } while (item >= ready_before_);
        // Each lane has seen its values with relaxed loads; the fence turns them into acquires, and the block
        // barrier that follows hands them on to the other warps.
        acquire_fence();
    }

private:
    static constexpr int everything = 0x7fffffff, aborted = everything - 1;  // above all items
    static constexpr unsigned all_lanes = 0xffffffffu;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x & 31); }

    // Moves the bound to the first of this window's 32 steps that was not seen, or all of it on to the next window.
    // Returns that step's lane, or -1.
    __device__ __forceinline__ int advance() {
        const unsigned missing = __ballot_sync(all_lanes, seen_ < fact_.value);
        ready_before_ = missing == 0 ? __shfl_sync(all_lanes, at_, 31)
                                     : __shfl_sync(all_lanes, at_, __ffs(missing) - 1);
        if (missing == 0 && ready_before_ != everything) {
            steps_ += 32;
            load_step();
        }
        return __ffs(missing) - 1;
    }

    // At most so many looks. Each lane acquires what it sees; whether everything that `item` needs is there.
    __device__ __forceinline__ bool look(int most, int item) {
        for (int left = most; left > 0 && item >= ready_before_;) {
            seen_ = stage_.acquired_value(fact_.counter);
            if (advance() >= 0 && --left > 0) __nanosleep(20);
        }
        return has(item);
    }

    __device__ __forceinline__ bool look_often(int item) {
        if (lane() == 0) stage_.recorder().begin_wait(line_);
        const bool is_there = look(LOOKS, item);
        if (lane() == 0) stage_.recorder().end_wait(line_);
        return is_there;
    }

    // The lane whose step is missing spins, the others wait for it. False if the run is aborted.
    __device__ __forceinline__ bool spin(int missing_lane) {
        if (lane() == 0) stage_.recorder().begin_wait(line_);
        bool has_reached = true;
        if (lane() == missing_lane) has_reached = stage_.spin(fact_, tile_);
        has_reached = __all_sync(all_lanes, has_reached);
        if (lane() == 0) stage_.recorder().end_wait(line_);
        return has_reached;
    }

    // Each lane has a step of its own, and asks the generated header what to try_wait at.
    __device__ __forceinline__ void load_step() {
        const WaitStep step = steps_[lane()];
        at_ = step.at;
        fact_ = step.input < 0 ? Awaited{0, 0} : stage_.awaited(step.input, step.x, step.y);
    }

    const Stage& stage_;
    const Tile& tile_;
    const int line_;
    const WaitStep* steps_;
    Awaited fact_{0, 0};
    int at_ = everything;
    int ready_before_ = 0;  // work items below this one may be loaded
    unsigned seen_ = 0;
};

}  // namespace cusync
