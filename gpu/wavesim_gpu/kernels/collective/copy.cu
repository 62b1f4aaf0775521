// Between two copies that the copy engine makes into other ranks' memory: one warp posts what the copy before has
// brought, then waits for what the next one takes; of an all-gather that is there. Copies and these kernels have a stream
// of their own, beside the GEMM:
//
//   GEMM  | tiles of chunk 0 .......... | tiles of chunk 1 .......... | ...
//   copy  | waits: chunk 0 of the outbox | copy | posts 0, waits: chunk 1 | copy | posts 1, waits: ...

#include <cusync/dependent_launch.cuh>
#include <kernels/collective/semaphores.cuh>

namespace peers {

struct BetweenParams {
    PeerParams peers;
    const unsigned* sent;  // own: a word per tile of the chunk that is copied next
    unsigned* posts;       // in the memory of the rank that the copy before went to, a word per tile
    int awaited_count, posted_count;
    int posted_width, posted_step;  // words of a row of tiles that are posted, and from one row to the next
    int to, first;         // rank that the next chunk goes to, or -1; its first tile
};
static_assert(sizeof(BetweenParams) == 200, "layout.py packs 200 bytes");

}  // namespace peers

extern "C" __global__ void __launch_bounds__(32) between_copies(const __grid_constant__ peers::BetweenParams p) {
    using peers::Fact;
    const unsigned epoch = peers::epoch_of(p.peers);
    const int lane = static_cast<int>(threadIdx.x);
    // The copy before it in the stream has ended; the release hands it on. Where a wait gave up it may have brought what
    // was not there: then nobody is told.
    if (peers::load_relaxed(&p.peers.errors()->aborted) == 0) {
        for (int i = lane; i < p.posted_count; i += 32) {
            peers::post(p.posts + i / p.posted_width * p.posted_step + i % p.posted_width, epoch);
        }
    }
    for (int i = lane; i < p.awaited_count; i += 32) {
        peers::wait_for(p.peers, p.sent + i, epoch, {Fact::sent, p.to, p.first + i});
    }
    // What is copied to has one place for all calls: it must have been read in the call before.
    if (lane == 0 && p.to >= 0) {
        peers::wait_for(p.peers, p.peers.ranks[p.peers.rank].done + p.to, epoch - 1, {Fact::done, p.to, 0});
    }
    // Warp barrier: all lanes' posts and acquires come before the block retires.
    __syncwarp();
    if (lane == 0) peers::retire_block(p.peers, epoch);
}
