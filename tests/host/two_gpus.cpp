// Two GPUs, each a stream of calls of its own: a stand-in for the GEMM stores tiles into staging and posts them, the blocks
// of peers/reduce.cu add what both have made. Between the two nothing but the words that kernels post: one may be a call
// ahead of the other, and is held up now and then.
//
//   two_gpus CALLS SEED [DROPPED]      ends with "rounds operations wrong aborted"; a round is a call of rank 0
//
// With an odd seed every rank adds every tile (one-shot); with 3, 7, .. the GEMM's epilogue adds (exchange.cuh), whose loads
// and stores by TMA are ordinary ones here. What may be dropped besides orders: "second_parity": tiles of even and odd
// calls are stored into both stagings; "rank_1", which ends after half of the calls.
#include "ptx_on_host.h"

namespace host {
// Keeps the compiler from holding floats: nothing here.
template <>
void ptx<"", unsigned&, unsigned&, unsigned&, unsigned&>(const char*, unsigned&, unsigned&, unsigned&, unsigned&) {}
}  // namespace host

#include <kernels/collective/exchange.cuh>
#include <kernels/collective/reduce.cu>

constexpr int ranks = 2, blocks = 2, warps = 2, rows = 2, columns = 3, tile_m = 16, tile_n = 32;
constexpr int m = rows * tile_m, n = columns * tile_n, width = n / vector_elements, tiles = rows * columns;
bool is_one_shot = false, is_exchange = false, ends = false;
bool has_parities = true;
constexpr int touched[] = {0, 32};  // vectors of a tile that the first lanes of two warps add

// A rank's memory, all of which the other may write.
struct Rank {
    std::vector<uint4> staging = std::vector<uint4>(2 * ranks * m * width), out = std::vector<uint4>(m * width);
    std::vector<uint4> sums = std::vector<uint4>(m * width);  // of an exchange: what the other adds up
    unsigned arrived[ranks * tiles] = {}, finished[tiles] = {}, done[ranks] = {}, calls[2] = {};
    peers::Errors errors{};
    std::vector<int> order;
    peers::ReduceParams params{};
    host::Barrier call, block[blocks];
    std::atomic<bool> votes[blocks] = {}, is_over{false};
};
Rank all[ranks];
std::atomic<unsigned long long> wrong{0};

bool is_owner(int rank, int tile) { return is_one_shot || tile % columns % ranks == rank; }
int place(int tile, int at) {
    const int vectors = tile_n / vector_elements;
    return (tile / columns * tile_m + at / vectors) * width + tile % columns * vectors + at % vectors;
}
// Of 8 bf16 numbers, all the same; exact, as sums of two of them are.
uint4 vector_of(unsigned value) {
    const float number = static_cast<float>(value);
    unsigned bits;
    std::memcpy(&bits, &number, 4);
    const unsigned pair = (bits & 0xffff0000u) | bits >> 16;
    return {pair, pair, pair, pair};
}
unsigned number_of(uint4 vector) {
    const unsigned bits = vector.x << 16;
    float number;
    std::memcpy(&number, &bits, 4);
    return static_cast<unsigned>(number);
}
unsigned made(int rank, int tile, unsigned epoch) { return epoch % 64 + tile + 32 * rank; }

void prepare(int rank) {
    Rank& own = all[rank];
    peers::ReduceParams& p = own.params;
    for (int r = 0; r < ranks; ++r) {
        p.peers.ranks[r] = {all[r].done, &all[r].errors};
        p.out[r] = all[r].out.data(), p.finished[r] = all[r].finished;
    }
    p.peers.calls = own.calls, p.peers.limit_ns = host::limit_ns;
    p.peers.rank = rank, p.peers.rank_count = ranks, p.peers.block_count = blocks, p.peers.parity_mask = 1;
    p.tiles = {m, n, tile_m, tile_n, columns, ranks, 0, is_one_shot};
    p.staging = own.staging.data(), p.arrived = own.arrived, p.own_finished = own.finished;
    for (int tile = 0; tile < tiles; ++tile) {
        if (is_owner(rank, tile)) own.order.push_back(tile);
    }
    p.order = own.order.data(), p.unit_count = static_cast<int>(own.order.size()), p.all_units = tiles;
    p.sends = !is_one_shot, p.finished_count = is_one_shot ? 0 : tiles;
    own.call.expect(1 + blocks * warps);
    for (host::Barrier& one : own.block) one.expect(warps);
}

// What an epilogue that adds does, of every tile that a block makes.
void exchange_tiles(int rank, unsigned epoch) {
    const int other = 1 - rank, parity = has_parities ? epoch & 1 : 0;
    Rank &own = all[rank], &peer = all[other];
    peers::Exchange c{};
    c.arrived = peer.arrived + rank * tiles, c.finished = peer.finished, c.own_finished = own.finished;
    c.out = own.out.data(), c.sums = own.sums.data();
    c.peers = own.params.peers, c.tiles = {m, n, tile_m, tile_n, columns, ranks, 1, 0};
    if (cusync::is_leader()) peers::enter_block(c.peers);
    const peers::Turns turns{1, columns};  // a rank has a row of tiles
    for (int position = blockIdx.x; threadIdx.x == 0 && position < tiles; position += blocks) {
        host::step();
        const int at_place = turns.place_of(position), x = at_place % columns, y = at_place < columns ? other : rank;
        const int tile = y * columns + x;
        if (c.is_own(x, y) && !peers::wait_for(c.peers, own.arrived + other * tiles + tile, epoch, {peers::Fact::arrived, other, tile})) continue;
        for (const int at : touched) {
            if (c.is_own(x, y)) {
                const uint4 come = own.staging[(parity * ranks + other) * m * width + place(tile, at)];
                const uint4 sum = vector_of(number_of(come) + made(rank, tile, epoch));
                own.out[place(tile, at)] = sum, peer.sums[place(tile, at)] = sum;
            } else {
                peer.staging[(parity * ranks + rank) * m * width + place(tile, at)] = vector_of(made(rank, tile, epoch));
            }
        }
        peers::post(c.words_of(x, y) + tile, epoch);
    }
    peers::take_sums(c, epoch, static_cast<int>(threadIdx.x) / 32, warps);
    __syncthreads();
    if (cusync::is_leader()) peers::retire_block<true>(c.peers, epoch);
}

// What the GEMM's epilogue warps do: store a tile, then post it, at its owner.
void make_tiles(int rank, unsigned epoch) {
    for (int tile = 0; tile < tiles; ++tile) {
        host::step();
        for (int to = 0; to < ranks; ++to) {
            if (!is_owner(to, tile)) continue;
            for (unsigned parity = 0; parity < 2; ++parity) {
                if (has_parities && parity != (epoch & 1)) continue;
                uint4* const slice = all[to].staging.data() + (parity * ranks + rank) * m * width;
                for (const int at : touched) slice[place(tile, at)] = vector_of(made(rank, tile, epoch));
            }
            peers::post(all[to].arrived + rank * tiles + tile, epoch);
        }
    }
}

void look(int rank, unsigned epoch) {
    for (int tile = 0; tile < tiles; ++tile) {
        const uint4 right = vector_of(made(0, tile, epoch) + made(1, tile, epoch));
        for (const int at : touched) {
            if (std::memcmp(&all[rank].out[place(tile, at)], &right, sizeof right) != 0) ++wrong;
        }
    }
}

// Another rank may set it at any time.
bool is_aborted(Rank& own) { return std::atomic_ref(own.errors.aborted).load(std::memory_order_relaxed) != 0; }

void hold_up() {
    if ((host::self.random & 63) == 0) std::this_thread::sleep_for(std::chrono::microseconds(host::self.random >> 20 & 1023));
}

// Thread 0 of a rank is its GEMM, the others are warps of blocks that add. All begin a call when all have ended the last.
void thread_of(int rank, int number, unsigned calls) {
    Rank& own = all[rank];
    host::begin_thread(rank * 16 + number);
    const int block = (number - 1) / warps, warp = (number - 1) % warps;
    if (number > 0) {
        threadIdx.x = 32 * warp, blockIdx.x = block, gridDim.x = blocks;
        host::self.block = &own.block[block], host::self.vote = &own.votes[block], host::self.place = rank * blocks + block;
    }
    for (unsigned epoch = 1;; ++epoch) {
        if (ends && rank == 1 && epoch > calls / 2) return;
        if (number == 0) {
            hold_up();
            if (!is_exchange) make_tiles(rank, epoch);
        } else if (is_exchange) {
            exchange_tiles(rank, epoch);
        } else {
            reduce_tiles<ranks, true>(own.params);
        }
        host::operations.fetch_add(std::exchange(host::self.operations, 0), std::memory_order_relaxed);
        own.call.wait();
        if (number == 0 && !is_aborted(own)) look(rank, epoch);
        if (number == 0) own.is_over = is_aborted(own);
        if (number == 0 && rank == 0) ++host::rounds;
        own.call.wait();
        if (own.is_over.load(std::memory_order_relaxed) || epoch >= calls) return;
    }
}

int main(int count, char** words) {
    if (count < 3) return 2;
    const unsigned calls = static_cast<unsigned>(std::strtoul(words[1], nullptr, 10));
    host::seed = std::strtoull(words[2], nullptr, 10);
    if (count > 3) host::dropped = words[3];
    is_exchange = host::seed % 4 == 3;
    is_one_shot = host::seed % 2 == 1 && !is_exchange, ends = host::is_dropped("rank_1");
    has_parities = !host::is_dropped("second_parity");
    if (ends) host::limit_ns = 2'000'000'000;  // by then the other has ended, and is not only late
    for (int rank = 0; rank < ranks; ++rank) prepare(rank);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        for (int i = 0; i < 1 + blocks * warps; ++i) threads.emplace_back(thread_of, rank, i, calls);
    }
    for (std::thread& one : threads) one.join();
    std::printf("%llu %llu %llu %u\n", host::rounds.load(), host::operations.load(), wrong.load(), all[0].errors.aborted);
    for (unsigned i = 0; i < std::min(all[0].errors.waiter_count, 1u); ++i) {
        const peers::Waiter& one = all[0].errors.waiters[i];
        std::fprintf(stderr, "rank 0 waits for fact %d of rank %d, seen %u, awaited %u\n", one.fact, one.source, one.seen, one.awaited);
    }
    return wrong != 0;
}
