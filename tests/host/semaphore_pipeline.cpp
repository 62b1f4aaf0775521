// A pipeline of three stages whose blocks wait and post through cusync/stage.cuh, run by threads of the host again and
// again. A tile is a word per warp: the sum of all that its block has read, plus one.
//
//   semaphore_pipeline OPERATIONS SEED [DROPPED]      ends with "rounds operations wrong aborted"
#include "ptx_on_host.h"

#include <cusync/stage.cuh>
#include <cusync/wait_schedule.cuh>

#include <generated.cuh>

#include "resident_blocks.h"

using host::warps;

struct Words {
    std::vector<unsigned> first, second, third;  // (tile, warp) of each stage, plain memory
};

// A third of the consumers wait by Stage::wait, a third by the generated header's own wait, a third by a schedule from
// warp 0, as the GEMMs do. Until row y of the producer is there; false if the run is aborted. By the block and the round,
// so that each block does all three, and not by its tile: where `begin` has no barrier, warps that took different tiles
// would wait at each other's barriers for good.
template <class Edge, class Stage>
bool wait_for_row(const cusync::SyncParams& sync, const Stage& stage, const cusync::Tile& tile) {
    bool is_there = true;
    const unsigned long long way = (blockIdx.x + host::rounds.load(std::memory_order_relaxed)) % 3;
    if (way == 0) {
        for (int x = 0; x < Edge::columns; ++x) is_there = stage.wait(0, x, tile.y);
    } else if (way == 1) {
        for (int x = 0; x < Edge::columns; ++x) is_there = Edge::wait(sync.counters, x, tile.y) && is_there;
    } else {
        if (threadIdx.x == 0) {
            cusync::ScheduleWait<Stage> wait(stage, tile);
            for (int x = 0; x < Edge::columns; ++x) {
                wait.prefetch(x);
                wait.wait(x);
            }
            is_there = !wait.is_aborted();
        }
        is_there = __syncthreads_and(is_there);
    }
    return is_there;
}

struct Nothing {
    static constexpr int columns = 0;
};

template <class Edge, class Generated>
void block_of(const cusync::StageParams<Generated>& params, const std::vector<unsigned>& from, std::vector<unsigned>& to) {
    using Stage = cusync::Stage<Generated>;
    Stage stage(params);
    const cusync::Tile tile = stage.begin();
    unsigned sum = 1;
    if constexpr (Generated::input_count > 0) {
        if (wait_for_row<Edge>(params.sync, stage, tile)) {
            for (int i = 0; i < Edge::columns * warps; ++i) sum += from[tile.y * Edge::columns * warps + i];
        }
    }
    stage.before_stores(tile, threadIdx.x == 0);
    to[tile.linear * warps + threadIdx.x / 32] = sum;
    stage.finish(tile);
}

// Before k-block x tile x of the row. A warp has one lane here, so of each window of 32 steps it sees the first.
struct Schedule {
    std::vector<cusync::WaitStep> steps;
    std::vector<int> first;
    Schedule(int rows, int columns) {
        for (int y = 0; y < rows; ++y) {
            first.push_back(static_cast<int>(steps.size()));
            for (int x = 0; x <= columns; ++x) {
                steps.push_back(x < columns ? cusync::WaitStep{x, 0, x, y} : cusync::WaitStep{INT_MAX, -1, 0, 0});
                steps.resize(steps.size() + 31, cusync::WaitStep{INT_MAX, -1, 0, 0});
            }
        }
    }
};

using First = pipeline::first;
using Second = pipeline::second;
using Third = pipeline::third;

constexpr int counts[] = {First{}.blocks(), Second{}.blocks(), Third{}.blocks()};

template <class Generated>
cusync::StageParams<Generated> params_of(host::Runs& runs, std::vector<unsigned>& counters, int stage,
                                         const Schedule* schedule) {
    cusync::StageParams<Generated> params{};
    params.sync = {counters.data(), &runs.errors, nullptr, host::limit_ns, schedule ? schedule->steps.data() : nullptr,
                   schedule ? schedule->first.data() : nullptr, stage, 3, static_cast<int>(counters.size()),
                   counts[0] + counts[1] + counts[2], {}};
    return params;
}

int main(int count, char** words) {
    if (count < 3) return 2;
    host::Runs runs(words);
    std::vector<unsigned> counters((pipeline::counter_count + 1 + 3) / 4 * 4);
    Words at{std::vector<unsigned>(First::columns * First::rows * warps),
             std::vector<unsigned>(Second::columns * Second::rows * warps),
             std::vector<unsigned>(Third::columns * Third::rows * warps)};
    const Schedule of_second(Second::rows, First::columns), of_third(Third::rows, Second::columns);
    const auto first = params_of<First>(runs, counters, 0, nullptr);
    const auto second = params_of<Second>(runs, counters, 1, &of_second);
    const auto third = params_of<Third>(runs, counters, 2, &of_third);
    const auto block = [&](int index) {
        if (index < counts[0]) {
            blockIdx.x = index;
            block_of<Nothing>(first, at.first, at.first);
        } else if ((index -= counts[0]) < counts[1]) {
            blockIdx.x = index;
            block_of<pipeline::first_to_second>(second, at.first, at.second);
        } else {
            blockIdx.x = index - counts[1];
            block_of<pipeline::second_to_third>(third, at.second, at.third);
        }
    };
    // What a run must leave behind, and zeros where the next begins.
    const auto look = [&] {
        const unsigned of_first = 1, of_second = 1 + First::columns * warps * of_first;
        const unsigned of_third = 1 + Second::columns * warps * of_second;
        const auto differ = [&](const std::vector<unsigned>& all, unsigned value) {
            return std::count_if(all.begin(), all.end(), [&](unsigned word) { return word != value; });
        };
        if (runs.errors.aborted == 0) {
            runs.wrong += differ(at.first, of_first) + differ(at.second, of_second) + differ(at.third, of_third) +
                          differ(counters, 0);
        }
        for (auto* all : {&at.first, &at.second, &at.third}) std::fill(all->begin(), all->end(), 0);
    };
    runs.run(counts[0] + counts[1] + counts[2], block, look);
    return runs.end();
}
