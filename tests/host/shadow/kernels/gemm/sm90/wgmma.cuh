// Stands in for kernels/gemm/sm90/wgmma.cuh, whose operands are made by macros. A batch of multiply-adds reads its operands at
// the latest moment that it may: when it is waited for.
#pragma once

#include "ptx_on_host.h"

namespace wgmma {

using Descriptor = unsigned long long;

constexpr Descriptor leading(unsigned bytes) { return static_cast<Descriptor>(bytes >> 4) << 16; }
inline Descriptor describe(unsigned address, unsigned, unsigned) { return (address & 0x3ffff) >> 4; }
inline void fence() {}
template <class Sums>
void fence_accumulators(Sums&) {}

// Addresses that a batch reads.
using Batch = std::vector<unsigned>;
inline thread_local std::vector<Batch> batches(1);

inline void commit() { batches.emplace_back(); }

template <int PENDING>
void wait() {
    host::step();
    const std::size_t pending = PENDING + (host::is_dropped("wgmma_wait") ? 1 : 0);
    for (std::size_t i = 0; i + pending + 1 < batches.size(); ++i) {
        for (unsigned address : batches[i]) host::sink = host::at_address(address);
        batches[i].clear();
    }
    batches.erase(batches.begin(), batches.end() - std::min(batches.size(), pending + 1));
}

// The first word of this warp's rows of A and of each of B's panels, at the first of a k-block's steps.
template <bool IS_BF16, bool IS_B_K_MAJOR, int HALF_N>
void multiply_add(float (&d)[HALF_N], Descriptor a, Descriptor b, bool is_adding) {
    constexpr unsigned panel = 64 * host::row_bytes;
    const unsigned a_at = (a & 0x3fff) << 4, b_at = (b & 0x3fff) << 4;
    d[0] = is_adding ? d[0] + 1 : 1;
    if (a_at % host::row_bytes != 0) return;
    const unsigned base = host::self.shared_base, rows = (threadIdx.x / 32 % 4) / 2 * host::rows_per_word;
    batches.back().push_back(base + a_at + rows * host::row_bytes);
    for (unsigned i = 0; i < (2 * HALF_N + 63) / 64; ++i) batches.back().push_back(base + b_at + i * panel);
}

}  // namespace wgmma
