// An MMA warpgroup: 64 query rows of a tile. Scores S, probabilities P and outputs O stay in registers; Q, K and V are
// read from shared memory. The scores of the next block are on the tensor cores before the softmax of this one begins:
//
//   tensor cores      | QK0 |           | QK1 | PV0 |            | QK2 | PV1 |            ... | PV last |
//   softmax           |     | softmax 0 |           | softmax 1  |           | softmax 2  | ...
//
// The warpgroups alternate: while one issues its products the other is in its softmax (FlashAttention-3's ping-pong;
// Shah and others, 2024).
#pragma once

#include <kernels/attention/sm90/shared_memory.cuh>
#include <kernels/attention/sm90/softmax.cuh>
#include <kernels/attention/sm90/wgmma_registers.cuh>
#include <kernels/gemm/sm80/tensor_core.cuh>

template <class S, bool IS_BF16>
class MmaWarpgroup {
public:
    __device__ __forceinline__ MmaWarpgroup(const AttentionSm90Params& p, const Shared<S>& shared, int group)
        : p_(p), shared_(shared), group_(group), row_in_tile_(64 * group + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4) {
        q_ = wgmma::describe(shared.q + group * 64 * 128, 16, 1024);
        k_ = wgmma::describe(shared.k, 16, 1024);
        v_ = wgmma::describe(shared.v, S::tile_keys * 128, 1024);
    }

    // CAN_ABORT: whether a wait of the block may be aborted.
    template <bool CAN_ABORT>
    __device__ __forceinline__ void run() {
        if (group_ == 0) order_arrive(0);
        for_each_tile(shared_, [&](const WorkTile& work, int) {
            attend(work);
            // Behind the last V block's barrier, which comes after the producer warp's word.
            finish(CAN_ABORT && shared_.control().is_aborted);
        });
        if (group_ == 0) order_wait();
    }

private:
    using Place = mbarrier::Place<S::pipeline_depth>;
    static constexpr int first_order_barrier = 1;  // the block barrier's number is 0

    __device__ __forceinline__ void attend(const WorkTile& work) {
        row_ = work.row + row_in_tile_;
        head_ = work.sequence * p_.heads + work.tile.x;
        mbarrier::wait(shared_.q_full(), q_place_.parity);
        q_place_.advance();
        // Blocks before this one hold keys that all of the warpgroup's rows see.
        const int seen = S::is_causal ? p_.keys - p_.length + work.row + 64 * group_ + 1 : p_.keys;
        const int whole = (min(seen, p_.keys) - p_.first_key) / S::tile_keys;
        float rescale[2];
        issue_scores();
        wait_scores();
        if (whole == 0 || p_.first_key < 0) mask<true>(0);
        softmax_.template update<true>(scores_[0], p_.scale_log2, rescale);
        round(0);
        for (int block = 1; block < min(whole, work.kv_blocks); ++block) step<false>(block);
        for (int block = max(whole, 1); block < work.kv_blocks; ++block) step<true>(block);
        release(shared_.q_empty());
        issue_outputs(work.kv_blocks > 1);
        wait_outputs();
    }

    // Block `block`: its scores and the outputs of the block before, then its softmax.
    template <bool IS_MASKED>
    __device__ __forceinline__ void step(int block) {
        order_wait();
        issue_scores();
        issue_outputs(block > 1);
        order_arrive((group_ + 1) % S::warpgroups);
        wgmma::wait<1>();
        wgmma::fence_accumulators(scores_);
        release_k();
        if constexpr (IS_MASKED) mask<false>(block);
        float rescale[2];
        softmax_.template update<false>(scores_[0], p_.scale_log2, rescale);
        // The softmax belongs under the product that runs meanwhile. The compiler moves the wait for the product ahead of
        // it, but not across a branch: so the barrier that V came by, long passed, is asked again.
        wgmma::fence_accumulators(scores_);
        mbarrier::wait(shared_.v_full(v_place_.slot), v_place_.parity);
        wait_outputs();
        round(block);
#pragma unroll
        for (int i = 0; i < S::head / 2; ++i) outputs_[0][i] *= rescale[i / 2 % 2];
    }

    // S = Q x K^T of the next block.
    __device__ __forceinline__ void issue_scores() {
        mbarrier::wait(shared_.k_full(k_place_.slot), k_place_.parity);
        const wgmma::Descriptor k = k_ + k_place_.slot * (S::kv_bytes / 16);
        wgmma::fence_accumulators(scores_);
        wgmma::fence();
        each<S::head / 16>([&](auto step) {
            constexpr int s = step.value, panel = s / 4, bytes = s % 4 * 32;
            wgmma::multiply_add<IS_BF16, true>(scores_[0], q_ + (panel * S::tile_m * 128 + bytes) / 16,
                                               k + (panel * S::tile_keys * 128 + bytes) / 16, s > 0);
        });
        wgmma::commit();
        wgmma::fence_accumulators(scores_);
    }
    __device__ __forceinline__ void wait_scores() {
        wgmma::wait<0>();
        wgmma::fence_accumulators(scores_);
        release_k();
    }

    // O += P x V of the next block; its first one's sums begin at zero.
    __device__ __forceinline__ void issue_outputs(bool is_adding) {
        mbarrier::wait(shared_.v_full(v_place_.slot), v_place_.parity);
        const wgmma::Descriptor v = v_ + v_place_.slot * (S::kv_bytes / 16);
        wgmma::fence_accumulators(outputs_);
        wgmma::fence();
        each<S::tile_keys / 16>([&](auto step) {
            constexpr int s = step.value;
            wgmma::RegisterMultiplyAdd<S::head, IS_BF16>::run(outputs_[0], probabilities_ + 4 * s, v + s * 16 * 128 / 16,
                                                              s > 0 || is_adding);
        });
        wgmma::commit();
        wgmma::fence_accumulators(outputs_);
    }
    __device__ __forceinline__ void wait_outputs() {
        wgmma::wait<0>();
        wgmma::fence_accumulators(outputs_);
        release(shared_.v_empty(v_place_.slot));
        v_place_.advance();
    }

    __device__ __forceinline__ void release_k() {
        release(shared_.k_empty(k_place_.slot));
        k_place_.advance();
    }

    // This warp no longer reads what the barrier stands for.
    static __device__ __forceinline__ void release(unsigned empty) {
        if ((threadIdx.x & 31) == 0) mbarrier::arrive(empty);
    }

    // Scores of keys that a row does not see, and of those before the first, become minus infinity.
    template <bool IS_FIRST>
    __device__ __forceinline__ void mask(int block) {
        const float minus_infinity = __int_as_float(0xff800000);
        const int first = p_.first_key + block * S::tile_keys + 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int seen = S::is_causal ? min(p_.keys - p_.length + row_ + 8 * row + 1, p_.keys) : p_.keys;
#pragma unroll
            for (int i = 2 * row; i < S::tile_keys / 2; i += 4) {
                const int key = first + i / 4 * 8;
                if (key >= seen || (IS_FIRST && key < 0)) scores_[0][i] = minus_infinity;
                if (key + 1 >= seen || (IS_FIRST && key + 1 < 0)) scores_[0][i + 1] = minus_infinity;
            }
        }
    }

    // P: the block's probabilities in pairs, some of them dropped.
    __device__ __forceinline__ void round(int block) {
        if constexpr (S::has_dropout) {
            const int row = row_ - static_cast<int>(threadIdx.x % 32 / 4);
#pragma unroll
            for (int i = 0; i < S::tile_keys / 2; i += 4) {
                float* const s = scores_[0] + i;
                p_.dropout.drop(s[0], s[1], s[2], s[3], block * S::tile_keys + 2 * i, row, head_);
            }
        }
#pragma unroll
        for (int i = 0; i < S::tile_keys / 4; ++i)
            probabilities_[i] = pack<IS_BF16>(scores_[0][2 * i], scores_[0][2 * i + 1]);
    }

    // The tile's outputs, divided by the sums and rounded, to shared memory, in the swizzle that TMA expects; NaN where the
    // inputs may never have come.
    __device__ __forceinline__ void finish(bool is_poisoned) {
        float factor[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            factor[row] = is_poisoned ? __int_as_float(0x7fffffff) : softmax_.inverse_sum(row);
            if constexpr (S::has_dropout) factor[row] *= p_.dropout.scale;
        }
        mbarrier::wait(shared_.out_empty(group_), out_place_.parity ^ 1);
        const int lane = threadIdx.x & 31, warp = (threadIdx.x / 32) & 3;
        // Lane l names row l % 16 of the left (l < 16) or right of two neighbouring 16-byte chunks.
        const unsigned row = shared_.out_of(group_) + (warp * 16 + (lane & 15)) * 128;
#pragma unroll
        for (int i = 0; i < S::head / 16; ++i) {
            const float* const o = outputs_[0] + 8 * i;
            const unsigned chunk = ((2 * (i % 4) + (lane >> 4)) ^ (lane & 7)) << 4;
            store_matrices(row + i / 4 * 64 * 128 + chunk, pack<IS_BF16>(o[0] * factor[0], o[1] * factor[0]),
                           pack<IS_BF16>(o[2] * factor[1], o[3] * factor[1]), pack<IS_BF16>(o[4] * factor[0], o[5] * factor[0]),
                           pack<IS_BF16>(o[6] * factor[1], o[7] * factor[1]));
        }
        tma::fence_proxy_shared();
        __syncwarp();
        release(shared_.out_full(group_));
        out_place_.advance();
    }

    static __device__ __forceinline__ void store_matrices(unsigned to, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r0), "r"(r1), "r"(r2),
                     "r"(r3)
                     : "memory");
    }

    // Products are issued by one warpgroup after the other (CUTLASS: ordered sequence barrier): a named barrier each, at
    // which 128 threads arrive and 128 wait.
    __device__ __forceinline__ void order_wait() const {
        asm volatile("bar.sync %0, 256;" ::"r"(first_order_barrier + group_) : "memory");
    }
    static __device__ __forceinline__ void order_arrive(int group) {
        asm volatile("bar.arrive %0, 256;" ::"r"(first_order_barrier + group) : "memory");
    }

    const AttentionSm90Params& p_;
    const Shared<S>& shared_;
    const int group_, row_in_tile_;
    wgmma::Descriptor q_, k_, v_;  // of this warpgroup's rows; of the first slots
    float scores_[1][S::tile_keys / 2], outputs_[1][S::head / 2];
    unsigned probabilities_[S::tile_keys / 4];
    OnlineSoftmax softmax_;
    mbarrier::Place<1> q_place_, out_place_;
    Place k_place_, v_place_;
    int row_, head_;  // the first of this thread's two rows, within its sequence; the head, counted through all sequences
};
