// An MMA warpgroup: accumulates the k-blocks of the pipeline, reduces splits, and writes outputs to the epilogue buffers.
#pragma once

#include <kernels/gemm/sm90/splits.cuh>
#include <kernels/gemm/sm90/wgmma.cuh>

// RESIDUAL: what epilogue buffers are handed over with.
template <class S, bool IS_BF16, Residual RESIDUAL>
class MmaWarpgroup {
public:
    __device__ __forceinline__ MmaWarpgroup(const Shared<S>& shared, int group) : shared_(shared), group_(group) {
        a_ = wgmma::describe(shared.ring + group * S::frags_m * S::panel_bytes, 16, 1024);
        b_ = wgmma::describe(shared.ring + S::a_bytes, S::panel_bytes, 1024);
    }

    template <class... Parts>
    __device__ __forceinline__ void run(const Parts&... parts) {
        const auto wait = [&](unsigned barrier, unsigned parity) {
            if (!try_wait(barrier, parity)) flush_deferred_stores();
            mbarrier::wait(barrier, parity);
        };
        for_each_tile<S>(shared_, wait, [&](WorkTile& work, int) {
            if constexpr (adds_bias<Parts...>) with_part(work, [&](const auto& part) { begin_sums(part, work); }, parts...);
            constexpr bool can_abort = ((Parts::Generated::input_count > 0) || ...);
            if constexpr ((Parts::Form::is_short && ...)) {
                return with_part(work, [&](const auto& part) { compute_short<can_abort>(part, work); }, parts...);
            }
            if constexpr (shares_b_order<Parts...>) {
                accumulate<can_abort, adds_bias<Parts...>, (is_k_major<Parts> && ...)>(work.first, work.last);
            } else {
                with_part(work, [&](const auto& part) {
                    accumulate_part<can_abort, adds_bias<Parts...>>(part, work);
                }, parts...);
            }
            flush_deferred_stores();
            with_part(work, [&](const auto& part) { finish(part, work); }, parts...);
        });
        flush_deferred_stores();
    }

private:
    template <class... Parts>
    static constexpr bool adds_bias = (Parts::Form::has_bias || ...);
    template <class Part>
    static constexpr bool is_k_major = Part::Form::b_order == Order::column;
    template <class... Parts>
    static constexpr bool shares_b_order = (is_k_major<Parts> && ...) || !(is_k_major<Parts> || ...);

    template <bool CAN_ABORT, bool HAS_BEGUN, class Part>
    __device__ __forceinline__ void accumulate_part(const Part&, const WorkTile& work) {
        accumulate<CAN_ABORT, HAS_BEGUN, is_k_major<Part>>(work.first, work.last);
    }

    // A short form's tile: its split is counted before the main loop, not behind it.
    template <bool CAN_ABORT, class Part>
    __device__ __forceinline__ void compute_short(const Part& part, WorkTile& work) {
        int came_before = 0;
        if (work.splits > 1 && threadIdx.x == 128) came_before = count_split(part.p, work);
        accumulate_part<CAN_ABORT, adds_bias<Part>>(part, work);
        flush_deferred_stores();
        finish(part, work, came_before);
    }

    // sum_ = the product over k-blocks `first` up to, not including, `last`. One batch of multiply-adds (a k-block's)
    // stays in flight while the next one is issued. Where the next k-block is not there yet, the slot is released and
    // deferred stores are flushed first: a producer warp, here or elsewhere, may be waiting for either. Where the A of a
    // tile may never have come the sum is then NaN. HAS_BEGUN: the product is added to what sum_ holds.
    template <bool CAN_ABORT, bool HAS_BEGUN, bool IS_B_K_MAJOR>
    __device__ __forceinline__ void accumulate(int first, int last) {
        // From b_, which describes panels, to a step of B; a K-major one has no panels: its leading offset is 16, as A's.
        constexpr wgmma::Descriptor no_panels = IS_B_K_MAJOR ? wgmma::leading(16) - wgmma::leading(S::panel_bytes) : 0;
        bool is_one_running = false;
        for (int k_block = first; k_block < last; ++k_block) {
            const unsigned full = shared_.full(place_.slot);
            if (!try_wait(full, place_.parity)) {
                if (is_one_running) wait_batches<0>();
                is_one_running = false;
                flush_deferred_stores();
                mbarrier::wait(full, place_.parity);
            }
            const wgmma::Descriptor slot = place_.slot * (S::slot_bytes / 16);
            wgmma::fence_accumulators(sum_);
            wgmma::fence();
            each<S::tile_k / 16>([&](auto step) {
                constexpr int s = step.value, b_bytes = IS_B_K_MAJOR ? s * 32 : s * 16 * 128;
                each<S::frags_m>([&](auto fragment) {
                    wgmma::multiply_add<IS_BF16, IS_B_K_MAJOR>(
                        sum_[fragment.value], a_ + slot + (fragment.value * S::panel_bytes + s * 32) / 16,
                        b_ + slot + (b_bytes / 16 + no_panels), HAS_BEGUN || s > 0 || k_block > first);
                });
            });
            wgmma::commit();
            wgmma::fence_accumulators(sum_);
            if (is_one_running) {
                flush_deferred_stores();  // two batches run meanwhile
                wait_batches<1>();
            }
            is_one_running = true;
            previous_ = place_.slot;
            place_.advance();
        }
        wait_batches<0>();
        wgmma::fence_accumulators(sum_);  // what reads the sums comes after the wait
        // Behind the last k-block's barrier, which comes after the producer warp's word.
        if (CAN_ABORT && shared_.control().is_aborted) poison<S>(sum_);
    }

    // Waits until all batches but PENDING have ended; the slot of the one waited for is then free.
    template <int PENDING>
    __device__ __forceinline__ void wait_batches() {
        wgmma::wait<PENDING>();
        release(previous_);
    }

    // Whether the phase has ended, by one look, and the same answer for all lanes.
    static __device__ __forceinline__ bool try_wait(unsigned barrier, unsigned parity) {
        return __all_sync(0xffffffffu, mbarrier::test_wait(barrier, parity));
    }

    // This warp no longer reads the slot: arrives in every block whose loads go there.
    __device__ __forceinline__ void release(int slot) const {
        const unsigned lane = threadIdx.x & 31;
        if constexpr (S::cluster == 1) {
            if (lane == 0) mbarrier::arrive(shared_.empty(slot));
        } else {
            if (lane < S::cluster) mbarrier::arrive_remote(shared_.empty(slot), lane);
        }
    }

    // In bias.cuh: what the product is added to.
    template <class Part>
    __device__ __forceinline__ void begin_sums(const Part& part, const WorkTile& work);

    // 64 columns of a fragment's outputs, as stmatrix takes them: four groups of 16 columns, four words each.
    using Piece = unsigned[16];

    // In rope.cuh.
    template <class Params, int DIM>
    __device__ __forceinline__ void rotate_heads(const Params& p, const cusync::Tile& tile);

    // In epilogue.cuh: what becomes of the sums.
    template <class Part>
    __device__ __forceinline__ void finish(const Part& part, WorkTile& work, int came_before = 0);
    template <class Form>
    static __device__ __forceinline__ void round_piece(const float (&sum)[S::tile_n / 2], int piece, Piece& rounded);
    template <Activation ACTIVATION>
    static __device__ __forceinline__ void round_products(const float* sum, unsigned* rounded);
    __device__ __forceinline__ void wait_for_buffer() const;
    __device__ __forceinline__ void write_piece(const Piece& piece);
    __device__ __forceinline__ void publish_no_outputs(WorkTile& work);
    __device__ __forceinline__ void flush_deferred_stores();
    __device__ __forceinline__ void publish_buffer();
    static __device__ __forceinline__ void store_matrices(unsigned to, const unsigned* r);
    static __device__ __forceinline__ void add_matrices(unsigned from, const unsigned* r, unsigned (&sums)[4]);

    const Shared<S>& shared_;
    const int group_;
    wgmma::Descriptor a_, b_;  // of the pipeline's first slot
    Sums<S> sum_;
    mbarrier::Place<S::pipeline_depth> place_;
    mbarrier::Place<S::epilogue_buffers> buffer_;
    int previous_ = 0;
    Piece deferred_[S::epilogue_buffers];  // until the next tile's first multiply-adds are on their way
    int deferred_count_ = 0;
};
