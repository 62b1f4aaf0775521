// Communication blocks: they copy tiles into other ranks' memory and post them there, in a given order. An all-gather's
// tiles are there from the start; those of a GEMM that runs beside are waited for. They write: a write over NVLink needs a
// quarter of the blocks that a read does. sm_80 and later.

#include <kernels/rows/rows.cuh>
#include <kernels/collective/semaphores.cuh>

namespace peers {

struct Shipment {
    int to, unit;  // rank; tile
};

struct SendParams {
    PeerParams peers;
    const uint4* from[max_ranks];        // by rank: (2, .., n), or what is the same in all calls
    uint4* to[max_ranks];                // the same in its memory
    const unsigned* sent[max_ranks];     // own: a word per tile that a GEMM here posts; null: they are there
    unsigned* posts[max_ranks];          // a word per tile in its memory
    const Shipment* order;
    long long from_parity, to_parity;    // vectors from an even call's to an odd one's; 0: the same place
    int shipment_count;
    int rows, n, tile_m, tile_n, columns;
    int awaits_done;                     // nothing is sent before its reader's call before has ended
};
static_assert(sizeof(SendParams) == 472, "layout.py packs 472 bytes");

constexpr int send_threads = 512, sends_ahead = 8;

__device__ __forceinline__ void copy_tile(const SendParams& p, const uint4* from, uint4* to, int unit) {
    const long long width = p.n / vector_elements;
    const int x = unit % p.columns, y = unit / p.columns;
    const int rows = min(p.tile_m, p.rows - y * p.tile_m);
    const int vectors = min(p.tile_n, p.n - x * p.tile_n) / vector_elements, count = rows * vectors;
    const long long first = y * p.tile_m * width + x * (p.tile_n / vector_elements);
    for (int begin = threadIdx.x; begin < count; begin += sends_ahead * send_threads) {
        uint4 values[sends_ahead];
#pragma unroll
        for (int i = 0; i < sends_ahead; ++i) {
            const int at = begin + i * send_threads;
            if (at < count) values[i] = from[first + at / vectors * width + at % vectors];
        }
#pragma unroll
        for (int i = 0; i < sends_ahead; ++i) {
            const int at = begin + i * send_threads;
            if (at < count) to[first + at / vectors * width + at % vectors] = values[i];
        }
    }
}

}  // namespace peers

extern "C" __global__ void __launch_bounds__(peers::send_threads, 1)
send_tiles(const __grid_constant__ peers::SendParams p) {
    using peers::Fact;
    // The GEMM that waits for these tiles may start: every block of this kernel is resident.
    cusync::launch_dependents();
    const unsigned epoch = peers::epoch_of(p.peers);
    bool is_ready = true;
    if (p.awaits_done && threadIdx.x < p.peers.rank_count) {
        const int rank = static_cast<int>(threadIdx.x);
        const unsigned* const done = p.peers.ranks[p.peers.rank].done + rank;
        is_ready = peers::wait_for(p.peers, done, epoch - 1, {Fact::done, rank, 0});
    }
    is_ready = __syncthreads_and(is_ready);
    const long long parity = peers::parity_of(p.peers, epoch);
    for (int i = blockIdx.x; i < p.shipment_count; i += gridDim.x) {
        const int to = p.order[i].to, unit = p.order[i].unit;
        bool is_there = is_ready;
        if (p.sent[to] != nullptr) {
            if (cusync::is_leader()) is_there = peers::wait_for(p.peers, p.sent[to] + unit, epoch, {Fact::sent, to, unit});
            // Block barrier: hands the leader's acquire on to all threads.
            is_there = __syncthreads_and(is_there);
        }
        // What is not there is sent to nobody, whose wait then gives up too.
        if (!is_there) continue;
        peers::copy_tile(p, p.from[to] + parity * p.from_parity, p.to[to] + parity * p.to_parity, unit);
        // Block barrier: all threads' stores come before the leader's release.
        __syncthreads();
        if (cusync::is_leader()) peers::post(p.posts[to] + unit, epoch);
    }
    __syncthreads();
    if (!cusync::is_leader()) return;
    cusync::wait_for_previous_grid();
    peers::retire_block(p.peers, epoch);
}
