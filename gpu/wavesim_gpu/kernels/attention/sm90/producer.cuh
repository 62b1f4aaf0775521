// The producer warp: all its lanes poll semaphores, one lane issues the TMA loads. Block j of K and V is loaded once the
// producer tiles that it reads are there, Q with block 0; V follows one block behind K, as it is used.
//
//   K0 Q | K1 V0 | K2 V1 | .wait for the tiles of block 3. | K3 V2 | V3 | next tile: K0 Q | ...
#pragma once

#include <cusync/dependent_launch.cuh>
#include <kernels/attention/sm90/shared_memory.cuh>

template <class S, class Generated>
class ProducerWarp {
public:
    using Stage = cusync::TileStage<Generated, WorkTiles>;

    __device__ __forceinline__ ProducerWarp(const Stage& stage, const AttentionSm90Params& p, const Shared<S>& shared)
        : stage_(stage), p_(p), shared_(shared), awaits_grid_(!has_input && p.is_dependent) {}

    // Loads tile after tile until there are no more; in an ordinary launch, one.
    __device__ __forceinline__ void run() {
        int position = next_position();
        while (position < stage_.positions()) position = load(work_of(stage_.tile_at(position)));
        WorkTile end{};
        end.tile.position = -1;
        publish(end);
    }

private:
    using Input = cusync::ScheduleWait<Stage>;

    static constexpr bool has_input = Generated::input_count > 0;

    __device__ __forceinline__ int next_position() const {
        int position = 0;
        if (threadIdx.x == 0) position = stage_.fetch_position();
        return __shfl_sync(0xffffffffu, position, 0);
    }

    __device__ __forceinline__ WorkTile work_of(const cusync::Tile& tile) const {
        const int sequence = tile.y / p_.row_blocks, row = (tile.y - sequence * p_.row_blocks) * S::tile_m;
        // The last row that is there sees the most keys.
        const int keys = S::is_causal ? p_.keys - p_.length + min(row + S::tile_m, p_.length) : p_.keys;
        return {tile, sequence, row, (keys - p_.first_key + S::tile_keys - 1) / S::tile_keys, 0};
    }

    __device__ __forceinline__ void publish(const WorkTile& work) {
        const auto place = place_of<work_tile_slots>(tiles_);
        mbarrier::wait(shared_.tile_empty(place.slot), place.parity ^ 1);
        if (threadIdx.x == 0) {
            shared_.control().work_tiles[place.slot] = work;
            if (work.tile.position >= 0) stage_.recorder().begin(place.slot);
            mbarrier::arrive(shared_.tile_full(place.slot));
        }
        __syncwarp();
    }

    // Publishes the tile and loads its blocks. Returns the next position, or one past the last.
    __device__ __forceinline__ int load(const WorkTile& computed) {
        const int line = tiles_ % work_tile_slots;
        publish(computed);
        const WorkTile& work = shared_.control().work_tiles[line];  // there, not in registers, of which this warp has few
        int next = stage_.positions();
        Input input(stage_, work.tile, line);
        for (int block = 0; block < work.kv_blocks; ++block) {
            const bool is_ready = has(input, block);
            if (!is_ready && block > 0) load_v(work, block - 1);  // its turn would come only after the wait
            if (!is_ready) wait(input, block);
            load_k(work, block);
            if (block == 0) load_q(work);
            if (is_ready && block > 0) load_v(work, block - 1);
            if (block == work.kv_blocks - 1 && p_.is_persistent) next = next_position();
        }
        load_v(work, work.kv_blocks - 1);
        ++tiles_;
        return next;
    }

    // Whether everything that the block reads is there, by one look at its semaphores.
    __device__ __forceinline__ bool has(Input& input, int block) const {
        if (awaits_grid_) return false;
        if (!has_input || input.has(block)) return true;
        const bool is_there = input.try_wait(block);
        acquire_for_tma();
        return is_there;
    }

    // Returns once it is there, or the run was aborted.
    __device__ __forceinline__ void wait(Input& input, int block) {
        // Under programmatic dependent launch without semaphores: the kernel before has ended, so all is there.
        if (awaits_grid_) cusync::wait_for_previous_grid();
        awaits_grid_ = false;
        if (!has_input) return;
        input.prefetch(block);
        input.wait(block);
        if (input.is_aborted()) abort();
        acquire_for_tma();
    }

    // Tells the MMA warpgroups. They look after the tile's last V block, whose loads are issued after this: the fence
    // orders the flag before TMA's arrivals at their barriers.
    __device__ __forceinline__ void abort() const {
        if (threadIdx.x == 0) shared_.control().is_aborted = 1;
        tma::fence_proxy();
        __syncwarp();
    }

    // Hands what all lanes have acquired to the issuing lane, and from ordinary loads to TMA's.
    static __device__ __forceinline__ void acquire_for_tma() {
        __syncwarp();
        tma::fence_proxy_global();
    }

    __device__ __forceinline__ void load_q(const WorkTile& work) const {
        if (tma::is_elected()) {
            mbarrier::wait(shared_.q_empty(), place_of<1>(tiles_).parity ^ 1);
            mbarrier::arrive_and_expect_tx(shared_.q_full(), S::q_bytes);
            tma::load_head(shared_.q, p_.q, {work.tile.x * S::panels, work.row, work.sequence}, shared_.q_full());
        }
        __syncwarp();
    }
    __device__ __forceinline__ void load_k(const WorkTile& work, int block) {
        const auto place = place_of<S::pipeline_depth>(k_blocks_++);
        load_block(work, block, p_.k, shared_.k, shared_.k_full(place.slot), shared_.k_empty(place.slot), place);
    }
    __device__ __forceinline__ void load_v(const WorkTile& work, int block) {
        const auto place = place_of<S::pipeline_depth>(v_blocks_++);
        load_block(work, block, p_.v, shared_.v, shared_.v_full(place.slot), shared_.v_empty(place.slot), place);
    }
    __device__ __forceinline__ void load_block(const WorkTile& work, int block, const TensorMap& map, unsigned ring,
                                               unsigned full, unsigned empty,
                                               const mbarrier::Place<S::pipeline_depth>& place) const {
        if (tma::is_elected()) {
            mbarrier::wait(empty, place.parity ^ 1);
            mbarrier::arrive_and_expect_tx(full, S::kv_bytes);
            const tma::HeadCorner at{work.tile.x / p_.group * S::panels, p_.first_key + block * S::tile_keys, work.sequence};
            tma::load_head(ring + place.slot * S::kv_bytes, map, at, full);
        }
        __syncwarp();
    }

    // Where the n-th of all loads goes. A number takes one register, a place two, and this warp has few.
    template <int SLOTS>
    static __device__ __forceinline__ mbarrier::Place<SLOTS> place_of(unsigned n) {
        return {static_cast<int>(n % SLOTS), n / SLOTS % 2};
    }

    const Stage& stage_;
    const AttentionSm90Params& p_;
    const Shared<S>& shared_;
    bool awaits_grid_;
    unsigned tiles_ = 0, k_blocks_ = 0, v_blocks_ = 0;  // loaded so far
};
