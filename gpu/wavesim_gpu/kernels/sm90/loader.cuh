// The loading warp: all its lanes look at semaphores, the first one has the copy engine fill the ring. B does not wait; A
// waits for what it is read from, as far as the chunk at hand needs it.
#pragma once

#include <cusync/dependent_launch.cuh>
#include <cusync/schedule.cuh>
#include <kernels/sm90/shared.cuh>

// How far the loading warp has come in the rings of its block, whatever the stage.
template <class S>
struct LoaderPlaces {
    mbarrier::Place<S::stages> chunk;  // of the next chunk of B
    mbarrier::Place<notes> note;
    mbarrier::Place<letters> mail;

    __device__ __forceinline__ void announce(const Shared<S>& shared, const TileNote& tile) {
        mbarrier::wait(shared.read(note.slot), note.parity ^ 1);
        if (threadIdx.x == 0) {
            TileNote& there = shared.control().note[note.slot];
            there = tile;
            for (int& has_outputs : there.has_outputs) has_outputs = tile.is_whole;
            if (tile.tile.linear >= 0) cusync::Recorder<notes>().start(note.slot);
            mbarrier::arrive(shared.noted(note.slot));
        }
        __syncwarp();
        note.advance();
    }

    __device__ __forceinline__ void announce_end(const Shared<S>& shared) {
        TileNote end{};
        end.tile.linear = end.tile.position = -1;
        announce(shared, end);
    }
};

template <class S, class Part>
class Loader {
public:
    __device__ __forceinline__ Loader(const Part& part, const Shared<S>& shared, LoaderPlaces<S>& at)
        : sync_(part.sync), stage_(part.stage), p_(part.p), shared_(shared), at_(at), rank_(block_rank<S>()),
          awaits_grid_(!has_input && part.p.is_dependent) {}

    // Takes tiles until there are none, or one.
    __device__ __forceinline__ void run() {
        if constexpr (S::is_stream_k) return run_stream_k();
        is_slice_next_ = stage_.positions() > 1 && stage_.tile_at(1).z > 0;
        int turn = from_first_lane(take_turn());
        while (position_of(turn, 0) < stage_.positions()) {
            turn = from_first_lane(load(piece_of(tile_of(turn, rank_)), turn));
        }
    }

private:
    using Generated = typename Part::Generated;
    using Input = cusync::ScheduleWait<typename Part::Stage>;

    static constexpr bool has_input = Generated::input_count > 0;
    static constexpr int take_ahead = 4;  // chunks before a tile's end at which the next tile is taken
    static constexpr int never = 0x3fffffff;

    static __device__ __forceinline__ bool is_first_lane() { return threadIdx.x == 0; }
    static __device__ __forceinline__ int from_first_lane(int value) { return __shfl_sync(0xffffffffu, value, 0); }

    // In turns.cuh: which tile is next. A turn is a number that only the first lane knows at first.
    __device__ __forceinline__ int take_turn();
    __device__ __forceinline__ int position_of(int turn, int rank) const;
    __device__ __forceinline__ cusync::Tile tile_of(int turn, int rank) const;
    __device__ __forceinline__ int chunks_of_k() const;
    __device__ __forceinline__ TileNote piece_of(const cusync::Tile& tile) const;

    // In stream_k.cuh.
    __device__ __forceinline__ void run_stream_k();
    static __device__ __forceinline__ int block_of(int unit, long long units);

    // Announces the tile and fills the ring with its chunks. Returns the next turn, which the first lane knows.
    __device__ __forceinline__ int load(const TileNote& note, int turn) {
        const cusync::Tile tile = note.tile;
        const int line = at_.note.slot;
        at_.announce(shared_, note);
        const int take_at = p_.is_persistent && !S::is_stream_k ? max(note.first, note.last - take_ahead) : -1;
        bool shares_a = false, shares_b = false;
        if constexpr (S::cluster > 1) {
            const cusync::Tile other = tile_of(turn, rank_ ^ 1);
            shares_b = tile.x == other.x, shares_a = !shares_b && tile.y == other.y;
        }
        int next = never, next_b = note.first;
        mbarrier::Place<S::stages> a_place = at_.chunk;
        Input input(stage_, tile, line);
        for (int chunk = note.first; chunk < note.last;) {
            if constexpr (!Generated::reorders_loads) settle(input, chunk);
            if (awaits_grid_ || (has_input && !input.has(chunk))) {
                if (next_b == chunk) load_b(tile.x, next_b++, shares_b);
                if (awaits_grid_ || !is_ready(input, chunk)) {
                    // B does not wait: as much of it as the ring has room for.
                    while (next_b < note.last && is_slot_empty()) load_b(tile.x, next_b++, shares_b);
                    if (awaits_grid_) wait_for_grid();
                    settle(input, chunk);
                }
            }
            int end = has_input ? min(note.last, input.ready_before()) : note.last;
            if (chunk <= take_at) end = min(end, take_at + 1);
            load_ready(tile, chunk, end, next_b, a_place, shares_a, shares_b);
            chunk = end, next_b = max(next_b, end);
            if (chunk == take_at + 1) next = take_turn();  // looked at when the tile has been loaded
        }
        return next;
    }

    // Chunks that need nothing more, one after the other: by one lane that meets no other between them, which takes half
    // the time. B is there or on its way before chunk `next_b`.
    __device__ __forceinline__ void load_ready(const cusync::Tile& tile, int chunk, int end, int next_b,
                                               mbarrier::Place<S::stages>& a_place, bool shares_a, bool shares_b) {
        if (tma::is_elected()) {
            mbarrier::Place<S::stages> place = a_place;
            for (int i = chunk; i < end; ++i, place.advance()) {
                if (i >= next_b) start_b(tile.x, i, place, shares_b);
                start_a(tile.y, i, place.slot, shares_a);
            }
        }
        __syncwarp();
        a_place.advance(end - chunk);
        if (end > next_b) at_.chunk.advance(end - next_b);
    }

    // Whether the next chunk of B has a place now: one lane's answer, so that all lanes go the same way.
    __device__ __forceinline__ bool is_slot_empty() const {
        return from_first_lane(mbarrier::has_ended_now(shared_.empty(at_.chunk.slot), at_.chunk.parity ^ 1)) != 0;
    }

    // Whether all that the chunk of A needs is there, as one look tells.
    static __device__ __forceinline__ bool is_ready(Input& input, int chunk) {
        if (!has_input || input.has(chunk)) return true;
        const bool is_ready = input.look(chunk);
        hand_on();
        return is_ready;
    }

    // Returns once it is there.
    static __device__ __forceinline__ void settle(Input& input, int chunk) {
        if (!has_input || input.has(chunk)) return;
        input.peek(chunk);
        input.settle(chunk);
        hand_on();
    }

    // What all lanes have acquired, to the first lane and from there to the copy engine.
    static __device__ __forceinline__ void hand_on() {
        __syncwarp();
        tma::acquire_global();
    }

    // Under programmatic dependent launch: until the kernel before has ended and A is there. Semaphores say more than that.
    __device__ __forceinline__ void wait_for_grid() {
        cusync::wait_for_previous();
        awaits_grid_ = false;
    }

    // The next chunk of B.
    __device__ __forceinline__ void load_b(int tile_x, int chunk, bool is_shared) {
        if (tma::is_elected()) start_b(tile_x, chunk, at_.chunk, is_shared);
        __syncwarp();
        at_.chunk.advance();
    }

    __device__ __forceinline__ void start_a(int tile_y, int chunk, int slot, bool is_shared) const {
        constexpr int rows = S::tile_m / S::cluster;
        load_parts<rows * 128>(shared_.ring + slot * S::stage_bytes, shared_.full(slot), is_shared, p_.a, [&](int part) {
            return tma::Corner{chunk * S::tile_k, tile_y * S::tile_m + part * rows};
        });
    }

    // Waits for the slot, arms it for A and B and starts B.
    __device__ __forceinline__ void start_b(
        int tile_x, int chunk, const mbarrier::Place<S::stages>& place, bool is_shared) const {
        constexpr int rows = S::tile_k / S::cluster;
        const unsigned full = shared_.full(place.slot);
        mbarrier::wait(shared_.empty(place.slot), place.parity ^ 1);
        mbarrier::expect(full, p_.load_bytes);
        unsigned to = shared_.ring + place.slot * S::stage_bytes + S::a_bytes;
        if (S::cluster == 1 && tile_x < p_.whole_tiles) {
            tma::load_panels(to, p_.b_tiles, tile_x, chunk * S::tile_k, full);
            return;
        }
#pragma unroll
        for (int panel = 0; panel < S::panels; ++panel, to += S::panel_bytes) {
            load_parts<rows * 128>(to, full, is_shared, p_.b, [&](int part) {
                return tma::Corner{tile_x * S::tile_n + panel * 64, chunk * S::tile_k + part * rows};
            });
        }
    }

    // A box in as many parts as the cluster has blocks: each block loads its part into all, or all parts into its own.
    template <int BYTES, class CornerOf>
    __device__ __forceinline__ void load_parts(
        unsigned to, unsigned full, bool is_shared, const TensorMap& map, CornerOf&& corner_of) const {
        if (S::cluster > 1 && is_shared) {
            tma::load_to_many(to + rank_ * BYTES, map, corner_of(rank_), full, (1 << S::cluster) - 1);
            return;
        }
#pragma unroll
        for (int part = 0; part < S::cluster; ++part) tma::load(to + part * BYTES, map, corner_of(part), full);
    }

    const cusync::StageParams<Generated>& sync_;
    const typename Part::Stage& stage_;
    const GemmSm90Params& p_;
    const Shared<S>& shared_;
    LoaderPlaces<S>& at_;
    const int rank_;
    bool awaits_grid_;
    bool is_slice_next_ = false;
};
