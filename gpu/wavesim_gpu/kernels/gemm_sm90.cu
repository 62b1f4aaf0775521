// C = activation(A (m, k) x B (k, n)), all row-major, fp16 or bf16 in and out, fp32 inside. Hopper only (sm_90a): the
// copy engine brings the operands, wgmma multiplies them, the copy engine takes the result away.
//
// One thread block per SM, its warps specialised:
//
//   loading warp      | B0 B1 B2 B3 .wait. A0 A1 A2 A3 | A4+B4 ...            | next tile: B0 B1 ...
//                     |     ring of stages in shared memory, a full and an empty barrier each
//   math warpgroup 0  |                    ## k0 ## k1 ## ... ## last ## out  | ## k0 ## ...
//   math warpgroup 1  |                       ## k0 ## k1 ## ... ## last ## out | ## k0 ...
//                     |     two staging slots per warpgroup, a full and an empty barrier each
//   storing warp 0, 1 |                                                 store, store, complete: post
//
// Nobody waits for more than the slot it needs. While one warpgroup rounds and stages its part of the output, the
// other has the tensor cores for itself, as far as the ring reaches, and the loading warp is in the next tile already:
// in a persistent launch neither the epilogue nor the start of a tile shows.
//
// As a consumer it waits for A only, in the loading warp, with B already on its way. As a producer it posts when the
// copy engine has completed the tile's stores. The two blocks of a cluster take neighbours in the tile order; where these
// share a column, or a row, each block loads half of B, or of A, into both.

#include <generated.cuh>

#include <cusync/lane_stage.cuh>
#include <cusync/schedule.cuh>
#include <kernels/mbarrier.cuh>
#include <kernels/tensor_core.cuh>
#include <kernels/tma.cuh>
#include <kernels/wgmma.cuh>

struct GemmSm90Params {
    TensorMap a;  // (m, k), boxes of (tile_m / cluster, 64)
    TensorMap b;  // (k, n), boxes of (64 / cluster, 64)
    TensorMap c;  // (m, columns), boxes of (64, 64)
    float* partials;    // (tile, slice, tile_m * tile_n), in the order the threads hold them
    unsigned* tickets;  // one per tile: slices that are done
    int k;
    int is_persistent;  // blocks take tiles until there are none, instead of one each
};
static_assert(sizeof(GemmSm90Params) == 448, "gemm_sm90.py packs 448 bytes");

enum class Activation { none = 0, gelu = 1, swiglu = 2 };

// Positions that one block of a cluster may have drawn and the other not yet read: the first is ahead of the second by
// the ring at most, and by one tile that it takes early.
constexpr int letters = 8;

// The sum of an output tile is spread over WARPGROUPS_ x FRAGS_M_ fragments of 64 rows, TILE_N_ columns each. With
// Stream-K the K chunks of the last wave or two of tiles are dealt out evenly, so that all blocks end together.
template <int WARPGROUPS_, int FRAGS_M_, int TILE_N_, int STAGES_, int STAGED_ = 2, int CLUSTER_ = 1, bool IS_STREAM_K_ = false>
struct Shape {
    static constexpr int warpgroups = WARPGROUPS_, frags_m = FRAGS_M_, stages = STAGES_, cluster = CLUSTER_;
    static constexpr int tile_m = 64 * warpgroups * frags_m, tile_n = TILE_N_, tile_k = 64;
    static constexpr bool is_stream_k = IS_STREAM_K_;
    static constexpr int staged = STAGED_;  // slots per warpgroup, 64 x 64 outputs each
    static constexpr int threads = 128 * (1 + warpgroups), math_warps = 4 * warpgroups;
    static constexpr int a_bytes = tile_m * 128, b_bytes = tile_n * 128, stage_bytes = a_bytes + b_bytes;
    static constexpr int panel_bytes = 64 * 128;  // 64 columns of B, or a fragment's 64 rows of A or of staged C
    static constexpr int ring_bytes = stages * stage_bytes, staging_bytes = warpgroups * staged * panel_bytes;
    // Registers per thread once the loading and storing warps have given theirs away.
    static constexpr int math_registers = warpgroups == 3 ? 152 : 216, other_registers = warpgroups == 3 ? 56 : 72;
    // A block starts with as many per thread as the SM has for it, in eights. Whoever asks for more than the others have
    // left waits for ever.
    static constexpr int start_registers = 65536 / threads / 8 * 8;
    static_assert(warpgroups == 1 || 128 * (other_registers + warpgroups * math_registers) <= threads * start_registers);
    static_assert(!is_stream_k || cluster == 1, "a cluster's blocks would have to cut alike");
    static_assert(stages < letters - 1);
    static_assert(warpgroups <= 3, "one storing warp each, beside the loading warp");
    static_assert(tile_n % 64 == 0 && tile_n <= 256 && (cluster == 1 || cluster == 2));
};

constexpr int notes = 2;  // tiles that a block may have begun and not finished

using Stage = cusync::LaneStage<generated::stage, notes>;
using SyncParams = cusync::StageParams<generated::stage>;

// A tile, broadcast by the loading warp to the math and storing warps.
struct TileNote {
    cusync::Tile tile;  // its position is negative after the last one
    int first, last;    // its K chunks, or a slice of them
    int slice, slices;
    int ticket, sums;   // where its slices meet, and where the first of them leaves its sum
    int stored;         // warpgroups whose part of the tile is complete
    int is_whole;       // whether it is stored: not where it lies outside, nor an earlier slice of split-K
};

// What lies after the ring and the staging slots.
template <class S>
struct Control {
    unsigned long long full[S::stages], empty[S::stages];
    unsigned long long noted[notes], read[notes];
    unsigned long long staged[S::warpgroups][S::staged], drained[S::warpgroups][S::staged];
    unsigned long long mailed[letters];
    TileNote note[notes];
    int mail[letters];
    int came_before;
};

template <class S>
struct Shared {
    unsigned char* base;
    unsigned ring, staging;

    __device__ __forceinline__ explicit Shared(unsigned char* bytes) : base(bytes) {
        ring = static_cast<unsigned>(__cvta_generic_to_shared(bytes));
        staging = ring + S::ring_bytes;
    }
    __device__ __forceinline__ Control<S>& control() const {
        return *reinterpret_cast<Control<S>*>(base + S::ring_bytes + S::staging_bytes);
    }
    template <class T>
    static __device__ __forceinline__ unsigned address(const T& of) {
        return static_cast<unsigned>(__cvta_generic_to_shared(&of));
    }
    __device__ __forceinline__ unsigned full(int slot) const { return address(control().full[slot]); }
    __device__ __forceinline__ unsigned empty(int slot) const { return address(control().empty[slot]); }
    __device__ __forceinline__ unsigned noted(int slot) const { return address(control().noted[slot]); }
    __device__ __forceinline__ unsigned read(int slot) const { return address(control().read[slot]); }
    __device__ __forceinline__ unsigned staged(int group, int slot) const { return address(control().staged[group][slot]); }
    __device__ __forceinline__ unsigned drained(int group, int slot) const { return address(control().drained[group][slot]); }

    __device__ __forceinline__ unsigned mailed(int slot) const { return address(control().mailed[slot]); }

    // One thread of the block, before any other use.
    __device__ void init() const {
        for (int i = 0; i < S::stages; ++i) {
            mbarrier::init(full(i), 1);
            mbarrier::init(empty(i), S::math_warps * S::cluster);
        }
        for (int i = 0; i < notes; ++i) {
            mbarrier::init(noted(i), 1);
            mbarrier::init(read(i), S::math_warps + S::warpgroups);
            control().note[i].stored = 0;
        }
        for (int group = 0; group < S::warpgroups; ++group) {
            for (int i = 0; i < S::staged; ++i) {
                mbarrier::init(staged(group, i), 4);
                mbarrier::init(drained(group, i), 1);
            }
        }
        for (int i = 0; i < letters; ++i) mbarrier::init(mailed(i), 1);
        mbarrier::publish_inits();
    }
};

template <class S>
__device__ __forceinline__ int block_rank() {
    if constexpr (S::cluster == 1) return 0;
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of the cluster; of the block where a cluster is one block.
template <class S>
__device__ __forceinline__ void cluster_barrier() {
    if constexpr (S::cluster == 1) {
        __syncthreads();
    } else {
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
}

// Reads the loading warp's notes, one warp at a time. Calls body(note, slot) for each tile.
template <class S, class Body>
__device__ __forceinline__ void for_each_tile(const Shared<S>& shared, Body&& body) {
    mbarrier::Place<notes> place;
    for (;; place.advance()) {
        mbarrier::wait(shared.noted(place.slot), place.parity);
        TileNote& note = shared.control().note[place.slot];
        if (note.tile.position < 0) return;
        body(note, place.slot);
        __syncwarp();
        if ((threadIdx.x & 31) == 0) mbarrier::arrive(shared.read(place.slot));
    }
}

// ---- The loading warp: all its lanes look at semaphores, the first one loads.

template <class S>
class Loader {
public:
    __device__ __forceinline__ Loader(const SyncParams& sync, const Stage& stage, const GemmSm90Params& p, const Shared<S>& shared)
        : sync_(sync), stage_(stage), p_(p), shared_(shared), rank_(block_rank<S>()) {}

    // Takes tiles until there are none, or one.
    __device__ __forceinline__ void run() {
        if constexpr (S::is_stream_k) return run_stream_k();
        is_slice_next_ = stage_.positions() > 1 && stage_.tile_at(1).z > 0;
        int turn = from_first_lane(take_turn());
        while (position_of(turn, 0) < stage_.positions()) {
            turn = from_first_lane(load(piece_of(tile_of(turn, rank_)), turn));
        }
        announce_end();
    }

private:
    using Input = cusync::ScheduleWait<Stage>;

    static constexpr bool has_input = generated::stage::input_count > 0;
    static constexpr int take_ahead = 4;  // chunks before a tile's end at which the next tile is taken
    static constexpr int never = 0x3fffffff;

    static __device__ __forceinline__ bool is_first_lane() { return threadIdx.x == 0; }
    static __device__ __forceinline__ int from_first_lane(int value) { return __shfl_sync(0xffffffffu, value, 0); }

    // A cluster takes turns together: its first block draws and sends the number to the second. The first lane knows.
    __device__ __forceinline__ int take_turn() {
        int turn = never;
        if constexpr (S::cluster == 1) {
            if (is_first_lane()) turn = stage_.next_position();
        } else if constexpr (!generated::stage::draws_position) {
            if (is_first_lane()) turn = stage_.next_position() / S::cluster;
        } else {
            int& letter = shared_.control().mail[mail_.slot];
            const unsigned mailed = shared_.mailed(mail_.slot);
            if (is_first_lane() && rank_ == 0) {
                turn = stage_.next_position();
                mbarrier::send(shared_.address(letter), 1, turn, mailed);
            } else if (is_first_lane()) {
                mbarrier::expect(mailed, sizeof(letter));
                mbarrier::wait(mailed, mail_.parity);
                turn = letter;
            }
            mail_.advance();
        }
        return turn;
    }

    // The position of block `rank` in a turn of the cluster, or the end. Its blocks take the same slice, of
    // neighbouring tiles; slices are neighbours in the order, or all tiles come before the next slice.
    __device__ __forceinline__ int position_of(int turn, int rank) const {
        if constexpr (S::cluster == 1) return turn;
        const int slices = sync_.generated.slices, tiles = stage_.positions() / slices;
        const int turns = (tiles + S::cluster - 1) / S::cluster;  // of one slice
        const int tile = S::cluster * (is_slice_next_ ? turn / slices : turn % turns) + rank;
        if (turn >= turns * slices || tile >= tiles) return stage_.positions();
        return is_slice_next_ ? tile * slices + turn % slices : turn / turns * tiles + tile;
    }

    // Past the last tile the second block keeps the first company with one that lies outside.
    __device__ __forceinline__ cusync::Tile tile_of(int turn, int rank) const {
        const int position = position_of(turn, rank);
        if (S::cluster == 1 || position < stage_.positions()) return stage_.tile_at(position);
        return {sync_.generated.columns, sync_.generated.rows, stage_.tile_at(position_of(turn, 0)).z, -1, position};
    }

    __device__ __forceinline__ int chunks_of_k() const { return (p_.k + S::tile_k - 1) / S::tile_k; }

    // A tile, or with split-K a slice of it, as the host divides it too.
    __device__ __forceinline__ TileNote piece_of(const cusync::Tile& tile) const {
        const int chunks = chunks_of_k(), slices = sync_.generated.slices;
        const int first = chunks * tile.z / slices, last = chunks * (tile.z + 1) / slices;
        return {tile, first, last, tile.z, slices, tile.linear, tile.linear * slices, 0, tile.linear >= 0};
    }

    // Stream-K. This block's share of the last tiles' chunks first, so that sums that others wait for come early; then
    // whole tiles, the same number in every block.
    __device__ __forceinline__ void run_stream_k() {
        static_assert(!S::is_stream_k || !has_input, "Stream-K runs under stream sync");
        const int tiles = stage_.positions(), blocks = gridDim.x, block = blockIdx.x, chunks = chunks_of_k();
        const int whole = tiles % blocks == 0 ? tiles : max(tiles / blocks - 1, 0) * blocks;
        const int cut = tiles - whole, most_slices = (blocks + cut - 1) / max(cut, 1) + 1;
        const long long units = static_cast<long long>(cut) * chunks;
        const int end = static_cast<int>(units * (block + 1) / blocks);
        for (int unit = static_cast<int>(units * block / blocks); unit < end;) {
            const int tile = unit / chunks, first = unit - tile * chunks, last = min(chunks, first + end - unit);
            const int first_block = block_of(tile * chunks, units), last_block = block_of((tile + 1) * chunks - 1, units);
            load({stage_.tile_at(whole + tile), first, last, block - first_block, last_block - first_block + 1, tile,
                  tile * most_slices, 0, 1}, never);
            unit += last - first;
        }
        for (int position = block; position < whole; position += blocks) load(piece_of(stage_.tile_at(position)), never);
        announce_end();
    }

    // The block in whose share a chunk is.
    static __device__ __forceinline__ int block_of(int unit, long long units) {
        const int blocks = gridDim.x;
        int block = static_cast<int>(static_cast<long long>(unit) * blocks / units);
        while (units * (block + 1) / blocks <= unit) ++block;
        return block;
    }

    __device__ __forceinline__ void announce(const TileNote& note) {
        mbarrier::wait(shared_.read(note_.slot), note_.parity ^ 1);
        if (is_first_lane()) {
            shared_.control().note[note_.slot] = note;
            if (note.tile.linear >= 0) stage_.recorder().start(note_.slot);
            mbarrier::arrive(shared_.noted(note_.slot));
        }
        __syncwarp();
        note_.advance();
    }

    __device__ __forceinline__ void announce_end() {
        TileNote end{};
        end.tile.linear = end.tile.position = -1;
        announce(end);
    }

    // Announces the tile and fills the ring with its chunks. Returns the next turn, which the first lane knows.
    __device__ __forceinline__ int load(const TileNote& note, int turn) {
        const cusync::Tile tile = note.tile;
        const int line = note_.slot;
        announce(note);
        const int take_at = p_.is_persistent && !S::is_stream_k ? max(note.first, note.last - take_ahead) : -1;
        bool shares_a = false, shares_b = false;
        if constexpr (S::cluster > 1) {
            const cusync::Tile other = tile_of(turn, rank_ ^ 1);
            shares_b = tile.x == other.x, shares_a = !shares_b && tile.y == other.y;
        }
        int next = never, next_b = note.first;
        mbarrier::Place<S::stages> a_place = place_;
        Input input(stage_, tile, line);
        for (int chunk = note.first; chunk < note.last; ++chunk) {
            __syncwarp();  // a lane left behind could miss a whole turn of the ring
            if constexpr (!generated::stage::reorders_loads) settle(input, chunk);
            if (next_b == chunk) {
                mbarrier::wait(shared_.empty(place_.slot), place_.parity ^ 1);
                load_b(tile.x, next_b++, shares_b);
            }
            if (awaits_grid_ || !is_ready(input, chunk)) {
                // B does not wait: as much of it as the ring has room for.
                while (next_b < note.last && is_slot_empty()) {
                    load_b(tile.x, next_b++, shares_b);
                }
                if (awaits_grid_) wait_for_grid();
                settle(input, chunk);
            }
            load_a(tile.y, chunk, a_place.slot, shares_a);
            a_place.advance();
            if (chunk == take_at) next = take_turn();  // looked at when the tile has been loaded
        }
        return next;
    }

    // Whether the next chunk of B has a place now: one lane's answer, so that all lanes go the same way.
    __device__ __forceinline__ bool is_slot_empty() const {
        return from_first_lane(mbarrier::has_ended_now(shared_.empty(place_.slot), place_.parity ^ 1)) != 0;
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

    // Under programmatic dependent launch: until the kernel before has ended and A is there; else returns at once.
    // Semaphores say more than that.
    __device__ __forceinline__ void wait_for_grid() {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        awaits_grid_ = false;
    }

    __device__ __forceinline__ void load_a(int tile_y, int chunk, int slot, bool is_shared) const {
        constexpr int rows = S::tile_m / S::cluster;
        if (!is_first_lane()) return;
        load_parts<rows * 128>(shared_.ring + slot * S::stage_bytes, shared_.full(slot), is_shared,
                               [&](int part) { return Corner{chunk * S::tile_k, tile_y * S::tile_m + part * rows}; }, p_.a);
    }

    // Arms the slot for A and B and starts B.
    __device__ __forceinline__ void load_b(int tile_x, int chunk, bool is_shared) {
        constexpr int rows = S::tile_k / S::cluster;
        const int slot = place_.slot;
        place_.advance();
        if (!is_first_lane()) return;
        const unsigned full = shared_.full(slot);
        mbarrier::expect(full, S::stage_bytes);
        unsigned to = shared_.ring + slot * S::stage_bytes + S::a_bytes;
#pragma unroll
        for (int panel = 0; panel < S::tile_n / 64; ++panel, to += S::panel_bytes) {
            const int column = tile_x * S::tile_n + panel * 64;
            load_parts<rows * 128>(to, full, is_shared, [&](int part) { return Corner{column, chunk * S::tile_k + part * rows}; },
                                   p_.b);
        }
    }

    struct Corner {
        int column, row;
    };

    // A box in as many parts as the cluster has blocks: each block loads its part into all, or all parts into its own.
    template <int BYTES, class CornerOf>
    __device__ __forceinline__ void load_parts(
        unsigned to, unsigned full, bool is_shared, CornerOf&& corner_of, const TensorMap& map) const {
        if (S::cluster > 1 && is_shared) {
            const Corner corner = corner_of(rank_);
            tma::load_to_many(to + rank_ * BYTES, map, corner.column, corner.row, full, (1 << S::cluster) - 1);
            return;
        }
#pragma unroll
        for (int part = 0; part < S::cluster; ++part) {
            const Corner corner = corner_of(part);
            tma::load(to + part * BYTES, map, corner.column, corner.row, full);
        }
    }

    const SyncParams& sync_;
    const Stage& stage_;
    const GemmSm90Params& p_;
    const Shared<S>& shared_;
    const int rank_;
    mbarrier::Place<S::stages> place_;  // of the next chunk of B
    mbarrier::Place<notes> note_;
    mbarrier::Place<letters> mail_;
    bool awaits_grid_ = !has_input;
    bool is_slice_next_ = false;
};

// ---- The math warpgroups.

// Release, GPU scope: publishes what the block barrier just before has shown this thread.
__device__ __forceinline__ void add_release(unsigned* counter, unsigned value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

template <class S, bool IS_BF16, Activation ACTIVATION>
class MathGroup {
public:
    __device__ __forceinline__ MathGroup(
        const GemmSm90Params& p, const Shared<S>& shared, int group)
        : p_(p), shared_(shared), group_(group) {
        a_ = wgmma::describe(shared.ring + group * S::frags_m * S::panel_bytes, 16, 1024);
        b_ = wgmma::describe(shared.ring + S::a_bytes, S::panel_bytes, 1024);
    }

    __device__ __forceinline__ void run() {
        for_each_tile<S>(shared_, [&](TileNote& note, int) {
            accumulate(note.first, note.last);
            if (note.slices > 1 && note.is_whole && !reduce_slices(note)) note.is_whole = 0;
            if (!note.is_whole) {
                hand_over_nothing();
                return;
            }
#pragma unroll
            for (int f = 0; f < S::frags_m; ++f) {
#pragma unroll
                for (int piece = 0; piece < pieces; ++piece) stage(sum_[f], piece);
            }
        });
    }

    // Staging slots that a fragment fills one after the other.
    static constexpr int pieces = S::tile_n / (ACTIVATION == Activation::swiglu ? 128 : 64);
    static_assert(ACTIVATION != Activation::swiglu || S::tile_n % 128 == 0, "SwiGLU halves the columns");

private:
    // sum_ = the product over these chunks. One batch of multiply-adds stays in flight.
    __device__ __forceinline__ void accumulate(int first, int last) {
        for (int chunk = first; chunk < last; ++chunk) {
            mbarrier::wait(shared_.full(place_.slot), place_.parity);
            const wgmma::Descriptor slot = place_.slot * (S::stage_bytes / 16);
            wgmma::begin();
            each<S::tile_k / 16>([&](auto step) {
                constexpr int s = step.value;
                each<S::frags_m>([&](auto fragment) {
                    wgmma::multiply_add<IS_BF16>(sum_[fragment.value],
                                                 a_ + slot + (fragment.value * S::panel_bytes + s * 32) / 16,
                                                 b_ + slot + s * 16 * 128 / 16, s > 0 || chunk > first);
                });
            });
            wgmma::commit();
            if (chunk > first) {
                wgmma::wait<1>();
                release(previous_);
            }
            previous_ = place_.slot;
            place_.advance();
        }
        wgmma::wait<0>();
        release(previous_);
    }

    // This warp no longer needs the slot: told to every block whose loads go there.
    __device__ __forceinline__ void release(int slot) const {
        const unsigned lane = threadIdx.x & 31;
        if constexpr (S::cluster == 1) {
            if (lane == 0) mbarrier::arrive(shared_.empty(slot));
        } else {
            if (lane < S::cluster) mbarrier::arrive_remote(shared_.empty(slot), lane);
        }
    }

    // The first slices to come leave their sums in global memory; the last adds them to its own, in slice order, so
    // that the result does not depend on which came last. Returns whether this block is the last. Only slices that have
    // come already are waited for, so that it is no matter where the others are.
    __device__ __forceinline__ bool reduce_slices(const TileNote& note) {
        constexpr int quads = S::frags_m * S::tile_n / 8, threads = S::math_warps * 32;
        const int thread = static_cast<int>(threadIdx.x) - 128, slices = note.slices;
        unsigned* const ticket = p_.tickets + note.ticket;  // slices that came, and above bit 16 those that left a sum
        float4* const all =
            reinterpret_cast<float4*>(p_.partials) + static_cast<long long>(note.sums) * quads * threads + thread;
        if (thread == 0) shared_.control().came_before = cusync::take_ticket(ticket) & 0xffff;
        math_barrier();
        const bool is_last = shared_.control().came_before == slices - 1;
        if (!is_last) {
            float4* const mine = all + note.slice * quads * threads;
#pragma unroll
            for (int q = 0; q < quads; ++q) {
                const float* sum = sum_[q / (S::tile_n / 8)] + q % (S::tile_n / 8) * 4;
                mine[q * threads] = make_float4(sum[0], sum[1], sum[2], sum[3]);
            }
            // Barrier before the release: it publishes all math threads' sums.
            math_barrier();
            if (thread == 0) add_release(ticket, 1u << 16);
            return false;
        }
        if (thread == 0) {
            while (cusync::load_relaxed(ticket) >> 16 != static_cast<unsigned>(slices - 1)) {}
            cusync::acquire_fence();
            if constexpr (S::is_stream_k) *ticket = 0;  // nobody looks at it any more in this launch
        }
        // After the acquire: all may read the other slices' sums.
        math_barrier();
        add_slices(all, note.slice, slices, quads * threads);
        return true;
    }

    // This slice's sum becomes that of all: those before it, itself, those after it. A batch of loads is in flight.
    __device__ __forceinline__ void add_slices(const float4* all, int own, int slices, int stride) {
        constexpr int groups = S::tile_n / 8, batch = S::warpgroups * S::frags_m * groups <= 48 ? 8 : 4;
        each<S::frags_m * groups / batch>([&](auto index) {
            constexpr int first = index.value * batch;
            float total[4 * batch];
#pragma unroll
            for (int i = 0; i < 4 * batch; ++i) total[i] = 0.0f;
            float* const sum = sum_[first / groups] + first % groups * 4;
            const float4* from = all + first * S::math_warps * 32;
            add(total, from, own, stride);
#pragma unroll
            for (int i = 0; i < 4 * batch; ++i) total[i] += sum[i];
            add(total, from + (own + 1) * stride, slices - own - 1, stride);
#pragma unroll
            for (int i = 0; i < 4 * batch; ++i) sum[i] = total[i];
        });
    }

    template <int COUNT>
    static __device__ __forceinline__ void add(float (&total)[COUNT], const float4* from, int slices, int stride) {
#pragma unroll 1
        for (; slices > 0; --slices, from += stride) {
#pragma unroll
            for (int i = 0; i < COUNT / 4; ++i) {
                const float4 part = from[i * S::math_warps * 32];
                total[4 * i] += part.x, total[4 * i + 1] += part.y, total[4 * i + 2] += part.z, total[4 * i + 3] += part.w;
            }
        }
    }

    static __device__ __forceinline__ void math_barrier() {
        asm volatile("bar.sync 1, %0;" ::"n"(S::math_warps * 32) : "memory");
    }

    __device__ __forceinline__ void hand_over_nothing() {
        mbarrier::wait(shared_.drained(group_, staged_.slot), staged_.parity ^ 1);
        hand_over();
    }

    // Rounds 64 columns of outputs and puts them where the copy engine will fetch them, swizzled as it expects.
    __device__ __forceinline__ void stage(const float (&sum)[S::tile_n / 2], int piece) {
        mbarrier::wait(shared_.drained(group_, staged_.slot), staged_.parity ^ 1);
        const int lane = threadIdx.x & 31, warp = (threadIdx.x / 32) & 3;
        const unsigned slot = shared_.staging + (group_ * S::staged + staged_.slot) * S::panel_bytes;
        if constexpr (ACTIVATION == Activation::swiglu) {
            stage_products(sum, piece, slot + (warp * 16 + lane / 4) * 128, lane);
        } else {
            // Lane l names row l % 16 of the left (l < 16) or right of two neighbouring 16-byte chunks.
            const unsigned row = slot + (warp * 16 + (lane & 15)) * 128;
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                const float* from = sum + (piece * 8 + j) * 4;
                unsigned packed[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) packed[i] = pack<IS_BF16>(activated(from[2 * i]), activated(from[2 * i + 1]));
                store_matrices(row + (((j + (lane >> 4)) ^ (lane & 7)) << 4), packed);
            }
        }
        hand_over();
    }

    // Columns come in pairs of gate and value, which one thread holds; two threads' results make one 4-byte store.
    __device__ __forceinline__ void stage_products(const float (&sum)[S::tile_n / 2], int piece, unsigned row, int lane) {
#pragma unroll
        for (int j = 0; j < 16; j += 2) {
            const float* from = sum + (piece * 16 + j) * 4;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float left = swiglu(from[half * 2], from[half * 2 + 1]);
                const float right = swiglu(from[4 + half * 2], from[4 + half * 2 + 1]);
                // An even lane makes the pair of group j, its odd neighbour that of group j + 1.
                const float other = __shfl_xor_sync(0xffffffffu, lane & 1 ? left : right, 1);
                const unsigned packed = lane & 1 ? pack<IS_BF16>(other, right) : pack<IS_BF16>(left, other);
                const int column = (j + (lane & 1)) * 4 + (lane & 2);
                const unsigned to = row + half * 8 * 128 + (((column >> 3) ^ ((lane >> 2) & 7)) << 4) + (column & 7) * 2;
                asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(packed) : "memory");
            }
        }
    }

    static __device__ __forceinline__ float activated(float x) {
        return ACTIVATION == Activation::gelu ? gelu(x) : x;
    }

    static __device__ __forceinline__ float swiglu(float gate, float value) {
        return __fdividef(gate, 1.0f + __expf(-gate)) * value;
    }

    static __device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&r)[4]) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
                     "r"(r[2]), "r"(r[3])
                     : "memory");
    }

    // The slot is the storing warp's.
    __device__ __forceinline__ void hand_over() {
        tma::publish_shared();
        __syncwarp();
        if ((threadIdx.x & 31) == 0) mbarrier::arrive(shared_.staged(group_, staged_.slot));
        staged_.advance();
    }

    const GemmSm90Params& p_;
    const Shared<S>& shared_;
    const int group_;
    wgmma::Descriptor a_, b_;  // of the ring's first slot
    float sum_[S::frags_m][S::tile_n / 2];
    mbarrier::Place<S::stages> place_;
    mbarrier::Place<S::staged> staged_;
    int previous_ = 0;
};

// ---- The storing warps, one per math warpgroup.

// Adds one in shared memory; returns what was there. Passes on, between the storing warps, that stores are complete.
__device__ __forceinline__ int count_stored(int* counter) {
    int before;
    asm volatile("atom.acq_rel.cta.shared::cta.add.s32 %0, [%1], 1;" : "=r"(before)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(counter))) : "memory");
    return before;
}

template <class S, int PIECES>
class Storer {
public:
    __device__ __forceinline__ Storer(
        const Stage& stage, const GemmSm90Params& p, const Shared<S>& shared, int group)
        : stage_(stage), p_(p), shared_(shared), group_(group) {}

    __device__ __forceinline__ void run() {
        for_each_tile<S>(shared_, [&](TileNote& note, int line) {
            if ((threadIdx.x & 31) == 0) store(note, line);
        });
    }

private:
    __device__ __forceinline__ void store(TileNote& note, int line) {
        const cusync::Tile tile = note.tile;
        for (int i = 0; i < S::frags_m * PIECES; ++i) {
            mbarrier::wait(shared_.staged(group_, staged_.slot), staged_.parity);
            const int slot = staged_.slot;
            staged_.advance();
            if (!note.is_whole) {
                mbarrier::arrive(shared_.drained(group_, slot));
                break;
            }
            if (i == 0) before_stores(tile);
            const int fragment = group_ * S::frags_m + i / PIECES;
            tma::store(p_.c, (tile.x * PIECES + i % PIECES) * 64, tile.y * S::tile_m + fragment * 64,
                       shared_.staging + (group_ * S::staged + slot) * S::panel_bytes);
            // All but the newest have been read: their slots are free.
            tma::wait_read<S::staged - 1>();
            if (i >= S::staged - 1) mbarrier::arrive(shared_.drained(group_, staged_.slot));
        }
        finish(note, line);
    }

    // The last storing warp to finish a tile posts it.
    __device__ __forceinline__ void finish(TileNote& note, int line) {
        const bool is_whole = note.is_whole;
        if (is_whole) {
            tma::wait_stored();
            if constexpr (S::staged == 2) mbarrier::arrive(shared_.drained(group_, staged_.slot ^ 1));
        }
        if (count_stored(&note.stored) < S::warpgroups - 1) return;
        if constexpr (cusync::mutant != cusync::Mutant::early_post) {
            if (is_whole) stage_.post(note.tile);
        }
        // A tile that Stream-K has cut up is recorded once, by the block that stores it.
        if (note.tile.linear < 0 || (S::is_stream_k && !is_whole)) return;
        stage_.recorder().finish(stage_.records(), note.tile.position, note.tile.linear, note.tile.z, line);
    }

    __device__ __forceinline__ void before_stores(const cusync::Tile& tile) const {
        if constexpr (cusync::mutant == cusync::Mutant::early_post) {
            if (group_ == 0) stage_.post(tile);
        }
        stage_.delay(tile);
    }

    const Stage& stage_;
    const GemmSm90Params& p_;
    const Shared<S>& shared_;
    const int group_;
    mbarrier::Place<S::staged> staged_;
};

template <class S, bool IS_BF16, Activation ACTIVATION>
__global__ void __launch_bounds__(S::threads, 1)
    gemm_sm90(const __grid_constant__ SyncParams sync, const __grid_constant__ GemmSm90Params p) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    using Math = MathGroup<S, IS_BF16, ACTIVATION>;
    const Shared<S> shared(bytes);
    const Stage stage(sync);
    // Under programmatic dependent launch the next kernel may start as soon as there is room; else it says nothing.
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (threadIdx.x == 0) {
        shared.init();
        tma::prefetch(p.a), tma::prefetch(p.b), tma::prefetch(p.c);
    }
    cluster_barrier<S>();
    const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4 - 1;
    if (group < 0) {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::other_registers));
        if (warp == 0) {
            Loader<S>(sync, stage, p, shared).run();
        } else if (warp <= S::warpgroups) {
            Storer<S, Math::pieces>(stage, p, shared, warp - 1).run();
        }
    } else {
        if constexpr (S::warpgroups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::math_registers));
        Math(p, shared, group).run();
    }
    // Neither block may leave while the other still loads into it or arrives at its barriers.
    __syncwarp();
    if constexpr (S::cluster > 1) {
        cluster_barrier<S>();
    } else {
        __syncthreads();
    }
    if (threadIdx.x == 0) cusync::leave(sync.sync);
}
