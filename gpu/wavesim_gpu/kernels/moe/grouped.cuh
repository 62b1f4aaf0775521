// A grouped GEMM is the Hopper GEMM with another loader and another store: which rows of A a tile has, and whose weights it
// reads, comes from a list that the device made. Pipeline, MMA warpgroups and epilogue buffers are those of the GEMM.
#pragma once

#include <kernels/gemm/sm90/bias.cuh>
#include <kernels/gemm/sm90/epilogue.cuh>
#include <kernels/gemm/sm90/mma.cuh>
#include <kernels/gemm/sm90/rope.cuh>
#include <kernels/moe/routing.cuh>

struct GroupedParams : GemmSm90Params {  // b: all experts' matrices one below the other, by columns
    TensorMap a_rows[4];         // A in boxes of 8, 16, 32 and 64 rows; `a` in boxes of a tile's
    TensorMap c_rows;            // C in boxes of row_unit rows
    const RowBlock* blocks;
    const int* block_count;
    unsigned* taken;             // tiles that blocks have taken
    unsigned* counters;
    cusync::ErrorBuffer* errors;
    unsigned long long limit_ns;
    int columns;        // of tiles
    int expert_rows;    // of b, of each expert
    int half_rows;      // from a gate's row of b to its value's
    int awaits_list;    // the list is made by the kernel before: nothing is read until that has ended
    int awaits_grid;    // A is
    int awaited_posts;  // A's rows are there once their semaphore has this value; 0: no semaphore
    int posts;          // whether a tile that is stored adds one to the semaphore of its rows
};
static_assert(sizeof(GroupedParams) == 1664, "parameters.py packs 1664 bytes");

// What a block does of one product, as the MMA warpgroups ask for it.
template <class Form_, bool HAS_INPUT>
struct GroupedPart {
    struct Generated {
        static constexpr int input_count = HAS_INPUT;
    };
    struct StageNumber {
        cusync::SyncParams sync;
    };
    using Form = Form_;
    static constexpr Activation activation = Form::activation;

    __device__ __forceinline__ GroupedPart(const GroupedParams& p, int stage) : sync{}, p(p) { sync.sync.stage = stage; }

    StageNumber sync;
    const GroupedParams& p;
};

// The tile at a position: an expert's tiles follow each other, column by column, so that blocks that run at the same time
// read the same weights.
template <class S>
__device__ __forceinline__ WorkTile grouped_tile(const GroupedParams& p, int position, int stage, int& expert) {
    const RowBlock run = p.blocks[position / p.columns];
    const int count = (run.rows + S::tile_m - 1) / S::tile_m, within = position - run.start * p.columns;
    const int block = within % count, first = block * S::tile_m;
    expert = run.expert;
    WorkTile work{};
    work.tile = {within / count, run.first_row + first, min(S::tile_m, run.rows - first), run.start + block, position};
    work.last = (p.k + S::tile_k - 1) / S::tile_k;
    work.splits = work.is_whole = 1, work.stage = stage;
#pragma unroll
    for (int& has_outputs : work.has_outputs) has_outputs = 1;
    return work;
}

// One elected lane of the producer warp: takes tiles until there are none and loads their operands.
template <class S>
class GroupedProducer {
public:
    __device__ __forceinline__ explicit GroupedProducer(const Shared<S>& shared) : shared_(shared) {}

    template <class First, class... Others>
    __device__ __forceinline__ void run(const First& first, const Others&... others) {
        if (first.p.awaits_list) cusync::wait_for_previous_grid();
        cusync::launch_dependents();  // the next kernel reads the list without waiting: it is there by now
        blocks_ = *first.p.block_count;
        taken_ = first.p.taken;
        for (int position = take(); load_any(position, 0, first, others...);) position = next_;
        publish({{0, 0, 0, -1, -1}});
    }

private:
    static constexpr int fetch_ahead = 4;  // k-blocks before a tile's end at which the next tile is taken

    __device__ __forceinline__ int take() const { return static_cast<int>(cusync::fetch_add_relaxed(taken_, 1)); }

    template <class First, class... Others>
    __device__ __forceinline__ bool load_any(int position, int stage, const First& first, const Others&... others) {
        const int tiles = blocks_ * first.p.columns;
        if (position < tiles) return load(first, position, stage), true;
        if constexpr (sizeof...(others) > 0) return load_any(position - tiles, stage + 1, others...);
        return false;
    }

    __device__ __forceinline__ void publish(const WorkTile& work) {
        mbarrier::wait(shared_.tile_empty(tile_place_.slot), tile_place_.parity ^ 1);
        shared_.control().work_tiles[tile_place_.slot] = work;
        mbarrier::arrive(shared_.tile_full(tile_place_.slot));
        tile_place_.advance();
    }

    template <class Part>
    __device__ __forceinline__ void load(const Part& part, int position, int stage) {
        const GroupedParams& p = part.p;
        int expert;
        const WorkTile work = grouped_tile<S>(p, position, stage, expert);
        publish(work);
        const int rows = work.tile.z, level = rows <= 8 ? 0 : rows <= 16 ? 1 : rows <= 32 ? 2 : 3;
        const TensorMap& a = rows > 64 ? p.a : p.a_rows[level];
        const unsigned bytes = S::tile_n * 128 + (rows > 64 ? S::tile_m : 8 << level) * 128;
        const int first_weight = expert * p.expert_rows + work.tile.x * (Part::Form::has_halves ? S::tile_n / 2 : S::tile_n);
        const auto issue_b = [&](int k_block) {
            mbarrier::wait(shared_.empty(place_.slot), place_.parity ^ 1);
            mbarrier::arrive_and_expect_tx(shared_.full(place_.slot), bytes);
            const unsigned to = shared_.ring + place_.slot * S::slot_bytes + S::a_bytes, full = shared_.full(place_.slot);
            tma::load(to, p.b, tma::Corner{k_block * S::tile_k, first_weight}, full);
            if constexpr (Part::Form::has_halves)
                tma::load(to + S::tile_n / 2 * 128, p.b, tma::Corner{k_block * S::tile_k, first_weight + p.half_rows}, full);
            place_.advance();
        };
        mbarrier::Place<S::pipeline_depth> a_place = place_;
        int next_b = 0;
        if (must_wait(p)) {
            // Meanwhile as much of the weights as the pipeline has room for: they depend on nothing.
            do issue_b(next_b++);
            while (next_b < work.last && mbarrier::test_wait(shared_.empty(place_.slot), place_.parity ^ 1));
            wait_for_rows(p, work.tile);
        }
        const int fetch_at = max(0, work.last - fetch_ahead);
        for (int k_block = 0; k_block < work.last; ++k_block, a_place.advance()) {
            if (k_block >= next_b) issue_b(k_block);
            tma::load(shared_.ring + a_place.slot * S::slot_bytes, a, tma::Corner{k_block * S::tile_k, work.tile.y},
                      shared_.full(a_place.slot));
            if (k_block == fetch_at) next_ = take();
        }
    }

    __device__ __forceinline__ bool must_wait(const GroupedParams& p) const {
        return p.awaited_posts > 0 || (p.awaits_grid && !is_grid_over_);
    }

    __device__ __forceinline__ void wait_for_rows(const GroupedParams& p, const cusync::Tile& tile) {
        if (p.awaits_grid) {
            cusync::wait_for_previous_grid();
            is_grid_over_ = true;
        }
        if (p.awaited_posts == 0 || cusync::mutant == cusync::Mutant::no_wait) return;
        const unsigned* const counter = p.counters + first_semaphore + tile.linear;
        const unsigned awaited = static_cast<unsigned>(p.awaited_posts);
        // Acquire: the gate-up tiles of these rows were stored before their posts.
        if (cusync::load_acquire(counter) < awaited) {
            const cusync::Watch watch = {p.errors, p.counters, p.limit_ns, 0};
            if (!watch.spin_here(first_semaphore + tile.linear, awaited, {1, tile.x, tile.linear, 0})) abort();
            cusync::load_acquire(counter);  // spinning was relaxed
        }
        tma::fence_proxy_global();  // acquired by an ordinary load, read by TMA
    }

    // The sums become NaN: MMA warpgroups look after the tile's last k-block, whose loads are issued after this.
    __device__ __forceinline__ void abort() const {
        shared_.control().is_aborted = 1;
        tma::fence_proxy();
    }

    const Shared<S>& shared_;
    mbarrier::Place<S::pipeline_depth> place_;  // of the next k-block of B
    mbarrier::Place<work_tile_slots> tile_place_;
    unsigned* taken_ = nullptr;
    int blocks_ = 0, next_ = 0;
    bool is_grid_over_ = false;
};
