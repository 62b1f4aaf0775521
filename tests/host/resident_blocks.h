// Slots in which blocks are resident: each runs one block after another, in launch order, of whatever stage, and all of
// it again and again. Blocks of different slots know of each other only by what the kernels themselves do.
#pragma once

#include "ptx_on_host.h"

namespace host {

constexpr unsigned slots = 3, warps = 2;

struct Runs {
    unsigned long long until, wrong = 0;  // operations to do; what was not as it must be
    cusync::ErrorBuffer errors{};

    // Of a program's words: OPERATIONS SEED [DROPPED].
    explicit Runs(char** words) : until(std::strtoull(words[1], nullptr, 10)) {
        seed = std::strtoull(words[2], nullptr, 10);
        if (words[3] != nullptr) dropped = words[3];
        if (std::string_view(dropped).ends_with("whole")) limit_ns = 50'000'000;
    }

    // Runs block(0), ..., block(blocks - 1), each by all warps of a slot, then look() by one thread; until enough is done.
    template <class Block, class Look>
    void run(unsigned blocks, Block&& block, Look&& look) {
        static Barrier barriers[slots], all;
        static std::atomic<bool> votes[slots];
        static std::atomic<unsigned> next{0}, numbers[slots], is_over{0};  // relaxed, told by the barriers
        unsigned char* const arena = shared_arena(slots);
        all.expect(slots * warps);
        for (Barrier& one : barriers) one.expect(warps);
        const auto warp_of = [&](unsigned slot, unsigned warp) {
            threadIdx.x = 32 * warp;
            begin_thread(slot * warps + warp);
            self.block = &barriers[slot], self.vote = &votes[slot], self.place = slot;
            self.shared_base = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(arena + slot * block_bytes));
            while (is_over.load(std::memory_order_relaxed) == 0) {
                for (;;) {
                    if (warp == 0) numbers[slot].store(next.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
                    self.block->wait();
                    const unsigned number = numbers[slot].load(std::memory_order_relaxed);
                    if (number >= blocks) break;
                    block(number);
                    self.block->wait();
                }
                operations.fetch_add(std::exchange(self.operations, 0), std::memory_order_relaxed);
                if (all.wait()) {
                    look();
                    next = 0;
                    rounds.fetch_add(1, std::memory_order_relaxed);
                    is_over = operations >= until || errors.aborted;
                }
                all.wait();
            }
            engines.reset();
        };
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < slots * warps; ++i) threads.emplace_back(warp_of, i / warps, i % warps);
        for (std::thread& one : threads) one.join();
    }

    // What a program prints last, and its status.
    int end() const {
        std::printf("%llu %llu %llu %u\n", rounds.load(), operations.load(), wrong, errors.aborted);
        return wrong != 0;
    }
};

}  // namespace host
