// Of two ranks, the GEMM's epilogue adds: a rank first makes the tiles that belong to the other, and stores them there;
// then its own, to which its epilogue adds what the other has sent meanwhile. The sums stay here (reduce-scatter) or go to
// both (all-reduce): to the output here, which the other rank need not see, and to a place of the other's, from which its
// blocks copy them into its output once they have made all tiles. No kernel comes after, and the sums cross the link under
// the next tile's multiply-adds.
//
//   rank 0   | its tiles of rank 1's rows | own rows: + what rank 1 sent | ...  -> out of 0, sums of 1 | sums of 0 -> out
//                  | staging of rank 1 v        ^ staging of rank 0
//   rank 1   | its tiles of rank 0's rows | own rows: + what rank 0 sent | ...  -> out of 1, sums of 0 | sums of 1 -> out
//
// `sums` has one place for all calls: a rank stores a tile there once the other's contribution to it has come, and the other
// makes that after it has read all sums of the call before.
//
// Both outputs are rounded, then added and rounded again: of two ranks the same bits as fp32 sums of rounded outputs, but
// for the sign of a zero: nothing is added to what is sent, which is a zero that makes -0 a 0.
#pragma once

#include <kernels/gemm/sm90/tma.cuh>
#include <kernels/collective/semaphores.cuh>
#include <kernels/collective/tiles.cuh>

namespace peers {

// Where the link is slower than the tensor cores the other's tiles and own ones take turns, once `ahead` of the other's have
// been made, so that the link has the whole call for them and no own tile comes before what is added to it. Of `half`
// places each; ahead = half: one after the other.
//
//   ahead 2, half 4:   other 0 | other 1 | other 2 | own 0 | other 3 | own 1 | own 2 | own 3
struct Turns {
    int ahead, half;

    __device__ __forceinline__ int place_of(int position) const {
        const int i = position - ahead;
        if (i < 0 || i >= 2 * (half - ahead)) return position;
        return i % 2 == 0 ? ahead + i / 2 : half + i / 2;
    }
};

// What takes the place of C's tensor map.
struct Exchange {
    TensorMap sent;          // the other's staging: (parities, m, n), boxes of (1, 64, 64)
    TensorMap own_out;       // (m, n), or the rows that this rank keeps, boxes of (64, 64)
    TensorMap other_out;     // the other's sums: (m, n)
    unsigned* arrived;       // the other's words, one per tile of what is sent
    unsigned* finished;      // the other's words, one per tile of the sums that go there; null: they stay here
    const unsigned* own_finished;  // own: of what the other adds
    uint4* out;              // own: what `own_out` is the map of
    PeerParams peers;
    Tiles tiles;
    int kept_row;            // the first row of `own_out`
    const uint4* sums;       // own: (m, n), of which the other fills its rows

    __device__ __forceinline__ bool is_own(int x, int y) const { return tiles.owner(x, y) == peers.rank; }
    // Where a stored tile is posted; null: nowhere.
    __device__ __forceinline__ unsigned* words_of(int x, int y) const { return is_own(x, y) ? finished : arrived; }
};
static_assert(sizeof(Exchange) == 640, "layout.py packs 640 bytes");

// What takes the place of the residual's tensor map.
struct Contributions {
    TensorMap sent;      // own staging of what the other sends: (parities, m, n), boxes of (1, 64, 64), zeros outside
    TensorMap missing;   // the same, NaN outside
    const unsigned* arrived;  // own: a word per tile
    PeerParams peers;
    Tiles tiles;
};
static_assert(sizeof(Contributions) == 512, "layout.py packs 512 bytes");

constexpr int sums_ahead = 4;  // vectors that a thread has in flight

// A tile of the other's sums to the output, by `threads` threads; NaN where it never came.
__device__ __forceinline__ void take_tile(const Exchange& c, int x, int y, bool is_there, int thread, int threads) {
    const Extent tile(c.tiles, x, y);
    const long long width = c.tiles.n / vector_elements;
    const int count = tile.rows * tile.vectors;
    for (int begin = thread; begin < count; begin += sums_ahead * threads) {
        uint4 values[sums_ahead];
#pragma unroll
        for (int i = 0; i < sums_ahead; ++i) {
            const int at = begin + i * threads;
            values[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
            if (is_there && at < count) values[i] = c.sums[(tile.row + at / tile.vectors) * width + tile.column + at % tile.vectors];
        }
#pragma unroll
        for (int i = 0; i < sums_ahead; ++i) {
            const int at = begin + i * threads;
            if (at < count) c.out[(tile.row + at / tile.vectors) * width + tile.column + at % tile.vectors] = values[i];
        }
    }
}

// All threads of the block: the other rank's sums, tile by tile as they come. `thread` of `threads` copy; those below 0 do
// not.
__device__ __forceinline__ void take_sums(const Exchange& c, unsigned epoch, int thread, int threads) {
    if (c.finished == nullptr) return;
    const int units = c.tiles.columns * ((c.tiles.m + c.tiles.tile_m - 1) / c.tiles.tile_m);
    for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int x = unit % c.tiles.columns, y = unit / c.tiles.columns;
        if (c.is_own(x, y)) continue;
        bool is_there = true;
        if (cusync::is_leader()) is_there = wait_for(c.peers, c.own_finished + unit, epoch, {Fact::finished, -1, unit});
        // Block barrier: hands the leader's acquire on to all threads.
        is_there = __syncthreads_and(is_there);
        if (thread >= 0) take_tile(c, x, y, is_there, thread, threads);
    }
}

}  // namespace peers

// Declared ahead of the epilogue warp, which calls them for a Params whose c and residual are these.
namespace tma {

__device__ __forceinline__ void prefetch(const peers::Exchange& c) {
    prefetch(c.sent), prefetch(c.own_out);
    if (c.finished != nullptr) prefetch(c.other_out);
}

// A piece of 64 x 64 outputs: to the rank that adds it, or the sums to all that want them.
__device__ __forceinline__ void store(const peers::Exchange& c, Corner at, unsigned from) {
    if (c.is_own(at.column / c.tiles.tile_n, at.row / c.tiles.tile_m)) {
        store(c.own_out, Corner{at.column, at.row - c.kept_row}, from);
        if (c.finished != nullptr) store(c.other_out, at, from);
    } else {
        const int parity = static_cast<int>(peers::parity_of(c.peers, peers::epoch_of(c.peers)));
        store(c.sent, SequenceCorner{at.column, at.row, parity}, from);
    }
}

// What is added to a piece: nothing to what another rank adds up, else what that has sent, once it is there.
__device__ __forceinline__ void load(unsigned to, const peers::Contributions& from, Corner at, unsigned barrier) {
    const int x = at.column / from.tiles.tile_n, y = at.row / from.tiles.tile_m, outside = from.peers.parity_mask + 1;
    if (from.tiles.owner(x, y) != from.peers.rank) {
        return load(to, from.sent, WeightCorner{at.column, at.row, outside}, barrier);
    }
    const unsigned epoch = peers::epoch_of(from.peers);
    const int tile = y * from.tiles.columns + x;
    if (!peers::wait_for(from.peers, from.arrived + tile, epoch, {peers::Fact::arrived, from.peers.rank ^ 1, tile})) {
        return load(to, from.missing, WeightCorner{at.column, at.row, outside}, barrier);
    }
    fence_proxy_global();  // after the acquire: what the other's TMA stored, this one loads
    load(to, from.sent, WeightCorner{at.column, at.row, static_cast<int>(peers::parity_of(from.peers, epoch))}, barrier);
}

}  // namespace tma
