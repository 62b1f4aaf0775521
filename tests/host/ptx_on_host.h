// The meaning of a PTX instruction on the host, read from its own text: what it does from the first word, in which order
// from .relaxed, .acquire, .release and .acq_rel. An instruction that is not known here ends the program.
//
// ThreadSanitizer knows no fences, so an acquire fence loads again, with acquire, what this thread has loaded relaxed.
// Proxies (fence.proxy) have no meaning on a host; the lint and the enumerator of the memory model look at those.
#pragma once

#include "cuda_on_host.h"

namespace host {

template <std::size_t N>
struct Text {
    char text[N];
    constexpr Text(const char (&from)[N]) { std::copy_n(from, N, text); }
    constexpr std::string_view view() const { return {text, N - 1}; }
};

constexpr bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// The order that the text says, less what is dropped.
inline std::memory_order order_of(std::string_view text, const char* site) {
    const bool both = has(text, ".acq_rel");
    const bool acquires = (both || has(text, ".acquire")) && !is_dropped(site, "acquire");
    const bool releases = (both || has(text, ".release")) && !is_dropped(site, "release");
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

inline void load_word(std::string_view text, const char* site, unsigned& value, const unsigned* at) {
    const std::memory_order order = order_of(text, site);
    value = load(at, order);
    if (order == std::memory_order_relaxed && has(text, ".relaxed")) remember_relaxed(at);
}

inline void store_word(std::string_view text, const char* site, unsigned* at, unsigned value) {
    std::atomic_ref(*at).store(value, order_of(text, site));
}

inline void add_word(std::string_view text, const char* site, unsigned* at, unsigned value) {
    std::atomic_ref(*at).fetch_add(value, order_of(text, site));
}

inline void fetch_add_word(std::string_view text, const char* site, unsigned& before, unsigned* at, unsigned value) {
    before = std::atomic_ref(*at).fetch_add(value, order_of(text, site));
}

template <class T>
void read_clock(T& now) {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    now = static_cast<T>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

[[noreturn]] inline void unknown(std::string_view text) {
    std::fprintf(stderr, "no meaning on the host: %.*s\n", static_cast<int>(text.size()), text.data());
    std::abort();
}

template <Text TEXT, class... Operands>
void ptx(const char* site, Operands&&... operands) {
    constexpr std::string_view text = TEXT.view();
    step();
    if (is_left_out(site)) return;
    if constexpr (text.starts_with("mov.u64 %0, %%globaltimer") || text.starts_with("mov.u64 %0, %%clock64")) {
        read_clock(operands...);
    } else if constexpr (text.starts_with("mov.u32 %0, %%smid")) {
        ((operands = blockIdx.x), ...);
    } else if constexpr (text.starts_with("ld.") && has(text, ".global.u32")) {
        load_word(text, site, operands...);
    } else if constexpr (text.starts_with("st.") && has(text, ".global.u32")) {
        store_word(text, site, operands...);
    } else if constexpr (text.starts_with("red.") && has(text, ".global.add.u32")) {
        add_word(text, site, operands...);
    } else if constexpr (text.starts_with("atom.") && has(text, ".global.add.u32")) {
        fetch_add_word(text, site, operands...);
    } else if constexpr (text.starts_with("fence.acq_rel")) {
        fence(site);
    } else {
        unknown(text);
    }
}

}  // namespace host
