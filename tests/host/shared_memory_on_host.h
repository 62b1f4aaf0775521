// Barriers in shared memory, TMA, and what else the Hopper kernels do there, for threads of the host.
//
// Shared memory lies in an arena below 4 GB, so that an address fits into 32 bits; a block's part of it begins at a
// multiple of 256 KB, and those of a cluster's blocks are neighbours. Of what TMA moves a word stands for 32 rows of 64
// columns in global memory, and for the first word of these rows in shared memory. It is moved by a thread of its own,
// later; where that thread is idle matters to nobody who has not waited as PTX says.
#pragma once

#include <sys/mman.h>

#include "cuda_on_host.h"

namespace host {

constexpr unsigned block_bytes = 1u << 18;
constexpr int rows_per_word = 32, columns_per_word = 64, row_bytes = 128;

template <class T = unsigned>
T& at_address(unsigned address) { return *reinterpret_cast<T*>(static_cast<std::uintptr_t>(address)); }

// Room for so many blocks.
inline unsigned char* shared_arena(int blocks) {
    const std::size_t bytes = static_cast<std::size_t>(blocks + 2) * block_bytes;
    void* const found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (found == MAP_FAILED) std::abort();
    const auto address = reinterpret_cast<std::uintptr_t>(found);
    return reinterpret_cast<unsigned char*>((address + 2 * block_bytes - 1) / (2 * block_bytes) * (2 * block_bytes));
}

// What a kernel has as `extern __shared__`: this block's part of the arena.
inline unsigned char* dynamic_shared() { return &at_address<unsigned char>(self.shared_base); }

// The same place in block `rank` of the cluster.
inline unsigned in_block(unsigned address, unsigned rank) {
    return (address & ~(2 * block_bytes - 1)) + rank * block_bytes + (address & (block_bytes - 1));
}

// ---- mbarrier: a word of bytes that are still to come (biased), arrivals still to come, arrivals of a phase, the phase.

struct Mbarrier {
    long long bytes;
    unsigned pending, count, phase;

    static constexpr unsigned long long bias = 1ull << 20;
    static Mbarrier of(unsigned long long word) {
        return {static_cast<long long>((word & 0x1fffff) - bias), static_cast<unsigned>(word >> 21 & 0xfffff),
                static_cast<unsigned>(word >> 41 & 0xfffff), static_cast<unsigned>(word >> 63)};
    }
    unsigned long long word() const {
        return (static_cast<unsigned long long>(bytes + bias) & 0x1fffff) | static_cast<unsigned long long>(pending) << 21 |
               static_cast<unsigned long long>(count) << 41 | static_cast<unsigned long long>(phase) << 63;
    }
};

inline void init_barrier(unsigned barrier, unsigned arrivals) {
    std::atomic_ref(at_address<unsigned long long>(barrier)).store(Mbarrier{0, arrivals, arrivals, 0}.word());
}

// So many arrivals, and bytes that are expected (or, below zero, have come). The phase ends where none are left.
inline void update_barrier(unsigned barrier, unsigned arrivals, long long bytes, std::memory_order order) {
    std::atomic_ref<unsigned long long> word(at_address<unsigned long long>(barrier));
    for (unsigned long long old = word.load(std::memory_order_relaxed);;) {
        Mbarrier next = Mbarrier::of(old);
        next.pending -= arrivals, next.bytes += bytes;
        if (next.pending == 0 && next.bytes == 0) next.phase ^= 1, next.pending = next.count;
        if (word.compare_exchange_weak(old, next.word(), order, std::memory_order_relaxed)) return;
    }
}

inline bool has_ended(unsigned barrier, unsigned parity, std::memory_order order) {
    const bool ended = Mbarrier::of(std::atomic_ref(at_address<unsigned long long>(barrier)).load(order)).phase != parity;
    if (!ended) --self.operations, sched_yield();
    return ended;
}

// ---- Work that another thread does later, in the order in which one thread asked for it. What it has done it tells
// nobody by the queue itself: only by the barriers and groups that the work ends with.

class Engine {
public:
    Engine() {
        sem_init(&works_asked_, 0, 0);
        thread_ = std::thread([this] { run(); });
    }
    ~Engine() {
        submit(nullptr);
        thread_.join();
    }

    void submit(std::function<void()> work) {
        while (asked_ - done_.load(std::memory_order_relaxed) >= size) sched_yield();
        auto* const copy = new std::function<void()>(std::move(work));
        std::atomic_ref(works_[asked_++ % size]).store(copy, std::memory_order_relaxed);
        sem_post(&works_asked_);
    }

private:
    static constexpr unsigned size = 64;

    void run() {
        begin_thread(reinterpret_cast<std::uintptr_t>(this));
        for (unsigned at = 0;; ++at) {
            while (sem_wait(&works_asked_) != 0) {}
            const std::unique_ptr<std::function<void()>> work(
                std::atomic_ref(works_[at % size]).load(std::memory_order_relaxed));
            if (!*work) return;
            step();
            (*work)();
            done_.store(at + 1, std::memory_order_relaxed);
        }
    }

    std::function<void()>* works_[size] = {};
    unsigned asked_ = 0;
    std::atomic<unsigned> done_{0};
    sem_t works_asked_;
    std::thread thread_;
};

// Two per thread that issues copies: what it asked for may end in another order.
struct Engines {
    Engine each[2];
};
inline thread_local std::unique_ptr<Engines> engines;

inline void later(std::function<void()> work) {
    if (!engines) engines = std::make_unique<Engines>();
    engines->each[self.random >> 40 & 1].submit(std::move(work));
}

// ---- TMA. In the place of a tensor map: a matrix of words, and the rows and columns of a box.

struct Matrix {
    unsigned* words;
    int rows, columns;          // of words
    int box_rows, box_columns;  // of elements, as those of TMA
    int tile_columns;           // of a map whose columns are numbered by tile; else 0
};

inline const Matrix& matrix_of(const void* map) { return *static_cast<const Matrix*>(map); }

inline thread_local volatile unsigned sink;

// The box's words, global to shared; rows and columns outside are left out.
inline void copy_in(const Matrix& from, int column, int row, unsigned to) {
    for (int c = 0; c < from.box_columns / columns_per_word; ++c) {
        for (int r = 0; r < from.box_rows; r += rows_per_word) {
            const int x = column / columns_per_word + c, y = (row + r) / rows_per_word;
            const unsigned word = x < from.columns && y < from.rows ? from.words[y * from.columns + x] : 0;
            at_address(to + c * 64 * row_bytes + r * row_bytes) = word;
        }
    }
}

inline void load_box(const Matrix& from, int column, int row, unsigned to, unsigned barrier, unsigned blocks) {
    const unsigned bytes = from.box_rows * from.box_columns * 2;
    later([=, &from] {
        for (unsigned rank = 0; rank < 2; ++rank) {
            if (blocks != 0 && (blocks >> rank & 1) == 0) continue;
            copy_in(from, column, row, blocks == 0 ? to : in_block(to, rank));
            step();
            update_barrier(blocks == 0 ? barrier : in_block(barrier, rank), 0, -static_cast<long long>(bytes),
                           std::memory_order_release);
            if (blocks == 0) break;
        }
    });
}

// ---- cp.async: copies of 16 bytes, of which the first word is moved, in groups of the thread that asks.

using CopyGroup = std::shared_ptr<std::atomic<unsigned>>;  // copies that are not there yet
inline thread_local std::vector<CopyGroup> copy_groups;    // the last one not committed yet

inline CopyGroup& open_copies() {
    if (copy_groups.empty()) copy_groups.push_back(std::make_shared<std::atomic<unsigned>>(0));
    return copy_groups.back();
}

inline void copy_later(unsigned to, const void* from, int bytes) {
    CopyGroup group = open_copies();
    group->fetch_add(1, std::memory_order_relaxed);
    later([=] {
        at_address(to) = bytes > 0 ? *static_cast<const unsigned*>(from) : 0;
        group->fetch_sub(1, std::memory_order_release);
    });
}

inline void commit_copies() {
    open_copies();
    copy_groups.push_back(std::make_shared<std::atomic<unsigned>>(0));
}

inline void wait_copies(unsigned pending, const char* site) {
    open_copies();
    const std::size_t done = copy_groups.size() - 1 - std::min<std::size_t>(pending, copy_groups.size() - 1);
    for (std::size_t i = 0; i < done; ++i) {
        while (!is_dropped(site) && copy_groups[i]->load(std::memory_order_acquire) != 0) sched_yield();
    }
    copy_groups.erase(copy_groups.begin(), copy_groups.begin() + done);
}

// ---- What the first lanes of a warp do, one for each block of the cluster: here its one lane does it for all.

template <class Body>
void each_block_of_cluster(unsigned address, Body&& body) {
    if (self.cluster == 1) return body(address);
    for (unsigned rank = 0; rank < self.cluster; ++rank) body(in_block(address, rank));
}

// A store in flight: whether its shared memory was read, and whether its words are written.
struct Stored {
    std::atomic<bool> is_read{false}, is_written{false};
};
// Of one thread, from `first` on; places come round again when all before them have been waited for.
struct Groups {
    Stored each[256];
    unsigned first = 0, end = 0;
    Stored& operator[](unsigned i) { return each[i % 256]; }
};
inline thread_local Groups groups;

inline void store_box(const Matrix& to, int column, int row, unsigned from) {
    Stored* const group = &groups[groups.end++];
    group->is_read.store(false, std::memory_order_relaxed), group->is_written.store(false, std::memory_order_relaxed);
    later([=, &to] {
        unsigned word = 0;
        for (int r = 0; r < 64; r += 16) {
            for (int chunk = 0; chunk < 4; ++chunk) word += at_address(from + r * row_bytes + chunk * 32);
        }
        group->is_read.store(true, std::memory_order_release);
        step();
        for (int r = 0; r < 64; r += rows_per_word) {
            const int x = column / columns_per_word, y = (row + r) / rows_per_word;
            if (x < to.columns && y < to.rows) to.words[y * to.columns + x] = word;
        }
        group->is_written.store(true, std::memory_order_release);
    });
}

// Until all groups of this thread but the last `pending` have been read, or written.
inline void wait_groups(int pending, std::atomic<bool> Stored::* done, const char* site) {
    for (unsigned i = groups.first; i + pending < groups.end; ++i) {
        while (!is_dropped(site) && !(groups[i].*done).load(std::memory_order_acquire)) sched_yield();
    }
    if (done == &Stored::is_written) groups.first = groups.end;
}

}  // namespace host
