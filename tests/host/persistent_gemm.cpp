// The Hopper GEMM kernels on the host: two dependent products whose warps have their roles, run again and again.
//
//   persistent_gemm OPERATIONS SEED [DROPPED]      ends with "rounds operations wrong aborted"
//
// Compiled with CONFIG (a TileConfig), FUSED (0 or 1), WITH_RESIDUAL (1: the second product adds the first), IS_SHORT (1: a
// short form's waits, splits and ends), and what the generated header has: tiles fetched or not, semaphores or none, splits. Blocks of both kernels are resident together; a warp is a thread of the host, its first lane.
#include "ptx_on_host.h"

#include <generated.cuh>

#include <kernels/gemm/sm90/block.cuh>

using S = CONFIG;
template <class Long>
struct Short : Long {
    static constexpr bool is_short = true, waits_by_tile = true;
};
template <class Usual>
using Chosen = std::conditional_t<IS_SHORT, Short<Usual>, Usual>;
using Plain = Chosen<Form<Activation::none>>;
using OfSecond = Chosen<Form<Activation::none, Order::row, false, false, WITH_RESIDUAL>>;
using First = pipeline::first;
using Second = pipeline::second;

constexpr int k_blocks = 3;                         // of the first product; the second's K is the first's N
constexpr int blocks_each = 2 * S::cluster;         // of a kernel
constexpr int kernels = FUSED ? 1 : 2, blocks = kernels * blocks_each;
static_assert(blocks <= host::most_blocks);
constexpr int warps = 1 + S::warpgroups + 4 * S::warpgroups;
constexpr int sum_words = S::mma_warps * 32 * S::frags_m * S::tile_n / 2;

struct Product {
    int rows, columns, k;  // elements
    std::vector<unsigned> a, b, c;
    std::vector<float4> partials;
    std::vector<unsigned> tickets;
    LayerGemmParams params{};
};

struct Run {
    std::vector<unsigned> counters;
    cusync::ErrorBuffer errors{};
    Product first, second;
    cusync::StageParams<First> first_sync{};
    cusync::StageParams<Second> second_sync{};
    unsigned char* arena = nullptr;
    host::Barrier all;
    std::atomic<unsigned> is_over{0};
    unsigned long long until = 0, wrong = 0;
};

// A view of words as the tensor map that it stands for.
TensorMap map_of(std::vector<unsigned>& words, int rows, int columns, int box_rows, int box_columns, int tile_columns = 0) {
    const host::Matrix made{words.data(), rows / host::rows_per_word, columns / host::columns_per_word, box_rows, box_columns,
                            tile_columns};
    TensorMap map{};
    static_assert(sizeof(made) <= sizeof(map));
    std::memcpy(&map, &made, sizeof(made));
    return map;
}

// `a` is where the product's left operand is: its own, or what the product before writes.
template <class Generated>
void fill(Product& product, std::vector<unsigned>& a, int k) {
    product.rows = Generated::rows * S::tile_m, product.columns = Generated::columns * S::tile_n, product.k = k;
    const auto words = [](int rows, int columns) { return rows / host::rows_per_word * columns / host::columns_per_word; };
    a.resize(words(product.rows, k), 1);
    product.b.resize(words(k, product.columns), 1);
    product.c.resize(words(product.rows, product.columns));
    const int parts = std::max(Generated::slices, S::is_stream_k ? 4 : 1);
    product.partials.resize(Generated::columns * Generated::rows * parts * sum_words / 4);
    product.tickets.resize(Generated::columns * Generated::rows);
    LayerGemmParams& p = product.params;
    p.a = map_of(a, product.rows, k, S::tile_m / S::cluster, 64);
    p.b = map_of(product.b, k, product.columns, 64 / S::cluster, 64);
    p.b_tiles = map_of(product.b, k, product.columns, 64, S::panels * 64, S::tile_n);
    p.c = map_of(product.c, product.rows, product.columns, 64, 64);
    p.c_tiles = map_of(product.c, product.rows, product.columns, 64, 64, S::tile_n);
    p.partials = reinterpret_cast<float*>(product.partials.data());
    p.tickets = product.tickets.data();
    p.k = k, p.load_bytes = S::slot_bytes, p.is_persistent = 1, p.whole_tiles = Generated::columns;
}

// Before the k-blocks of each tile that the first product writes. A warp has one lane here, so of each window of 32 steps it
// sees the first.
struct Schedule {
    std::vector<cusync::WaitStep> steps;
    std::vector<int> first;
    Schedule() {
        constexpr int per_tile = S::tile_n / 64, splits = Second::slices, all = First::columns * per_tile;
        constexpr int lists = splits * (IS_SHORT ? Second::columns : 1);  // of a row of tiles
        for (int list = 0; list < Second::rows * lists; ++list) {
            const int y = list / lists, from = all * (list % splits) / splits, to = all * (list % splits + 1) / splits;
            first.push_back(static_cast<int>(steps.size()));
            for (int x = from / per_tile; x * per_tile < to; ++x) push({std::max(from, x * per_tile), 0, x, y});
            push({INT_MAX, -1, 0, 0});
        }
    }
    void push(cusync::WaitStep step) {
        steps.push_back(step);
        steps.resize(steps.size() + 31, cusync::WaitStep{INT_MAX, -1, 0, 0});
    }
};

// What gemm_sm90 and fused_gemm_sm90 do.
void kernel(Run& run, int number, unsigned char* bytes) {
    const Shared<S> shared(bytes);
    if constexpr (FUSED) {
        run_block<S, false>(shared, Part<First, Plain>(run.first_sync, run.first.params),
                            Part<Second, OfSecond>(run.second_sync, run.second.params));
        if (threadIdx.x == 0) cusync::retire_block(run.first_sync.sync);
    } else if (number == 0) {
        run_block<S, false>(shared, Part<First, Plain>(run.first_sync, run.first.params));
        if (threadIdx.x == 0) cusync::retire_block(run.first_sync.sync);
    } else {
        run_block<S, false>(shared, Part<Second, OfSecond>(run.second_sync, run.second.params));
        if constexpr (retires_early<Part<Second, OfSecond>>) return;
        if (threadIdx.x == 0) cusync::retire_block(run.second_sync.sync);
    }
}

// By one thread, between runs.
void look(Run& run) {
    if (run.errors.aborted == 0) {
        for (Product* product : {&run.first, &run.second}) {
            run.wrong += std::count(product->c.begin(), product->c.end(), 0u);
            if (S::is_stream_k || IS_SHORT) run.wrong += product->tickets.size() - std::count(product->tickets.begin(), product->tickets.end(), 0u);
        }
        run.wrong += run.counters.size() - std::count(run.counters.begin(), run.counters.end(), 0u);
    }
    for (Product* product : {&run.first, &run.second}) {
        std::fill(product->c.begin(), product->c.end(), 0);
        if (!S::is_stream_k && !IS_SHORT) std::fill(product->tickets.begin(), product->tickets.end(), 0);
    }
    host::rounds.fetch_add(1, std::memory_order_relaxed);
}

struct Barriers {
    host::Barrier block[blocks], mma_warps[blocks], cluster[blocks];
};

void warp_of(Run& run, Barriers& at, int block, int warp) {
    // The producer warp, the epilogue warps, and the MMA warps from warp 4 on; there is no other.
    threadIdx.x = 32 * (warp <= S::warpgroups ? warp : 4 + warp - 1 - S::warpgroups);
    blockIdx.x = block % blocks_each;
    gridDim.x = blocks_each;
    host::begin_thread(block * warps + warp);
    host::self.block = &at.block[block], host::self.mma_warps = &at.mma_warps[block];
    host::self.blocks_of_cluster = &at.cluster[block / S::cluster];
    host::self.place = block;
    host::self.cluster = S::cluster, host::self.rank = block % S::cluster;
    unsigned char* const bytes = run.arena + block * host::block_bytes;
    host::self.shared_base = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(bytes));
    while (run.is_over.load(std::memory_order_relaxed) == 0) {
        kernel(run, block / blocks_each, bytes);
        host::operations.fetch_add(std::exchange(host::self.operations, 0), std::memory_order_relaxed);
        if (run.all.wait()) {
            look(run);
            run.is_over = host::operations >= run.until || run.errors.aborted;
        }
        run.all.wait();
    }
    host::engines.reset();
}

int main(int count, char** words) {
    if (count < 3) return 2;
    Run run;
    run.until = std::strtoull(words[1], nullptr, 10);
    host::seed = std::strtoull(words[2], nullptr, 10);
    if (count > 3) host::dropped = words[3];
    if (std::string_view(host::dropped).ends_with("whole")) host::limit_ns = 50'000'000;
    std::vector<unsigned> a;
    fill<First>(run.first, a, 64 * k_blocks);
    fill<Second>(run.second, run.first.c, run.first.columns);
    run.second.params.residual = map_of(run.first.c, run.first.rows, run.first.columns, 64, 64);
    run.counters.resize((pipeline::counter_count + 1 + 3) / 4 * 4);
    run.arena = host::shared_arena(blocks);
    const Schedule schedule;
    cusync::SyncParams sync{run.counters.data(), &run.errors, nullptr, host::limit_ns, nullptr, nullptr, 0, 2,
                            static_cast<int>(run.counters.size()), blocks, {}};
    run.first_sync.sync = sync;
    sync.stage = 1, sync.schedule = schedule.steps.data(), sync.schedule_first = schedule.first.data();
    run.second_sync.sync = sync;
    run.all.expect(blocks * warps);
    Barriers at;
    for (int i = 0; i < blocks; ++i) {
        at.block[i].expect(warps);
        at.mma_warps[i].expect(S::mma_warps);
        at.cluster[i].expect(warps * S::cluster);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < blocks * warps; ++i) threads.emplace_back(warp_of, std::ref(run), std::ref(at), i / warps, i % warps);
    for (std::thread& one : threads) one.join();
    std::printf("%llu %llu %llu %u\n", host::rounds.load(), host::operations.load(), run.wrong, run.errors.aborted);
    return run.wrong != 0;
}
