// A pipeline of three stages whose blocks wait and post through cusync/stage.cuh, run by threads of the host again and
// again. A tile is a word per warp: the sum of all that its block has read, plus one.
//
//   semaphore_pipeline OPERATIONS SEED [DROPPED]      ends with "rounds operations wrong aborted"
//
// A slot is where a block is resident: it runs one block after another, in launch order, of whatever stage. Blocks of
// different slots know of each other only by the semaphores.
#include "ptx_on_host.h"

#include <cusync/stage.cuh>
#include <cusync/wait_schedule.cuh>

#include <generated.cuh>

constexpr int slots = 3, warps = 2;

template <int SLOT>
struct Use : cusync::OneTilePerBlock {};

struct Words {
    std::vector<unsigned> first, second, third;  // (tile, warp) of each stage, plain memory
};

struct Run {
    std::vector<unsigned> counters;
    cusync::ErrorBuffer errors{};
    Words words;
    host::Barrier all;
    std::atomic<unsigned> next{0}, is_over{0};
    unsigned long long until = 0, wrong = 0;
};

// A third of the consumers wait by Stage::wait, a third by the generated header's own wait, a third by a schedule from
// warp 0, as the GEMMs do. Until row y of the producer is there; false if the run is aborted.
template <class Edge, class Stage>
bool wait_for_row(const cusync::SyncParams& sync, const Stage& stage, const cusync::Tile& tile) {
    bool is_there = true;
    if (tile.x % 3 == 0) {
        for (int x = 0; x < Edge::columns; ++x) is_there = stage.wait(0, x, tile.y);
    } else if (tile.x % 3 == 1) {
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

template <class Edge, class Generated, int SLOT>
void block_of(const cusync::StageParams<Generated>& params, const std::vector<unsigned>& from, std::vector<unsigned>& to) {
    using Stage = cusync::Stage<Generated, Use<SLOT>>;
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

struct Launches {
    cusync::StageParams<pipeline::first> first;
    cusync::StageParams<pipeline::second> second;
    cusync::StageParams<pipeline::third> third;
};

template <int SLOT>
void run_blocks(Run& run, const Launches& at) {
    constexpr int counts[] = {pipeline::first{}.blocks(), pipeline::second{}.blocks(), pipeline::third{}.blocks()};
    static std::atomic<unsigned> number;  // of the slot's next block; relaxed, told by the barrier
    for (;;) {
        if (threadIdx.x == 0) number.store(run.next.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
        host::self.block->wait();
        int index = static_cast<int>(number.load(std::memory_order_relaxed));
        if (index >= counts[0] + counts[1] + counts[2]) break;
        if (index < counts[0]) {
            blockIdx.x = index;
            block_of<Nothing, pipeline::first, SLOT>(at.first, run.words.first, run.words.first);
        } else if ((index -= counts[0]) < counts[1]) {
            blockIdx.x = index;
            block_of<pipeline::first_to_second, pipeline::second, SLOT>(at.second, run.words.first, run.words.second);
        } else {
            blockIdx.x = index - counts[1];
            block_of<pipeline::second_to_third, pipeline::third, SLOT>(at.third, run.words.second, run.words.third);
        }
        host::self.block->wait();
    }
}

// Between runs, by one thread: what a run must leave behind, and zeros or not where the next begins.
void look(Run& run) {
    const unsigned of_first = 1, of_second = 1 + pipeline::first::columns * warps * of_first;
    const unsigned of_third = 1 + pipeline::second::columns * warps * of_second;
    const auto differ = [&](const std::vector<unsigned>& words, unsigned value) {
        return std::count_if(words.begin(), words.end(), [&](unsigned word) { return word != value; });
    };
    if (run.errors.aborted == 0) {
        run.wrong += differ(run.words.first, of_first) + differ(run.words.second, of_second) +
                     differ(run.words.third, of_third) + differ(run.counters, 0);
    }
    for (auto* words : {&run.words.first, &run.words.second, &run.words.third}) std::fill(words->begin(), words->end(), 0);
    run.next = 0;
    host::rounds.fetch_add(1, std::memory_order_relaxed);
}

template <int SLOT>
void slot(Run& run, const Launches& at, int warp, host::Barrier* block) {
    threadIdx.x = 32 * warp;
    host::begin_thread(SLOT * warps + warp);
    host::self.block = block;
    static std::atomic<bool> vote;
    host::self.vote = &vote;
    while (run.is_over.load(std::memory_order_relaxed) == 0) {
        run_blocks<SLOT>(run, at);
        host::operations.fetch_add(std::exchange(host::self.operations, 0), std::memory_order_relaxed);
        if (run.all.wait()) {
            look(run);
            run.is_over = host::operations >= run.until || run.errors.aborted;
        }
        run.all.wait();
    }
}

template <class Generated>
cusync::StageParams<Generated> params_of(Run& run, int stage, const cusync::WaitStep* steps, const int* first) {
    cusync::StageParams<Generated> params{};
    params.sync = {run.counters.data(), &run.errors, nullptr, host::limit_ns, steps, first, stage, 3,
                   static_cast<int>(run.counters.size()),
                   pipeline::first{}.blocks() + pipeline::second{}.blocks() + pipeline::third{}.blocks(), {}};
    return params;
}

template <int... SLOTS>
void run_all(Run& run, const Launches& at, std::integer_sequence<int, SLOTS...>) {
    static host::Barrier blocks[slots];
    for (auto& one : blocks) one.expect(warps);
    std::vector<std::thread> threads;
    (
        [&] {
            for (int warp = 0; warp < warps; ++warp) {
                threads.emplace_back([&run, &at, warp] { slot<SLOTS>(run, at, warp, &blocks[SLOTS]); });
            }
        }(),
        ...);
    for (auto& one : threads) one.join();
}

int main(int count, char** words) {
    if (count < 3) return 2;
    Run run;
    run.until = std::strtoull(words[1], nullptr, 10);
    host::seed = std::strtoull(words[2], nullptr, 10);
    if (count > 3) host::dropped = words[3];
    if (std::string_view(host::dropped).ends_with("whole")) host::limit_ns = 50'000'000;
    run.counters.resize((pipeline::counter_count + 1 + 3) / 4 * 4);
    run.words.first.resize(pipeline::first::columns * pipeline::first::rows * warps);
    run.words.second.resize(pipeline::second::columns * pipeline::second::rows * warps);
    run.words.third.resize(pipeline::third::columns * pipeline::third::rows * warps);
    run.all.expect(slots * warps);
    const Schedule second(pipeline::second::rows, pipeline::first::columns);
    const Schedule third(pipeline::third::rows, pipeline::second::columns);
    const Launches at{params_of<pipeline::first>(run, 0, nullptr, nullptr),
                      params_of<pipeline::second>(run, 1, second.steps.data(), second.first.data()),
                      params_of<pipeline::third>(run, 2, third.steps.data(), third.first.data())};
    run_all(run, at, std::make_integer_sequence<int, slots>{});
    std::printf("%llu %llu %llu %u\n", host::rounds.load(), host::operations.load(), run.wrong, run.errors.aborted);
    return run.wrong != 0;
}
