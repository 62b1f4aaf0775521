// Ranks whose outputs are summed by kernels/collective/push.cu, each a stream of calls of its own. A stand-in for the product
// writes a rank's outputs; then the kernel runs. Between ranks nothing but what it stores: one may be a call ahead of the
// others, and is held up now and then. Of a block two threads, each the first lane of a warp.
//
//   push CALLS SEED [DROPPED]      ends with "rounds operations wrong aborted"; a round is a call of rank 0
//
// SEED % 5: 0 whole sums (push_sums), 1 few outputs (push_few), 2 shares of sums (push_shares), and of two ranks halves that
// the product's thread copies to the other, as the copy engine does (push_halves): 3 all-reduced, 4 scattered. What may be
// dropped besides orders: "second_parity", where even and odd calls have one place; "rank_1", which ends after half of the
// calls.
#include "ptx_on_host.h"

namespace host {
// Keeps the compiler from holding floats: nothing here.
template <>
void ptx<"", unsigned&, unsigned&, unsigned&, unsigned&>(const char*, unsigned&, unsigned&, unsigned&, unsigned&) {}
// Words of 64 bits, whose upper half says which call the lower half is of.
template <>
void ptx<"st.relaxed.sys.global.u64 [%0], %1;", unsigned long long*&, unsigned long long>(const char*, unsigned long long*& at, unsigned long long&& value) {
    step();
    std::atomic_ref(*at).store(value, std::memory_order_relaxed);
}
template <>
void ptx<"ld.relaxed.sys.global.u64 %0, [%1];", unsigned long long&, const unsigned long long*&>(const char*, unsigned long long& value, const unsigned long long*& at) {
    step();
    value = std::atomic_ref(*const_cast<unsigned long long*>(at)).load(std::memory_order_relaxed);
}
}  // namespace host

#include <kernels/collective/push.cu>

enum Form { whole, few, shares, halves, scattered };
constexpr int most_ranks = 3, blocks = 2, warps = 2, parts = 3, others = most_ranks - 1;
constexpr int share = parts * peers::push_threads, few_count = blocks * peers::quick_threads;
constexpr int quick = peers::words_of_vector * few_count;  // words of a place
Form form = whole;
int ranks = most_ranks;
bool in_halves() { return form == halves || form == scattered; }
bool is_shared() { return form == shares || in_halves(); }
bool ends = false, has_parities = true;

// A rank's memory, all of which the others may write.
struct Rank {
    std::vector<uint4> staging = std::vector<uint4>(2 * others * share), out = std::vector<uint4>(most_ranks * share);
    std::vector<uint4> sums = std::vector<uint4>(most_ranks * share), kept = std::vector<uint4>(share);
    std::vector<unsigned long long> words = std::vector<unsigned long long>(2 * others * quick);
    unsigned arrived[others * parts] = {}, finished[most_ranks * parts] = {}, done[most_ranks] = {}, calls[2] = {};
    peers::Errors errors{};
    peers::PushParams params{};
    host::Barrier call, block[blocks];
    std::atomic<bool> votes[blocks] = {}, is_over{false};
};
Rank all[most_ranks];
std::atomic<unsigned long long> wrong{0};

// Of 8 bf16 numbers, all the same; exact, as sums of three of them are.
uint4 vector_of(unsigned value) {
    const float number = static_cast<float>(value);
    unsigned bits;
    std::memcpy(&bits, &number, 4);
    const unsigned pair = (bits & 0xffff0000u) | bits >> 16;
    return {pair, pair, pair, pair};
}
unsigned made(int rank, int at, unsigned epoch) { return epoch % 32 + at / 32 % 8 + 16 * rank; }
int count() { return form == whole ? share : form == few ? few_count : ranks * share; }
// The vectors that a block's two threads take.
template <class Visit>
void each(Visit visit) {
    for (int at = 0; at < count(); at += form == few ? peers::quick_threads : peers::push_threads) visit(at), visit(at + 32);
}

void prepare(int rank) {
    Rank& own = all[rank];
    peers::PushParams& p = own.params;
    for (int r = 0; r < ranks; ++r) {
        p.peers.ranks[r] = {all[r].done, &all[r].errors};
        p.given[r] = own.out.data() + (is_shared() ? r * share : 0);
        if (r == rank) continue;
        // A sender's place among all but the one it sends to.
        const int there = rank - (rank > r), here = r - (r > rank);
        p.there[r] = all[r].staging.data() + there * share, p.here[r] = own.staging.data() + here * share;
        p.posts[r] = all[r].arrived + there * parts, p.arrived[r] = own.arrived + here * parts;
        p.quick_there[r] = all[r].words.data() + there * quick, p.quick_here[r] = own.words.data() + here * quick;
        p.sums_there[r] = all[r].sums.data() + rank * share, p.sums_here[r] = own.sums.data() + r * share;
        p.finished_there[r] = all[r].finished + rank * parts, p.finished_here[r] = own.finished + r * parts;
    }
    p.peers.calls = own.calls, p.peers.limit_ns = host::limit_ns;
    p.peers.rank = rank, p.peers.rank_count = ranks, p.peers.block_count = blocks, p.peers.parity_mask = has_parities;
    p.out = form == scattered ? own.kept.data() : own.out.data() + (is_shared() ? rank * share : 0);
    p.count = form == few ? few_count : share, p.parts = parts;
    p.apart = others * share, p.quick_apart = others * quick;
    own.call.expect(1 + blocks * warps);
    for (host::Barrier& one : own.block) one.expect(warps);
}

void run_kernel(const peers::PushParams& p) {
    if (form == whole) peers::push_sums<most_ranks, true, 1>(p);
    if (form == few) peers::push_few<most_ranks, true>(p);
    if (form == shares) peers::push_shares<most_ranks, true>(p);
    if (form == halves) peers::push_halves<true, false>(p);
    if (form == scattered) peers::push_halves<true, true>(p);
}

void look(int rank, unsigned epoch) {
    each([&](int at) {
        unsigned sum = 0;
        for (int r = 0; r < ranks; ++r) sum += made(r, at, epoch);
        const uint4 right = vector_of(sum);
        if (form == scattered && at / share != rank) return;
        const uint4& result = form == scattered ? all[rank].kept[at % share] : all[rank].out[at];
        if (std::memcmp(&result, &right, sizeof right) != 0) ++wrong;
    });
}

// Another rank may set it at any time.
bool is_aborted(Rank& own) { return std::atomic_ref(own.errors.aborted).load(std::memory_order_relaxed) != 0; }

void hold_up() {
    if ((host::self.random & 63) == 0) std::this_thread::sleep_for(std::chrono::microseconds(host::self.random >> 20 & 1023));
}

// Thread 0 of a rank is its product, the others are warps of blocks that push.
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
            each([&](int at) { own.out[at] = vector_of(made(rank, at, epoch)); });
            // The other's half, to its one place.
            if (in_halves()) each([&](int at) { if (at / share != rank) all[1 - rank].staging[at % share] = own.out[at]; });
        }
        own.call.wait();
        if (number > 0) run_kernel(own.params);
        host::operations.fetch_add(std::exchange(host::self.operations, 0), std::memory_order_relaxed);
        own.call.wait();
        if (number == 0 && !is_aborted(own)) look(rank, epoch);
        if (number == 0) own.is_over = is_aborted(own);
        if (number == 0 && rank == 0) ++host::rounds;
        own.call.wait();
        if (own.is_over.load(std::memory_order_relaxed) || epoch >= calls) return;
    }
}

int main(int words_count, char** words) {
    if (words_count < 3) return 2;
    const unsigned calls = static_cast<unsigned>(std::strtoul(words[1], nullptr, 10));
    host::seed = std::strtoull(words[2], nullptr, 10);
    if (words_count > 3) host::dropped = words[3];
    form = static_cast<Form>(host::seed % 5);
    if (in_halves()) ranks = 2;
    ends = host::is_dropped("rank_1"), has_parities = !host::is_dropped("second_parity");
    // By then the other has ended, and is not only late; or words of one call lie over those of another for good.
    if (ends || !has_parities) host::limit_ns = 2'000'000'000;
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
