// A math warpgroup: multiplies and adds the chunks of the ring, sums up slices, hands the outputs over.
#pragma once

#include <kernels/sm90/slices.cuh>
#include <kernels/sm90/wgmma.cuh>

template <class S, bool IS_BF16>
class MathGroup {
public:
    __device__ __forceinline__ MathGroup(const Shared<S>& shared, int group) : shared_(shared), group_(group) {
        a_ = wgmma::describe(shared.ring + group * S::frags_m * S::panel_bytes, 16, 1024);
        b_ = wgmma::describe(shared.ring + S::a_bytes, S::panel_bytes, 1024);
    }

    template <class... Parts>
    __device__ __forceinline__ void run(const Parts&... parts) {
        const auto wait = [&](unsigned barrier, unsigned parity) {
            if (!has_ended(barrier, parity)) hand_over_held();
            mbarrier::wait(barrier, parity);
        };
        for_each_tile<S>(shared_, wait, [&](TileNote& note, int) {
            accumulate(note.first, note.last);
            hand_over_held();
            with_part(note, [&](const auto& part) { finish(part, note); }, parts...);
        });
        hand_over_held();
    }

private:
    // sum_ = the product over these chunks. One batch of multiply-adds stays in flight, as long as there is another one
    // to start; else its slot is wanted back, and outputs that were held back may be what others wait for.
    __device__ __forceinline__ void accumulate(int first, int last) {
        bool is_one_running = false;
        for (int chunk = first; chunk < last; ++chunk) {
            const unsigned full = shared_.full(place_.slot);
            if (!has_ended(full, place_.parity)) {
                if (is_one_running) settle<0>();
                is_one_running = false;
                hand_over_held();
                mbarrier::wait(full, place_.parity);
            }
            const wgmma::Descriptor slot = place_.slot * (S::stage_bytes / 16);
            wgmma::begin();
            each<S::tile_k / 16>([&](auto step) {
                constexpr int s = step.value;
                each<S::frags_m>([&](auto fragment) {
                    wgmma::multiply_add<IS_BF16>(sum_[fragment.value],
                                                 a_ + slot + (fragment.value * S::panel_bytes + s * 32) / 16,
                                                 b_ + slot + s * 16 * 128 / 16, s > 0 || chunk > first);
                });
            });
            wgmma::commit();
            if (is_one_running) {
                hand_over_held();  // two batches run meanwhile
                settle<1>();
            }
            is_one_running = true;
            previous_ = place_.slot;
            place_.advance();
        }
        settle<0>();
    }

    // Until all batches but PENDING have ended: the slot of the one that was waited for is free.
    template <int PENDING>
    __device__ __forceinline__ void settle() {
        wgmma::wait<PENDING>();
        release(previous_);
    }

    // As one look tells, and for all lanes alike.
    static __device__ __forceinline__ bool has_ended(unsigned barrier, unsigned parity) {
        return __all_sync(0xffffffffu, mbarrier::has_ended_now(barrier, parity));
    }

    // This warp no longer needs the slot: told to every block whose loads go there.
    __device__ __forceinline__ void release(int slot) const {
        const unsigned lane = threadIdx.x & 31;
        if constexpr (S::cluster == 1) {
            if (lane == 0) mbarrier::arrive(shared_.empty(slot));
        } else {
            if (lane < S::cluster) mbarrier::arrive_remote(shared_.empty(slot), lane);
        }
    }

    // 64 columns of a fragment's outputs, as stmatrix takes them: four groups of 16 columns, four words each.
    using Piece = unsigned[16];

    // In epilogue.cuh: what becomes of the sums.
    template <class Part>
    __device__ __forceinline__ void finish(const Part& part, TileNote& note);
    template <Activation ACTIVATION>
    static __device__ __forceinline__ void round_piece(const float (&sum)[S::tile_n / 2], int piece, Piece& rounded);
    static __device__ __forceinline__ void round_products(const float* sum, unsigned* rounded);
    template <Activation ACTIVATION>
    static __device__ __forceinline__ float activated(float x);
    static __device__ __forceinline__ float swiglu(float gate, float value);
    __device__ __forceinline__ void hand_over(const Piece& piece);
    __device__ __forceinline__ void hand_over_nothing(TileNote& note);
    __device__ __forceinline__ void hand_over_held();
    __device__ __forceinline__ void hand_over_slot();
    static __device__ __forceinline__ void store_matrices(unsigned to, const unsigned* r);

    const Shared<S>& shared_;
    const int group_;
    wgmma::Descriptor a_, b_;  // of the ring's first slot
    Sums<S> sum_;
    mbarrier::Place<S::stages> place_;
    mbarrier::Place<S::staged> staged_;
    int previous_ = 0;
    Piece held_[S::staged];  // until the next tile's first multiply-adds are on their way
    int held_count_ = 0;
};
