// The primitives alone, at full speed: producers and consumers fetch numbers and hand words over through a ring, in every
// way in which kernels post and wait.
//
//   semaphore_ring OPERATIONS SEED [DROPPED]      ends with "rounds operations wrong aborted"; a round is a turn of the ring
#include "ptx_on_host.h"

#include <cusync/semaphore.cuh>

constexpr unsigned places = 64, producers = 2, consumers = 2;

struct Ring {
    unsigned words[places] = {};  // plain
    unsigned filled[places] = {}, emptied[places] = {};
    unsigned next_in = 0, next_out = 0;
    std::atomic<unsigned long long> wrong{0};
    unsigned items = 0;
};

// Each post is the only one of its turn, so a store does as well as an add.
void post(unsigned* counter, unsigned value, unsigned way) {
    if (way % 3 == 0) {
        cusync::add_release(counter, 1);
    } else if (way % 3 == 1) {
        cusync::store_release(counter, value);
    } else {
        cusync::fetch_add_acq_rel(counter, 1);
    }
}

// Looks that find nothing do not count as operations.
void look_again() {
    --host::self.operations;
    sched_yield();
}

void wait(const unsigned* counter, unsigned value, unsigned way) {
    if (way % 2 == 0) {
        while (cusync::load_acquire(counter) < value) look_again();
    } else {
        while (cusync::load_relaxed(counter) < value) look_again();
        cusync::acquire_fence();
    }
}

void produce(Ring& ring, unsigned number) {
    host::begin_thread(number);
    for (;;) {
        const unsigned item = cusync::fetch_add_relaxed(&ring.next_in, 1), at = item % places, turn = item / places;
        if (item >= ring.items) return;
        wait(&ring.emptied[at], turn, item / 3);
        ring.words[at] = item;
        post(&ring.filled[at], turn + 1, item);
    }
}

void consume(Ring& ring, unsigned number) {
    host::begin_thread(number);
    for (;;) {
        const unsigned item = cusync::fetch_add_relaxed(&ring.next_out, 1), at = item % places, turn = item / places;
        if (item >= ring.items) return;
        wait(&ring.filled[at], turn + 1, item / 5);
        if (ring.words[at] != item) ring.wrong.fetch_add(1, std::memory_order_relaxed);
        post(&ring.emptied[at], turn + 1, item / 7);
    }
}

int main(int count, char** words) {
    if (count < 3) return 2;
    constexpr unsigned long long per_item = 6;  // at least
    Ring ring;
    ring.items = static_cast<unsigned>(std::min(std::strtoull(words[1], nullptr, 10) / per_item + 1, 4'000'000'000ull));
    host::seed = std::strtoull(words[2], nullptr, 10);
    if (count > 3) host::dropped = words[3];
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < producers; ++i) threads.emplace_back(produce, std::ref(ring), i);
    for (unsigned i = 0; i < consumers; ++i) threads.emplace_back(consume, std::ref(ring), producers + i);
    for (std::thread& one : threads) one.join();
    std::printf("%u %llu %llu 0\n", ring.items / places, host::operations.load(), ring.wrong.load());
    return ring.wrong != 0;
}
