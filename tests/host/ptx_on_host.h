// The meaning of a PTX instruction on the host, read from its own text: what it does from the first word, in which order
// from .relaxed, .acquire, .release and .acq_rel. An instruction that is not known here ends the program.
//
// ThreadSanitizer knows no fences, so an acquire fence loads again, with acquire, what this thread has loaded relaxed.
// Proxies (fence.proxy) and the registers' own instructions have no meaning on a host; the lint and the enumerator of the
// memory model look at the first.
#pragma once

#include "cuda_on_host.h"
#include "shared_memory_on_host.h"

namespace host {

template <std::size_t N>
struct Text {
    char text[N];
    constexpr Text(const char (&from)[N]) { std::copy_n(from, N, text); }
    constexpr std::string_view view() const { return {text, N - 1}; }
};

constexpr bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// What the text says of order.
struct Orders {
    bool acquires, releases, is_relaxed;
};

constexpr Orders orders_in(std::string_view text) {
    const bool both = has(text, ".acq_rel");
    return {both || has(text, ".acquire"), both || has(text, ".release"), has(text, ".relaxed")};
}

// The order, less what is dropped.
inline std::memory_order order_of(Orders orders, const char* site) {
    const bool acquires = orders.acquires && !is_dropped(site, "acquire");
    const bool releases = orders.releases && !is_dropped(site, "release");
    if (acquires && releases) return std::memory_order_acq_rel;
    return acquires ? std::memory_order_acquire : releases ? std::memory_order_release : std::memory_order_relaxed;
}

inline unsigned load(const unsigned* at, std::memory_order order) {
    return std::atomic_ref(*const_cast<unsigned*>(at)).load(order);
}

inline void remember_relaxed(const unsigned* at) {
    for (const unsigned* one : self.relaxed) {
        if (one == at) return;
    }
    self.relaxed[self.relaxed_count++ % 8] = at;
}

inline void fence(const char* site) {
    for (const unsigned*& one : self.relaxed) {
        if (one != nullptr && !is_dropped(site)) load(one, std::memory_order_acquire);
        one = nullptr;
    }
}

inline void load_word(Orders orders, const char* site, unsigned& value, const unsigned* at) {
    value = load(at, order_of(orders, site));
    if (orders.is_relaxed) remember_relaxed(at);
}

inline void store_word(Orders orders, const char* site, unsigned* at, unsigned value) {
    std::atomic_ref(*at).store(value, order_of(orders, site));
}

inline void add_word(Orders orders, const char* site, unsigned* at, unsigned value) {
    std::atomic_ref(*at).fetch_add(value, order_of(orders, site));
}

inline void fetch_add_word(Orders orders, const char* site, unsigned& before, unsigned* at, unsigned value) {
    before = std::atomic_ref(*at).fetch_add(value, order_of(orders, site));
}

template <class T>
void read_clock(T& now) {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    now = static_cast<T>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

template <bool IS_IN_CLUSTER>
void arrive(const char* site, unsigned barrier) {
    const std::memory_order order = is_dropped(site) ? std::memory_order_relaxed : std::memory_order_release;
    if constexpr (IS_IN_CLUSTER) {
        each_block_of_cluster(barrier, [&](unsigned there) { update_barrier(there, 1, 0, order); });
    } else {
        update_barrier(barrier, 1, 0, order);
    }
}

inline void arrive_expecting(const char* site, unsigned barrier, unsigned bytes) {
    update_barrier(barrier, 1, bytes, is_dropped(site) ? std::memory_order_relaxed : std::memory_order_release);
}

inline void look_at_barrier(const char* site, unsigned& ended, unsigned barrier, unsigned parity) {
    ended = has_ended(barrier, parity, is_dropped(site) ? std::memory_order_relaxed : std::memory_order_acquire);
}

inline void store_in_cluster(Orders orders, const char* site, unsigned address, int word) {
    each_block_of_cluster(address, [&](unsigned there) {
        std::atomic_ref(at_address<int>(there)).store(word, order_of(orders, site));
    });
}

// The word of another block's mailbox, and its bytes at the barrier there.
inline void store_async(const char* site, unsigned address, int word, unsigned barrier) {
    at_address<int>(address) = word;
    update_barrier(barrier, 0, -4, is_dropped(site) ? std::memory_order_relaxed : std::memory_order_release);
}

inline void count_in_block(Orders orders, const char* site, int& before, unsigned address) {
    before = std::atomic_ref(at_address<int>(address)).fetch_add(1, order_of(orders, site));
}

template <bool IS_BY_TILE, bool IS_MULTICAST, bool IS_STORE, class... Operands>
void copy_box(Operands... operands) {
    if constexpr (IS_STORE && sizeof...(operands) == 4) {
        [](const void* map, int column, int row, unsigned from) { store_box(matrix_of(map), column, row, from); }(operands...);
    } else if constexpr (IS_STORE) {
        [](const void* map, int column, int tile, int row, unsigned from) {
            store_box(matrix_of(map), tile * matrix_of(map).tile_columns + column, row, from);
        }(operands...);
    } else if constexpr (IS_BY_TILE) {
        [](unsigned to, const void* map, int row, int tile, unsigned barrier) {
            load_box(matrix_of(map), tile * matrix_of(map).tile_columns, row, to, barrier, 0);
        }(operands...);
    } else if constexpr (IS_MULTICAST) {
        [](unsigned to, const void* map, int column, int row, unsigned barrier, unsigned blocks) {
            load_box(matrix_of(map), column, row, to, barrier, blocks);
        }(operands...);
    } else {
        [](unsigned to, const void* map, int column, int row, unsigned barrier) {
            load_box(matrix_of(map), column, row, to, barrier, 0);
        }(operands...);
    }
}

template <class T>
void give_one(T& value) { value = static_cast<T>(1); }
template <class T>
void give_nan(T& value) { value = static_cast<T>(NAN); }

// Two floats in a word, cut off.
inline void pack_floats(unsigned& packed, float high, float low) {
    unsigned words[2];
    std::memcpy(words, &high, 4), std::memcpy(words + 1, &low, 4);
    packed = (words[0] & 0xffff0000u) | words[1] >> 16;
}

// Two bf16 in each word, cut off.
inline void fma_pairs(unsigned& sum, unsigned factor, unsigned term) {
    const auto high = [](unsigned pair) { return __uint_as_float(pair & 0xffff0000u); };
    const auto low = [](unsigned pair) { return __uint_as_float(pair << 16); };
    pack_floats(sum, high(sum) * high(factor) + high(term), low(sum) * low(factor) + low(term));
}

// The first word of a lane's matrices, which perhaps no first lane has copied: so a sum grows by what the registers hold.
inline void load_matrices_of_lane(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned address) {
    a = b = c = d = at_address(address);
}
inline void multiply_of_lane(float& sum, float&, float&, float&, unsigned a, unsigned, unsigned, unsigned, unsigned, unsigned) {
    sum += a != 0 ? 1.0f : 0.0f;
}

// Instructions of registers, tensor maps and proxies.
constexpr bool means_nothing(std::string_view text) {
    return text.starts_with("fence.proxy") || text.starts_with("fence.mbarrier_init") || text.starts_with("prefetch.tensormap") ||
           text.starts_with("setmaxnreg") || text.starts_with("cp.async.bulk.commit_group") || text.starts_with("cvt.") ||
           text.starts_with("max.NaN") || text.starts_with("add.rn.") || text.starts_with("tanh.") || text.starts_with("rcp.") || text.starts_with("{ .reg .b16");
}

[[noreturn]] inline void unknown(std::string_view text) {
    std::fprintf(stderr, "no meaning on the host: %.*s\n", static_cast<int>(text.size()), text.data());
    std::abort();
}

template <Text TEXT, class... Operands>
void ptx(const char* site, Operands&&... operands) {
    constexpr std::string_view text = TEXT.view();
    [[maybe_unused]] constexpr Orders orders = orders_in(text);
    step();
    if (is_left_out(site)) return;
    if constexpr (text.starts_with("mov.u64 %0, %%globaltimer") || text.starts_with("mov.u64 %0, %%clock64")) {
        read_clock(operands...);
    } else if constexpr (text.starts_with("mov.u32 %0, %%smid")) {
        ((operands = blockIdx.x), ...);
    } else if constexpr (text.starts_with("ld.") && has(text, ".global.u32")) {
        load_word(orders, site, operands...);
    } else if constexpr (text.starts_with("st.") && has(text, ".global.u32")) {
        store_word(orders, site, operands...);
    } else if constexpr (text.starts_with("red.") && has(text, ".global.add.u32")) {
        add_word(orders, site, operands...);
    } else if constexpr (text.starts_with("atom.") && has(text, ".global.add.u32")) {
        fetch_add_word(orders, site, operands...);
    } else if constexpr (text.starts_with("fence.acq_rel")) {
        fence(site);
    } else if constexpr (text.starts_with("mbarrier.init")) {
        init_barrier(operands...);
    } else if constexpr (text.starts_with("mbarrier.arrive.expect_tx")) {
        arrive_expecting(site, operands...);
    } else if constexpr (text.starts_with("mbarrier.arrive")) {
        arrive<has(text, ".shared::cluster")>(site, operands...);
    } else if constexpr (has(text, "mbarrier.try_wait") || has(text, "mbarrier.test_wait")) {
        look_at_barrier(site, operands...);
    } else if constexpr (text.starts_with("mapa.")) {
        [](unsigned& there, unsigned address, unsigned rank) { there = in_block(address, rank); }(operands...);
    } else if constexpr (text.starts_with("st.async")) {
        store_async(site, operands...);
    } else if constexpr (text.starts_with("st.release.cluster")) {
        store_in_cluster(orders, site, operands...);
    } else if constexpr (text.starts_with("atom.") && has(text, ".shared::cta.add.s32")) {
        count_in_block(orders, site, operands...);
    } else if constexpr (text.starts_with("barrier.cluster")) {
        barrier(site, self.blocks_of_cluster);
    } else if constexpr (text.starts_with("bar.sync 1")) {
        barrier(site, self.mma_warps);
    } else if constexpr (text.starts_with("mov.u32 %0, %%cluster_ctarank")) {
        ((operands = static_cast<int>(self.rank)), ...);
    } else if constexpr (has(text, "elect.sync")) {
        (give_one(operands), ...);
    } else if constexpr (text.starts_with("mov.b32 %0, 0x7fffffff")) {
        (give_nan(operands), ...);
    } else if constexpr (text.starts_with("stmatrix")) {
        [](unsigned to, const auto&...) { at_address(to) = 1; }(operands...);
    } else if constexpr (text.starts_with("ldmatrix")) {
        load_matrices_of_lane(operands...);
    } else if constexpr (text.starts_with("mma.sync")) {
        multiply_of_lane(operands...);
    } else if constexpr (text.starts_with("ex2.")) {
        [](float& value, float x) { value = std::exp2(x); }(operands...);
    } else if constexpr (text.starts_with("cvt.rn.bf16x2") || text.starts_with("cvt.rn.f16x2")) {
        pack_floats(operands...);
    } else if constexpr (text.starts_with("fma.rn.bf16x2")) {
        fma_pairs(operands...);
    } else if constexpr (text.starts_with("cp.async.cg")) {
        copy_later(operands...);
    } else if constexpr (text.starts_with("cp.async.commit_group")) {
        commit_copies();
    } else if constexpr (text.starts_with("cp.async.wait_group")) {
        wait_copies(operands..., site);
    } else if constexpr (has(text, ".im2col") || text.starts_with("cp.async.bulk.tensor.3d.shared")) {
        unknown(text);  // of convolutions, which no program here computes
    } else if constexpr (text.starts_with("cp.async.bulk.tensor")) {
        copy_box<text.starts_with("cp.async.bulk.tensor.4d"), has(text, "multicast"), has(text, ".global.shared::cta")>(
            operands...);
    } else if constexpr (text.starts_with("cp.async.bulk.wait_group.read")) {
        wait_groups(operands..., &Stored::is_read, site);
    } else if constexpr (text.starts_with("cp.async.bulk.wait_group")) {
        wait_groups(0, &Stored::is_written, site);
    } else if constexpr (!means_nothing(text)) {
        unknown(text);
    }
}

}  // namespace host
