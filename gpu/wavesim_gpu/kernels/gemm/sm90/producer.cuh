// The producer warp: all its lanes poll semaphores, one lane issues the TMA loads that fill the pipeline. Loads of B never
// wait; loads of A wait for the producer tiles that the k-block reads.
#pragma once

#include <cusync/dependent_launch.cuh>
#include <cusync/wait_schedule.cuh>
#include <kernels/gemm/sm90/shared_memory.cuh>

// Where the producer warp is in the block's circular buffers. It carries over from one stage to the next.
template <class S>
struct ProducerState {
    mbarrier::Place<S::pipeline_depth> pipeline;  // of the next k-block of B
    mbarrier::Place<work_tile_slots> work_tile;
    mbarrier::Place<mailbox_slots> mailbox;

    __device__ __forceinline__ void publish(const Shared<S>& shared, const WorkTile& tile) {
        mbarrier::wait(shared.tile_empty(work_tile.slot), work_tile.parity ^ 1);
        if (threadIdx.x == 0) {
            WorkTile& there = shared.control().work_tiles[work_tile.slot];
            there = tile;
            for (int& has_outputs : there.has_outputs) has_outputs = tile.is_whole;
            if (tile.tile.linear >= 0) cusync::TileRecorder<work_tile_slots>().begin(work_tile.slot);
            mbarrier::arrive(shared.tile_full(work_tile.slot));
        }
        __syncwarp();
        work_tile.advance();
    }

    __device__ __forceinline__ void publish_end(const Shared<S>& shared) {
        WorkTile end{};
        end.tile.linear = end.tile.position = -1;
        publish(shared, end);
    }
};

template <class S, class Part>
class ProducerWarp {
public:
    __device__ __forceinline__ ProducerWarp(const Part& part, const Shared<S>& shared, ProducerState<S>& state)
        : sync_(part.sync), stage_(part.stage), p_(part.p), shared_(shared), state_(state), rank_(block_rank<S>()),
          awaits_grid_(!has_input && part.p.is_dependent) {}

    // Loads tile after tile until there is no more work; in an ordinary launch, one.
    __device__ __forceinline__ void run() {
        if constexpr (S::is_stream_k) return run_stream_k();
        is_split_next_ = stage_.positions() > 1 && stage_.tile_at(1).z > 0;
        int index = from_first_lane(fetch_work());
        while (position_of(index, 0) < stage_.positions()) {
            index = from_first_lane(load(work_of(tile_of(index, rank_)), index));
        }
    }

private:
    using Generated = typename Part::Generated;
    using Form = typename Part::Form;
    static constexpr int looks = Form::is_short ? 4096 : 0;  // for 2 ms or so
    using Input = cusync::ScheduleWait<typename Part::Stage, looks>;

    static constexpr bool has_input = Generated::input_count > 0;
    static constexpr int fetch_ahead = 4;  // k-blocks before a tile's end at which the next tile is fetched
    static constexpr int no_work = 0x3fffffff;

    static __device__ __forceinline__ bool is_first_lane() { return threadIdx.x == 0; }
    static __device__ __forceinline__ int from_first_lane(int value) { return __shfl_sync(0xffffffffu, value, 0); }

    // In work_index.cuh: which tile is next. A fetched index is known to the first lane only.
    __device__ __forceinline__ int fetch_work();
    __device__ __forceinline__ int position_of(int index, int rank) const;
    __device__ __forceinline__ cusync::Tile tile_of(int index, int rank) const;
    __device__ __forceinline__ int k_block_count() const;
    __device__ __forceinline__ WorkTile work_of(const cusync::Tile& tile) const;

    // In stream_k.cuh.
    __device__ __forceinline__ void run_stream_k();

    // Publishes the tile and loads its k-blocks. Returns the next work index, known to the first lane only.
    __device__ __forceinline__ int load(const WorkTile& work, int index) {
        const cusync::Tile tile = work.tile;
        const int line = state_.work_tile.slot;
        if constexpr (Form::is_im2col) pixel_ = pixel_of(p_.im2col, tile.y * S::tile_m);
        state_.publish(shared_, work);
        const int fetch_at = p_.is_persistent && !S::is_stream_k ? max(work.first, work.last - fetch_ahead) : -1;
        bool shares_a = false, shares_b = false;
        if constexpr (S::cluster > 1) {
            const cusync::Tile other = tile_of(index, rank_ ^ 1);
            shares_b = tile.x == other.x, shares_a = !shares_b && tile.y == other.y;
        }
        int next = no_work, next_b = work.first;
        mbarrier::Place<S::pipeline_depth> a_place = state_.pipeline;
        Input input(stage_, tile, line);
        for (int k_block = work.first; k_block < work.last;) {
            if constexpr (!Generated::reorders_loads) wait(input, k_block);
            if (awaits_grid_ || (has_input && !input.has(k_block))) {
                if (next_b == k_block) load_b(tile.x, next_b++, shares_b);
                if (awaits_grid_ || !is_ready(input, k_block)) {
                    // Meanwhile as much of B as the pipeline has room for. Of filters the one k-block above: those of a
                    // 3 x 3 that fill the pipeline keep its first pixels waiting, 1 to 2 us a kernel.
                    if constexpr (!Form::is_im2col) {
                        while (next_b < work.last && is_slot_empty()) load_b(tile.x, next_b++, shares_b);
                    }
                    if (awaits_grid_) wait_for_grid();
                    wait(input, k_block);
                }
            }
            int end = has_input ? min(work.last, input.ready_before()) : work.last;
            if (k_block <= fetch_at) end = min(end, fetch_at + 1);
            load_ready(tile, k_block, end, next_b, a_place, shares_a, shares_b);
            k_block = end, next_b = max(next_b, end);
            if (k_block == fetch_at + 1) next = fetch_work();  // first used when the tile has been loaded
        }
        if constexpr (Form::has_residual) {
            // What all lanes have acquired goes on to the epilogue warps, which load the residual.
            __syncwarp();
            if (is_first_lane()) mbarrier::arrive(shared_.inputs_there(line));
        }
        return next;
    }

    // Issues k-blocks that need no more waiting, all by one lane with no warp synchronisation between, which takes half
    // the time. B has been issued already for k-blocks before `next_b`.
    __device__ __forceinline__ void load_ready(const cusync::Tile& tile, int k_block, int end, int next_b,
                                               mbarrier::Place<S::pipeline_depth>& a_place, bool shares_a, bool shares_b) {
        if (tma::is_elected()) {
            mbarrier::Place<S::pipeline_depth> place = a_place;
            for (int i = k_block; i < end; ++i, place.advance()) {
                if (i >= next_b) issue_b(tile.x, i, place, shares_b);
                issue_a(tile.y, i, place.slot, shares_a);
            }
        }
        __syncwarp();
        a_place.advance(end - k_block);
        if (end > next_b) state_.pipeline.advance(end - next_b);
    }

    // Whether the pipeline has a free slot now: one lane's answer, so that all lanes take the same branch.
    __device__ __forceinline__ bool is_slot_empty() const {
        return from_first_lane(mbarrier::test_wait(shared_.empty(state_.pipeline.slot), state_.pipeline.parity ^ 1)) != 0;
    }

    // Whether everything that the k-block of A reads is there, by one look at its semaphores.
    static __device__ __forceinline__ bool is_ready(Input& input, int k_block) {
        if (!has_input || input.has(k_block)) return true;
        const bool is_ready = input.try_wait(k_block);
        acquire_for_tma();
        return is_ready;
    }

    // Returns once it is there, or the run was aborted.
    __device__ __forceinline__ void wait(Input& input, int k_block) const {
        if (!has_input || input.has(k_block)) return;
        input.prefetch(k_block);
        input.wait(k_block);
        if (input.is_aborted()) abort();
        acquire_for_tma();
    }

    // Tells the MMA warpgroups of all blocks that these loads of A go to. They look after the tile's last k-block, whose
    // loads are issued after this: the fence orders the flag before TMA's arrivals at their barriers.
    __device__ __forceinline__ void abort() const {
        const int lane = static_cast<int>(threadIdx.x);
        if (lane < S::cluster) mbarrier::store_remote(shared_.address(shared_.control().is_aborted), lane, 1);
        tma::fence_proxy();
    }

    // Hands what all lanes have acquired to the issuing lane, and from ordinary loads to TMA's.
    static __device__ __forceinline__ void acquire_for_tma() {
        __syncwarp();
        tma::fence_proxy_global();
    }

    // Under programmatic dependent launch without semaphores: the kernel before has ended, so A is there.
    __device__ __forceinline__ void wait_for_grid() {
        cusync::wait_for_previous_grid();
        awaits_grid_ = false;
    }

    // Issues the next k-block of B.
    __device__ __forceinline__ void load_b(int tile_x, int k_block, bool is_shared) {
        if (tma::is_elected()) issue_b(tile_x, k_block, state_.pipeline, is_shared);
        __syncwarp();
        state_.pipeline.advance();
    }

    __device__ __forceinline__ void issue_a(int tile_y, int k_block, int slot, bool is_shared) const {
        if constexpr (Form::is_im2col) return issue_pixels(k_block, slot);
        constexpr int rows = S::tile_m / S::cluster;
        load_parts<rows * 128>(shared_.ring + slot * S::slot_bytes, shared_.full(slot), is_shared, p_.a, [&](int part) {
            return tma::Corner{k_block * S::tile_k, tile_y * S::tile_m + part * rows};
        });
    }

    // A's rows of a convolution: 64 channels of the pixels that one tap of the tile's outputs reads. Past the last image
    // they are zeros, whose bytes TMA counts too.
    __device__ __forceinline__ void issue_pixels(int k_block, int slot) const {
        static_assert(!Form::is_im2col || S::cluster == 1, "a cluster's second block would need a pixel of its own");
        const Tap tap = tap_of(p_.im2col, k_block);
        tma::load_pixels(shared_.ring + slot * S::slot_bytes, p_.a,
                         tma::PixelCorner{tap.channel_block * S::tile_k, pixel_.column, pixel_.row, pixel_.image},
                         tap.column, tap.row, shared_.full(slot));
    }

    // Waits for the slot, expects A's and B's bytes at its barrier and issues B.
    __device__ __forceinline__ void issue_b(
        int tile_x, int k_block, const mbarrier::Place<S::pipeline_depth>& place, bool is_shared) const {
        const unsigned full = shared_.full(place.slot);
        mbarrier::wait(shared_.empty(place.slot), place.parity ^ 1);
        mbarrier::arrive_and_expect_tx(full, p_.load_bytes);
        const unsigned to = shared_.ring + place.slot * S::slot_bytes + S::a_bytes;
        if constexpr (Form::b_order == Order::column) {
            issue_columns(to, full, tile_x, k_block, is_shared);
        } else if (S::cluster == 1 && !Form::has_halves && tile_x < p_.whole_tiles) {
            tma::load_panels(to, p_.b_tiles, tile_x, k_block * S::tile_k, full);
        } else {
            issue_panels(to, full, tile_x, k_block, is_shared);
        }
    }

    // A row-major B, panel by panel.
    __device__ __forceinline__ void issue_panels(
        unsigned to, unsigned full, int tile_x, int k_block, bool is_shared) const {
        constexpr int rows = S::tile_k / S::cluster, halves = Form::has_halves ? 2 : 1, per_half = S::panels / halves;
        static_assert(!Form::has_halves || S::tile_n % 128 == 0, "each half in panels of its own");
#pragma unroll
        for (int panel = 0; panel < S::panels; ++panel, to += S::panel_bytes) {
            const int column = tile_x * (S::tile_n / halves) + panel % per_half * 64;
            load_parts<rows * 128>(to, full, is_shared, panel < per_half ? p_.b : p_.b_values, [&](int part) {
                return tma::Corner{column, k_block * S::tile_k + part * rows};
            });
        }
    }

    // A column-major B: a row of 64 of k for each of the tile's columns, in one box, or in one for each half or for each
    // block of the cluster.
    __device__ __forceinline__ void issue_columns(
        unsigned to, unsigned full, int tile_x, int k_block, bool is_shared) const {
        constexpr int parts = Form::has_halves || S::cluster > 1 ? 2 : 1, columns = S::tile_n / parts;
        static_assert(columns % 8 == 0, "the swizzle repeats after 8 rows");
        if constexpr (Form::is_im2col) {
            const Tap tap = tap_of(p_.im2col, k_block);
            tma::load(to, p_.b, tma::WeightCorner{tap.channel_block * S::tile_k, tap.number, tile_x * S::tile_n}, full);
            return;
        }
        const auto issue = [&](int part, auto&& load) {
            const int column = Form::has_halves ? tile_x * columns : tile_x * S::tile_n + part * columns;
            load(to + part * columns * 128, Form::has_halves && part == 1 ? p_.b_values : p_.b,
                 tma::Corner{k_block * S::tile_k, column});
        };
        if (S::cluster > 1 && is_shared) {
            issue(rank_, [&](unsigned there, const TensorMap& map, tma::Corner at) {
                tma::load_multicast(there, map, at, full, (1 << S::cluster) - 1);
            });
            return;
        }
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            issue(part, [&](unsigned there, const TensorMap& map, tma::Corner at) { tma::load(there, map, at, full); });
        }
    }

    // A box in as many parts as the cluster has blocks: each block loads its part into all, or all parts into its own.
    template <int BYTES, class CornerOf>
    __device__ __forceinline__ void load_parts(
        unsigned to, unsigned full, bool is_shared, const TensorMap& map, CornerOf&& corner_of) const {
        if (S::cluster > 1 && is_shared) {
            tma::load_multicast(to + rank_ * BYTES, map, corner_of(rank_), full, (1 << S::cluster) - 1);
            return;
        }
#pragma unroll
        for (int part = 0; part < S::cluster; ++part) tma::load(to + part * BYTES, map, corner_of(part), full);
    }

    const cusync::StageParams<Generated>& sync_;
    const typename Part::Stage& stage_;
    const typename Form::Params& p_;
    const Shared<S>& shared_;
    ProducerState<S>& state_;
    const int rank_;
    bool awaits_grid_;
    bool is_split_next_ = false;
    Pixel pixel_;  // of a convolution: that of the tile's first output
};
