// The Hopper GEMM among peers: its epilogue warps store tiles by TMA into the memory of the rank that adds them up, under
// the next tile's multiply-adds, and post there; or they add what has come to a rank's own tiles (exchange.cuh); or its
// producer warp waits for what peers have sent.
#pragma once

#include <kernels/gemm/sm90/tile_config.cuh>
#include <kernels/collective/exchange.cuh>
#include <kernels/collective/gathered_rows.cuh>
#include <kernels/collective/semaphores.cuh>
#include <kernels/collective/tiles.cuh>

namespace peers {

// What takes the place of C's tensor map: a map for each rank that tiles may go to.
struct Destinations {
    TensorMap to[max_ranks];     // (parities, m, n), boxes of (1, 64, 64)
    unsigned* posts[max_ranks];  // a word per tile of `to`
    PeerParams peers;
    Tiles tiles;

    template <class Body>
    __device__ __forceinline__ void for_each(int x, int y, Body&& body) const {
        const int first = tiles.to_all ? 0 : tiles.owner(x, y), end = tiles.to_all ? tiles.ranks : first + 1;
#pragma unroll 1
        for (int rank = first; rank < end; ++rank) body(rank);
    }
};

}  // namespace peers

// Declared ahead of the epilogue warp, which calls them for a Params whose c is this.
namespace tma {

__device__ __forceinline__ void prefetch(const peers::Destinations& c) {
    for (int rank = 0; rank < c.tiles.ranks; ++rank) prefetch(c.to[rank]);
}

// A piece of 64 x 64 outputs, into the place of its tile at each destination. A tile's stores end together: the epilogue
// warp waits for all groups of this thread before it posts.
__device__ __forceinline__ void store(const peers::Destinations& c, Corner at, unsigned from) {
    const int parity = static_cast<int>(peers::parity_of(c.peers, peers::epoch_of(c.peers)));
    c.for_each(at.column / c.tiles.tile_n, at.row / c.tiles.tile_m, [&](int rank) {
        store(c.to[rank], SequenceCorner{at.column, at.row, parity}, from);
    });
}

}  // namespace tma

#include <kernels/gemm/sm90/block.cuh>

// Where tiles come from peers: `a` and `b` hide those of the GEMM.
struct GatherGemmParams : GemmSm90Params {
    peers::GatheredRows a;
    peers::Columns b;
    const unsigned* inputs;  // own: a word per tile of what is waited for
    peers::PeerParams peers;
    int first_row;           // of tiles: which row comes first
    int tile_m;
    peers::PlainRows im2col;
};
static_assert(sizeof(GatherGemmParams) == 1536, "layout.py packs 1536 bytes");

// Where they go to peers: `c` hides that of the GEMM.
struct ScatterGemmParams : GemmSm90Params {
    peers::Destinations c;
    int first_row;
};
static_assert(sizeof(ScatterGemmParams) == 2240, "layout.py packs 2240 bytes");

// Where they go to one peer and are added here: `c` and `residual` hide those of the GEMM.
struct ExchangeGemmParams : LayerGemmParams {
    peers::Exchange c;
    peers::Contributions residual;
    int first_row;
    peers::Turns turns;
};
static_assert(sizeof(ExchangeGemmParams) == 2560, "layout.py packs 2560 bytes");

template <class Params>
constexpr bool stores_to_peers = false;
template <>
constexpr bool stores_to_peers<ScatterGemmParams> = true;
template <>
constexpr bool stores_to_peers<ExchangeGemmParams> = true;
template <class Params>
constexpr bool gathers_rows = false;
template <>
constexpr bool gathers_rows<GatherGemmParams> = true;
template <class Params>
constexpr bool adds_what_comes = false;
template <>
constexpr bool adds_what_comes<ExchangeGemmParams> = true;

template <class Params>
__device__ __forceinline__ const peers::PeerParams& peers_of(const Params& p) {
    if constexpr (stores_to_peers<Params>) {
        return p.c.peers;
    } else {
        return p.peers;
    }
}

// PARAMS: ScatterGemmParams, ExchangeGemmParams or GatherGemmParams.
template <class Form_, class PARAMS>
struct PeerForm : Form_ {
    using Params = PARAMS;
    static constexpr bool is_im2col = gathers_rows<PARAMS>;  // A has a loader of its own
    static_assert(Form_::has_residual == adds_what_comes<PARAMS> && Form_::is_layer == Form_::has_residual &&
                      Form_::activation == Activation::none,
                  "what is added up are sums");
};

// Hides those functions of the stage that peers take part in.
template <class Generated, class Params>
class PeerStage : public cusync::Stage<Generated, WorkTiles> {
    using Base = cusync::Stage<Generated, WorkTiles>;

public:
    __device__ __forceinline__ PeerStage(const cusync::StageParams<Generated>& sync, const Params& p)
        : Base(sync), sync_(sync), p_(p), epoch_(peers::epoch_of(peers_of(p))) {}

    // Where the epilogue has enough to hold in registers it is read anew: it stays until the call's last block retires.
    __device__ __forceinline__ unsigned epoch() const {
        return adds_what_comes<Params> ? peers::epoch_of(peers_of(p_)) : epoch_;
    }

    // Where rows belong to ranks in blocks, those that others wait for come first, or those that are there already.
    __device__ __forceinline__ cusync::Tile tile_at(int position) const {
        if constexpr (adds_what_comes<Params>) position = p_.turns.place_of(position);
        cusync::Tile tile = Base::tile_at(position);
        tile.y += p_.first_row;
        if (tile.y >= sync_.generated.rows) tile.y -= sync_.generated.rows;
        tile.linear = tile.y * sync_.generated.columns + tile.x;
        return tile;
    }

    // Own rows are there.
    __device__ __forceinline__ const cusync::WaitStep* first_step(const cusync::Tile& tile) const {
        if constexpr (gathers_rows<Params>) {
            if (p_.a.has(tile.y * p_.tile_m)) return nullptr;
        }
        return Base::first_step(tile);
    }

    // After cp.async.bulk.wait_group 0: TMA's stores, also those into a peer's memory, are visible to this thread, and
    // the release hands them on.
    __device__ __forceinline__ void post(const cusync::Tile& tile) const {
        if constexpr (adds_what_comes<Params>) {
            if (unsigned* const words = p_.c.words_of(tile.x, tile.y)) peers::post(words + tile.linear, epoch());
        } else if constexpr (stores_to_peers<Params>) {
            p_.c.for_each(tile.x, tile.y, [&](int rank) { peers::post(p_.c.posts[rank] + tile.linear, epoch_); });
        }
    }

    // A word per tile of the producer, and 1 for "there".
    __device__ __forceinline__ cusync::Awaited awaited(int input, int x, int y) const {
        const auto& generated = sync_.generated;
        return {generated.awaited(input, x, y).counter - generated.awaited(input, 0, 0).counter, 1};
    }
    // Acquire: what a lane has seen here it need not fence for; the warp barrier hands it on.
    __device__ __forceinline__ unsigned value(int unit) const {
        if constexpr (stores_to_peers<Params>) {
            return 1;  // it waits for nothing
        } else {
            return peers::has_reached(peers::load_acquire(p_.inputs + unit), epoch_);
        }
    }
    __device__ __forceinline__ bool spin(const cusync::Awaited& fact, const cusync::Tile&) const {
        if constexpr (stores_to_peers<Params>) {
            return true;
        } else {
            const unsigned* const word = p_.inputs + fact.counter;
            const bool is_there = peers::spin(p_.peers, word, epoch_, {peers::Fact::arrived, -1, fact.counter});
            // Acquire: spinning was relaxed, and the fence that follows is of GPU scope. Who goes on looks again with
            // acquire; this one makes it so on every path.
            peers::load_acquire(word);
            return is_there;
        }
    }

private:
    const cusync::StageParams<Generated>& sync_;
    const Params& p_;
    const unsigned epoch_;
};

template <class Generated_, class Form_>
struct PeerPart {
    using Generated = Generated_;
    using Form = Form_;
    using Stage = PeerStage<Generated, typename Form::Params>;
    static constexpr Activation activation = Form::activation;

    __device__ __forceinline__ PeerPart(const cusync::StageParams<Generated>& sync, const typename Form::Params& p)
        : sync(sync), p(p), stage(sync, p) {}

    const cusync::StageParams<Generated>& sync;
    const typename Form::Params& p;
    const Stage stage;
};
